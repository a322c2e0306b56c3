"""The evidence of a job leaves as a bundle that a stranger can judge, and nobody can change."""

from __future__ import annotations

import ast
import base64
import hashlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import cryptography
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from django.core.management import CommandError, call_command
from django.db import models, transaction

from agents.models import Agent
from fencepost_worker import verify_evidence as verifier
from governance.core import audit, clock
from governance.core.models import GENESIS, AuditEvent
from governance.evidence import bundle, checkpoints, envelopes
from governance.evidence.chain import Head
from jobs import evidence, transitions
from jobs.models import Job, Task
from tests.jobs.governed import Governed
from tests.money import beside
from tests.work import ANNA

pytestmark = pytest.mark.django_db

SECRET = "a goal that only few may read"
MakeJob = Callable[..., Job]


@pytest.fixture(autouse=True)
def keys_of_the_test(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def job(governed: Governed, make_job: MakeJob) -> Job:
    """A job with a decision of every kind of row that most jobs have."""
    Agent.objects.update(max_risk_tier="high")
    made = make_job(risk_tier="high", goal=SECRET, inputs={"n": 1, "on": True, "none": None})
    transitions.approve(task_id=made.task_id, **ANNA)
    governed.result(governed.begin(made))
    binding = governed.binding(made)
    completion = {
        "task_id": made.task_id,
        "attempt": made.attempt,
        "fencing_token": binding.fencing_token,
        "result": {"text": "done", "share": 0.5},
    }
    transitions.complete(entry=governed.entry, completions=[completion])
    transitions.review(task_id=made.task_id, verdict="accepted", **ANNA)
    made.refresh_from_db()
    return made


@pytest.fixture
def bundled(job: Job, tmp_path: Path) -> Path:
    return exported(job, tmp_path / "evidence.zip", with_payloads=True)


def exported(job: Job, path: Path, **options: Any) -> Path:
    with path.open("wb") as out:
        evidence.export(task_id=job.task_id, out=out, actor="user:test", **options)
    return path


def members_of(path: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(path) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def rewritten(path: Path, members: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in members.items():
            archive.writestr(name, content)
    return path


def fingerprint() -> str:
    return envelopes.active_key().keyid


def found(path: Path, *keys: str) -> list[tuple[str, str, str]]:
    return verifier.verify(path, keys or [fingerprint()]).lines


def failing(path: Path, *keys: str) -> list[tuple[str, str]]:
    return [(place, text) for word, place, text in found(path, *keys) if word == "FAILS"]


def lines_of(members: dict[str, bytes], name: str) -> list[Any]:
    return [json.loads(line) for line in members[name].splitlines()]


def put_lines(members: dict[str, bytes], name: str, values: list[Any]) -> None:
    members[name] = b"".join(checkpoints.encode(value) + b"\n" for value in values)


def signed_anew(path: Path, members: dict[str, bytes], **over: Any) -> Path:
    """Write the members under a manifest that our own key signs: only their contents can tell."""
    stated = json.loads(base64.b64decode(json.loads(members["manifest.json"])["payload"]))
    content = bundle.Members(
        {name: raw for name, raw in members.items() if name != "manifest.json"},
        {
            name: [hashlib.sha256(line).hexdigest() for line in raw.splitlines()]
            for name, raw in members.items()
            if name.endswith(".jsonl")
        },
    )
    manifest = stated | {"members": content.stated()} | over
    signed = envelopes.sign(manifest, payload_type=bundle.MANIFEST_TYPE)
    return rewritten(path, members | {"manifest.json": envelopes.canonical(signed)})


# --- What is in it ----------------------------------------------------------------------------


def test_a_bundle_holds(bundled: Path) -> None:
    assert failing(bundled) == []
    assert [line for line in found(bundled) if line[0] == "open"] == []
    assert lines_of(members_of(bundled), "rows/approvals.jsonl")[0]["decided_by"] == "user:anna"


def test_every_table_is_in_it_and_those_of_this_job_have_rows(bundled: Path) -> None:
    members = members_of(bundled)
    empty = {name for name in evidence.TABLES if not members[f"rows/{name}.jsonl"]}
    assert empty == {
        "escalations", "retry_extensions", "execution_evidence", "reconciliations", "artifacts",
        "reflections", "unreserved_uses", "disputed_uses", "dispute_verdicts",
        "adjustments", "adjustment_verdicts",
    }  # fmt: skip


def test_every_table_that_belongs_to_a_job_is_in_it() -> None:
    """A table that somebody adds beside jobs is gathered too, or named here with the reason."""
    gathered = {
        table.of(Job(pk=0, job_id=Job().job_id)).model for table in evidence.TABLES.values()
    }
    beside = {
        "Lease": "lives as long as an attempt; the attempt is the history",
        "SetAside": "says that the service could not read the job, and nothing of what was done",
    }
    owned = {
        relation.related_model
        for relation in Job._meta.get_fields()
        if isinstance(relation, models.ManyToOneRel | models.OneToOneRel)
    }
    assert {model.__name__ for model in owned - gathered} == set(beside)


def test_inputs_and_results_leave_only_when_asked_for(job: Job, tmp_path: Path) -> None:
    path = exported(job, tmp_path / "bare.zip")
    members = members_of(path)
    assert not [name for name in members if name.startswith("payloads/")]
    whole = b"".join(members.values())
    assert SECRET.encode() not in whole and base64.b64encode(SECRET.encode()) not in whole
    assert "payload" not in json.loads(members["envelope.json"])
    assert failing(path) == []
    opened = [place for word, place, _ in found(path) if word == "open"]
    assert sorted(opened) == ["envelope.json", "payloads"]


def test_who_has_the_envelope_can_bring_it(job: Job, tmp_path: Path) -> None:
    path = exported(job, tmp_path / "bare.zip")
    brought = json.dumps(job.task.envelope).encode()
    report = verifier.verify(path, [fingerprint()], brought)
    assert ("holds", "envelope.json") in {line[:2] for line in report.lines}

    stated = json.loads(base64.b64decode(job.task.envelope["payload"])) | {"goal": "another"}
    other = json.dumps(envelopes.sign(stated)).encode()
    report = verifier.verify(path, [fingerprint()], other)
    assert ("FAILS", "envelope.json", "its digest is not the task's") in report.lines


def test_a_payload_that_may_not_leave_is_named_and_left_out(job: Job, tmp_path: Path) -> None:
    path = exported(
        job, tmp_path / "a.zip", with_payloads=True, showable=lambda v: "done" not in str(v)
    )
    assert b"done" not in b"".join(
        raw for name, raw in members_of(path).items() if name.startswith("payloads/")
    )
    assert failing(path) == []
    assert ("open", "payloads", "1 that may hold secrets were left out") in found(path)


def test_an_export_is_on_the_audit_trail(job: Job, tmp_path: Path) -> None:
    exported(job, tmp_path / "a.zip", with_payloads=True)
    begun, ended = AuditEvent.objects.filter(subject="fleet").order_by("-seq")[:2][::-1]
    details = json.loads(bytes(begun.body))["details"]
    assert (begun.action, ended.action) == ("export.begun", "export.ended")
    assert (details["filter"], details["form"]) == (job.task_id, "evidence with payloads")
    assert begun.actor == "user:test"


def test_the_export_names_the_events_that_no_checkpoint_covers(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    checkpoints.seal()
    sealed = Job.objects.get(pk=job.pk).audit_seq
    with transaction.atomic():
        locked = Job.objects.select_for_update(no_key=True).get(pk=job.pk)
        for _ in range(2):
            note(locked)
    monkeypatch.setattr(checkpoints, "seal", lambda: None)
    with (tmp_path / "a.zip").open("wb") as out:
        done = evidence.export(task_id=job.task_id, out=out, actor="user:test")
    assert done.unsealed == (sealed + 1, sealed + 2)
    assert failing(tmp_path / "a.zip") == []
    text = f"events {sealed + 1} to {sealed + 2}: no checkpoint covers them"
    assert ("open", "chain.jsonl", text) in found(tmp_path / "a.zip")


def note(job: Job) -> None:
    audit.record(job, action="job.noted", actor="user:test", at=clock.now())


@pytest.mark.django_db(transaction=True)
def test_an_export_reads_one_snapshot_of_what_it_has_sealed(
    make_job: MakeJob, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Who acts on the job while it is read out is in none of the tables, or in all."""
    made = make_job()
    gather = evidence.TABLES["attempts"].of

    def pause_beside(job: Job) -> Any:
        with beside(transitions.pause, task_id=job.task_id, **ANNA) as other:
            other.result(timeout=20)
        return gather(job)

    table = replace(evidence.TABLES["attempts"], of=pause_beside)
    monkeypatch.setitem(evidence.TABLES, "attempts", table)
    path = exported(made, tmp_path / "a.zip")
    made.refresh_from_db()
    assert made.paused and len(lines_of(members_of(path), "chain.jsonl")) == made.audit_seq - 1
    assert failing(path) == []
    assert "chain.jsonl" not in {place for word, place, _ in found(path) if word == "open"}


def test_an_installation_without_a_checkpoint_says_so(
    job: Job, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "seal", lambda: None)
    path = exported(job, tmp_path / "a.zip")
    assert failing(path) == []
    text = f"events 1 to {job.audit_seq}: no checkpoint covers them"
    assert ("open", "chain.jsonl", text) in found(path)


def test_equal_contents_are_equal_members(job: Job, tmp_path: Path) -> None:
    one, two = (members_of(exported(job, tmp_path / name)) for name in ("a.zip", "b.zip"))
    del one["manifest.json"], two["manifest.json"]
    assert one == two


# --- The command and a stranger ---------------------------------------------------------------


def stranger(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the verifier with the standard library, `cryptography`, and nothing else."""
    packages = folder / "only-cryptography"
    if not packages.exists():
        packages.mkdir()
        site = Path(cryptography.__file__).parents[1]
        for pattern in ("cryptography", "cffi", "_cffi_backend*", "pycparser"):
            for path in site.glob(pattern):
                (packages / path.name).symlink_to(path)
    program = (
        f"import runpy, sys; sys.path.append({str(packages)!r});"
        "sys.argv = sys.argv[1:]; runpy.run_path(sys.argv[0], run_name='__main__')"
    )
    return subprocess.run(
        [sys.executable, "-I", "-S", "-c", program, *arguments],
        cwd=folder,
        env={},
        capture_output=True,
        text=True,
        timeout=60,
    )


def test_a_stranger_verifies_it_with_the_file_from_inside(job: Job, tmp_path: Path) -> None:
    said = io.StringIO()
    call_command("export_evidence", job.task_id, out=tmp_path / "e.zip", stdout=said)
    (tmp_path / "v.py").write_bytes(members_of(tmp_path / "e.zip")["verify_evidence.py"])
    assert f"--key-fingerprint {fingerprint()}" in said.getvalue()

    done = stranger(tmp_path, "v.py", "e.zip", "--key-fingerprint", fingerprint())
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.splitlines()[-1] == "e.zip: none of it fails, 2 is left open."

    strict = stranger(tmp_path, "v.py", "e.zip", "--key-fingerprint", fingerprint(), "--strict")
    assert strict.returncode == 1
    unnamed = stranger(tmp_path, "v.py", "e.zip")
    assert unnamed.returncode == 2 and "--key-fingerprint" in unnamed.stderr
    other = stranger(tmp_path, "v.py", "e.zip", "--key-fingerprint", "ab" * 32)
    assert other.returncode == 1
    assert f"{fingerprint()}, for which no --key-fingerprint was given" in other.stdout
    absent = stranger(tmp_path, "v.py", "none.zip", "--key-fingerprint", "ab" * 32)
    assert (absent.returncode, absent.stdout) == (2, "")


def test_the_command_prints_the_workers_own_verifier(job: Job) -> None:
    said = io.StringIO()
    call_command("export_evidence", verifier=True, stdout=said)
    assert said.getvalue() == Path(verifier.__file__).read_text(encoding="utf-8")


def test_the_command_refuses_what_is_not_there(world: None, tmp_path: Path) -> None:
    with pytest.raises(CommandError, match="no job"):
        call_command("export_evidence", "nothing", out=tmp_path / "e.zip")
    with pytest.raises(CommandError, match="TASK_ID"):
        call_command("export_evidence", "nothing")
    assert list(tmp_path.glob("e.zip*")) == []


def test_the_verifier_needs_no_newer_python_than_the_project() -> None:
    ast.parse(Path(verifier.__file__).read_text(encoding="utf-8"), feature_version=(3, 11))


# --- Changed behind the manifest's back -------------------------------------------------------


def test_each_member_that_is_changed_removed_or_added_is_named(
    bundled: Path, tmp_path: Path
) -> None:
    members = members_of(bundled)
    for name, content in members.items():
        changed = rewritten(tmp_path / "t.zip", members | {name: content + b" "})
        assert name in {place for place, _ in failing(changed)}, name
        less = {other: raw for other, raw in members.items() if other != name}
        assert name in {place for place, _ in failing(rewritten(tmp_path / "t.zip", less))}, name
    added = rewritten(tmp_path / "t.zip", members | {"rows/more.jsonl": b"{}\n"})
    assert failing(added) == [
        ("rows/more.jsonl", "it was added: the manifest does not know it")
    ]  # fmt: skip


def changes(value: Any) -> Iterator[Any]:
    """Yield the value with one part of it changed, for each part and each class of JSON value."""
    if isinstance(value, dict):
        for key, member in value.items():
            yield {other: part for other, part in value.items() if other != key}
            for change in changes(member):
                yield value | {key: change}
        yield value | {"added": None}
        return
    if isinstance(value, list):
        for place, member in enumerate(value):
            yield value[:place] + value[place + 1 :]
            for change in changes(member):
                yield [*value[:place], change, *value[place + 1 :]]
        yield [*value, 0]
        return
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, str):
        yield value + "x"
        yield None
    elif value is None:
        yield ""
        yield False
    else:
        yield value + 1
        yield str(value)


def test_every_value_that_is_changed_is_named_by_its_member_and_its_line(
    bundled: Path, tmp_path: Path
) -> None:
    members, tried = members_of(bundled), 0
    for name in members:
        if name.endswith(".jsonl"):
            lines = lines_of(members, name)
            for number, line in enumerate(lines, 1):
                for change in changes(line):
                    touched = dict(members)
                    put_lines(touched, name, [*lines[: number - 1], change, *lines[number:]])
                    wrong = failing(rewritten(tmp_path / "t.zip", touched))
                    assert (name, f"line {number} was changed") in wrong, (name, change)
                    tried += 1
        elif name.endswith(".json"):
            for change in changes(json.loads(members[name])):
                touched = members | {name: verifier.canonical(change)}
                places = {place for place, _ in failing(rewritten(tmp_path / "t.zip", touched))}
                assert name in places, (name, change)
                tried += 1
    assert tried > 500


def test_lines_that_are_removed_added_or_swapped_are_named(bundled: Path, tmp_path: Path) -> None:
    members = members_of(bundled)
    lines = lines_of(members, "chain.jsonl")

    def said(values: list[Any]) -> list[str]:
        touched = dict(members)
        put_lines(touched, "chain.jsonl", values)
        wrong = failing(rewritten(tmp_path / "t.zip", touched))
        return [text for place, text in wrong if place == "chain.jsonl"]

    assert "line 2 was removed" in said([lines[0], *lines[2:]])
    assert f"line {len(lines) + 1} was added" in said([*lines, lines[0]])
    assert "lines 2, 3 stand in another order" in said([lines[0], lines[2], lines[1], *lines[3:]])


def test_a_member_twice_is_no_way_to_show_two_things(bundled: Path) -> None:
    with zipfile.ZipFile(bundled, "a") as archive, pytest.warns(UserWarning, match="Duplicate"):
        archive.writestr("rows/job.jsonl", b"{}\n")
    assert ("rows/job.jsonl", "it is in the file twice") in failing(bundled)


def test_another_key_vouches_for_nothing(bundled: Path, tmp_path: Path) -> None:
    """Whoever forges a bundle has a key too, and may put it in."""
    members = members_of(bundled)
    forger = Ed25519PrivateKey.generate()
    raw = forger.public_key().public_bytes_raw()
    keyid = hashlib.sha256(raw).hexdigest()
    manifest = json.loads(members["manifest.json"])
    body = base64.b64decode(manifest["payload"])
    signature = forger.sign(envelopes.pre_authentication(bundle.MANIFEST_TYPE, body))
    manifest["signatures"] = [{"keyid": keyid, "sig": base64.b64encode(signature).decode()}]
    keys = json.loads(members["keys.json"])
    keys["keys"].append({"keyid": keyid, "keyval": {"public": raw.hex()}})
    members |= {
        "manifest.json": envelopes.canonical(manifest),
        "keys.json": envelopes.canonical(keys),
    }
    path = rewritten(tmp_path / "t.zip", members)
    named = f"it is signed by the key {keyid}, for which no --key-fingerprint was given"
    assert ("manifest.json", named) in failing(path)
    # Nor does it, under the name of the right one.
    keys["keys"][-1]["keyid"] = manifest["signatures"][0]["keyid"] = fingerprint()
    keys["keys"] = keys["keys"][-1:]
    members |= {
        "manifest.json": envelopes.canonical(manifest),
        "keys.json": envelopes.canonical(keys),
    }
    wrong = failing(rewritten(tmp_path / "t.zip", members))
    assert ("keys.json", f"the key {fingerprint()} does not have that fingerprint") in wrong
    assert "manifest.json" in {place for place, _ in wrong}


def test_what_was_signed_before_a_rotation_needs_that_key_as_well(job: Job, tmp_path: Path) -> None:
    old, new = envelopes.rotate()
    path = exported(job, tmp_path / "a.zip", with_payloads=True)
    assert failing(path, old, new) == []
    wrong = failing(path, new)
    assert [place for place, _ in wrong] == ["envelope.json"]
    assert old in wrong[0][1]


# --- Signed by the right key, and still not so ------------------------------------------------


def test_events_that_are_removed_swapped_edited_or_foreign_are_named(
    bundled: Path, tmp_path: Path
) -> None:
    members = members_of(bundled)
    lines = lines_of(members, "chain.jsonl")

    def said(values: list[Any]) -> list[str]:
        touched = dict(members)
        put_lines(touched, "chain.jsonl", values)
        wrong = failing(signed_anew(tmp_path / "t.zip", touched))
        return [text for place, text in wrong if place == "chain.jsonl"]

    assert said([lines[0], *lines[2:]]) == ["event 2 is not before event 3: removed or moved"]
    swapped = said([lines[0], lines[2], lines[1], *lines[3:]])
    assert "event 2 stands where event 4 should" in swapped
    body = json.loads(lines[1]["body"]) | {"actor": "user:eve"}
    edited = lines[1] | {"body": checkpoints.encode(body).decode()}
    assert said([lines[0], edited, *lines[2:]]) == [
        "event 2 was changed: its bytes do not give its hash"
    ]  # fmt: skip
    relinked = edited | {"hash": link_of(edited)}
    assert said([lines[0], relinked, *lines[2:]]) == [
        "event 3 does not continue the one before it"
    ]  # fmt: skip
    assert said([]) == ["there is no event"]


def link_of(line: dict[str, Any]) -> str:
    return hashlib.sha256(bytes.fromhex(line["prev_hash"]) + line["body"].encode()).hexdigest()


def forged_chain(members: dict[str, bytes]) -> None:
    """Replace the whole chain by one that is sound in itself, and let the job's row follow."""
    before, lines = GENESIS.hex(), []
    for line in lines_of(members, "chain.jsonl"):
        body = json.loads(line["body"]) | {"reason": "forged"}
        forged = {"prev_hash": before, "body": checkpoints.encode(body).decode()}
        before = link_of(forged)
        lines.append(forged | {"hash": before})
    put_lines(members, "chain.jsonl", lines)
    [job] = lines_of(members, "rows/job.jsonl")
    put_lines(members, "rows/job.jsonl", [job | {"audit_head": before}])


def test_a_chain_that_was_forged_as_a_whole_is_not_what_was_sealed(
    bundled: Path, tmp_path: Path
) -> None:
    members = members_of(bundled)
    forged_chain(members)
    wrong = failing(signed_anew(tmp_path / "t.zip", members))
    seq = len(lines_of(members, "chain.jsonl"))
    assert ("checkpoint.json", f"event {seq} is not the one that was sealed") in wrong
    sealed = json.loads(members["checkpoint.json"])
    sealed["leaf"]["hash"] = lines_of(members, "chain.jsonl")[-1]["hash"]
    members["checkpoint.json"] = checkpoints.encode(sealed)
    wrong = failing(signed_anew(tmp_path / "t.zip", members))
    root = "the proof does not lead from the chain to the root of the checkpoint"
    assert ("checkpoint.json", root) in wrong


def test_a_checkpoint_is_as_it_was_signed(bundled: Path, tmp_path: Path) -> None:
    members = members_of(bundled)
    sealed = json.loads(members["checkpoint.json"])
    for name, value in sealed["checkpoint"].items():
        if name == "envelope":
            continue
        other = value + 1 if isinstance(value, int) else "00" + value[2:] + "0"
        touched = sealed | {"checkpoint": sealed["checkpoint"] | {name: other}}
        members["checkpoint.json"] = checkpoints.encode(touched)
        places = {place for place, _ in failing(signed_anew(tmp_path / "t.zip", members))}
        assert places == {"checkpoint.json"}, name


#: A row that says something else than the chain: member, the column, the value, what is said.
ROWS = [
    ("job", {"state": "failed"}, "it is failed, and its chain says completed"),
    ("job", {"task_id": "task-2"}, "its task_id is another"),
    ("job", {"audit_seq": 1}, "it ends its chain at event 1"),
    ("attempts", {"fencing_token": 99}, "no event claims the attempt with the fencing token 99"),
    ("approvals", {"decided_by": "user:eve"}, "line 1: no event of the chain says so"),
    ("reviews", {"reason": "another"}, "line 1: no event of the chain says so"),
    ("executions", {"attempt": 2}, "is not the identity of attempt 2"),
]


@pytest.mark.parametrize(("table", "over", "text"), ROWS)
def test_a_row_that_the_chain_contradicts_is_named(
    bundled: Path, tmp_path: Path, table: str, over: dict[str, Any], text: str
) -> None:
    members, name = members_of(bundled), f"rows/{table}.jsonl"
    [row, *rest] = lines_of(members, name)
    put_lines(members, name, [row | over, *rest])
    wrong = failing(signed_anew(tmp_path / "t.zip", members))
    assert [place for place, said in wrong if text in said] == [name]


def test_a_cost_that_the_chain_contradicts_is_named(bundled: Path, tmp_path: Path) -> None:
    members, name = members_of(bundled), "rows/resolutions.jsonl"
    [end] = lines_of(members, name)
    put_lines(members, name, [end | {"cost": "0.000000000001"}])
    [(place, text)] = failing(signed_anew(tmp_path / "t.zip", members))
    assert place == name and "books" in text
    put_lines(members, name, [])
    wrong = failing(signed_anew(tmp_path / "t.zip", members))
    assert {place for place, _ in wrong} == {name} and len(wrong) == 2


def test_a_payload_is_what_its_digest_says(bundled: Path, tmp_path: Path) -> None:
    members = members_of(bundled)
    name = next(each for each in members if each.startswith("payloads/"))
    changed = signed_anew(tmp_path / "t.zip", members | {name: b'"another"'})
    assert ("payloads", f"{name} is not what its name says") in failing(changed)
    gone = {other: raw for other, raw in members.items() if other != name}
    assert ("payloads", f"{name} is missing") in failing(signed_anew(tmp_path / "t.zip", gone))
    stray = f"payloads/{hashlib.sha256(b'1').hexdigest()}.json"
    more = signed_anew(tmp_path / "t.zip", members | {stray: b"1"})
    assert failing(more) == [("payloads", f"{stray} belongs to no row")]


def test_a_bundle_of_nothing_does_not_hold(bundled: Path, tmp_path: Path) -> None:
    few = {name: raw for name, raw in members_of(bundled).items() if name == "manifest.json"}
    wrong = failing(signed_anew(tmp_path / "t.zip", few))
    assert set(verifier.NEEDED) <= {place for place, _ in wrong}


def test_whatever_byte_of_the_file_is_another_it_fails_or_says_the_same(
    bundled: Path, tmp_path: Path
) -> None:
    whole, members, failed = bundled.read_bytes(), members_of(bundled), 0
    path = tmp_path / "t.zip"
    for at in range(0, len(whole), len(whole) // 400):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0x55]) + whole[at + 1 :])
        try:
            sound = not failing(path)
        except verifier.Unreadable:
            sound = False
        failed += not sound
        assert not sound or members_of(path) == members
    assert failed > 300


def test_noise_is_no_bundle(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "t.zip").write_bytes(b"PK\x03\x04" + b"\0" * 200)
    assert verifier.main([str(tmp_path / "t.zip"), "--key-fingerprint", "ab" * 32]) == 2
    rewritten(tmp_path / "t.zip", {"\x1b[2Jname": b"1", "manifest.json": b"[" * 100_000})
    assert verifier.main([str(tmp_path / "t.zip"), "--key-fingerprint", "ab" * 32]) == 1
    assert "\x1b" not in capsys.readouterr().out


# --- Two statements of one definition ---------------------------------------------------------


@pytest.mark.parametrize("count", [*range(1, 34), 100])
def test_every_proof_leads_to_the_root_and_no_other_leaf_does(count: int) -> None:
    heads = [Head(f"job:{n}", n + 1, bytes([n]) * 32) for n in range(count)]
    root = checkpoints.merkle_root(heads)
    for head in heads:
        index, path = checkpoints.inclusion(heads, subject=head.subject)
        leaf = {"subject": head.subject, "seq": head.seq, "hash": head.hash.hex()}
        proven = verifier.proof_root(verifier.canonical(leaf), index=index, count=count, path=path)
        assert proven == root
        other = verifier.canonical(leaf | {"seq": head.seq + 1})
        assert verifier.proof_root(other, index=index, count=count, path=path) != root
        assert verifier.proof_root(b"", index=count, count=count, path=path) is None
        longer = [*path, bytes(32)]
        assert (
            verifier.proof_root(verifier.canonical(leaf), index=index, count=count, path=longer)
            is None
        )


def test_verifier_and_service_state_the_same() -> None:
    assert verifier.FORMAT == bundle.FORMAT
    assert verifier.MANIFEST_TYPE == bundle.MANIFEST_TYPE
    assert verifier.ENVELOPE_TYPE == envelopes.EXECUTION_TYPE
    assert verifier.CHECKPOINT_TYPE == checkpoints.CHECKPOINT_TYPE
    assert bytes.fromhex(verifier.GENESIS) == GENESIS
    value = {"b": [1, None, True, "é\n\u2028"], "a": {"z": -5, "y": ""}}
    assert verifier.canonical(value) == envelopes.canonical(value) == checkpoints.encode(value)
    signed = verifier.pre_authentication("type", b"body")
    assert signed == envelopes.pre_authentication("type", b"body")


def test_a_column_that_nobody_named_is_a_payload() -> None:
    row = Job(state="queued")
    shown = bundle.row_of(row, plain=frozenset(), hidden=frozenset({"state"}))
    assert isinstance(shown["state"], bundle.Payload)
    task = bundle.row_of(Task(goal="g", title="t"), plain=frozenset(), hidden=frozenset())
    assert isinstance(task["goal"], bundle.Payload) and task["title"] == "t"
