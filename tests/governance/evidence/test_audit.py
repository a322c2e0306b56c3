"""The audit trail is tampered with behind the triggers' back, and the verifier says what was."""

from __future__ import annotations

import hashlib
import io
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection, transaction
from django.db.utils import DatabaseError
from hypothesis import given
from hypothesis import strategies as st

from governance.core import audit, clock
from governance.core.models import GENESIS, AuditEvent
from governance.evidence import chain, checkpoints, envelopes, export, trail
from governance.evidence.chain import Finding, Kind
from governance.evidence.models import AuditCheckpoint, AuditCheckpointLeaf
from governance.relay.models import FactSink

pytestmark = pytest.mark.django_db

Grow = Callable[..., FactSink]
SUBJECT = "sink:a"
WRITERS = 20


@pytest.fixture(autouse=True)
def keys_of_the_test(settings: Any, tmp_path: Path) -> None:
    settings.DATA_DIR = tmp_path


@pytest.fixture
def grow() -> Grow:
    """Append events to the chain of a sink: `grow("a", 5)`."""

    def append(name: str = "a", events: int = 1) -> FactSink:
        FactSink.objects.get_or_create(name=name)
        with transaction.atomic():
            head = FactSink.objects.select_for_update().get(name=name)
            for number in range(events):
                audit.record(
                    head, action="stream.parked", actor="system:relay", at=clock.now(),
                    reason=f"for the {number}th time", before={"parked": False},
                )  # fmt: skip
        return head

    return append


def tamper(statement: str, *params: Any) -> int:
    """Change rows as somebody can who may do everything in the database."""
    with transaction.atomic(), connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        cursor.execute(statement, params)
        changed = cursor.rowcount
        cursor.execute("SET LOCAL session_replication_role = origin")
    assert changed, "the test changed nothing"
    return changed


def found() -> list[tuple[Kind, str, int | None]]:
    findings = trail.verify().findings
    return [(finding.kind, finding.subject, finding.seq) for finding in findings]


def rehash(seq: int, body: bytes) -> None:
    """Replace an event by another whose own hash is right."""
    event = AuditEvent.objects.get(subject=SUBJECT, seq=seq)
    tamper(
        "UPDATE governance_auditevent SET body = %s, hash = %s, reason = %s WHERE id = %s",
        body, audit.link(bytes(event.prev_hash), body), json.loads(body)["reason"], event.pk,
    )  # fmt: skip


def other_reason(event: AuditEvent) -> bytes:
    return audit.encode({**json.loads(bytes(event.body)), "reason": "another one"})


def forge_chain(name: str = "a") -> None:
    """Write a whole chain anew, consistent in itself, and its head with it."""
    head = FactSink.objects.get(name=name)
    events = list(AuditEvent.objects.filter(subject=head.audit_subject).order_by("seq"))
    prev_hash = GENESIS
    for event in events:
        body = other_reason(event)
        hash_ = audit.link(prev_hash, body)
        tamper(
            "UPDATE governance_auditevent SET body = %s, prev_hash = %s, hash = %s,"
            " reason = 'another one' WHERE id = %s",
            body, prev_hash, hash_, event.pk,
        )  # fmt: skip
        prev_hash = hash_
    FactSink.objects.filter(pk=head.pk).update(audit_head=prev_hash)


def renumber(first: int, by: int) -> None:
    """Move the numbers of the events from `first` on, out of each other's way."""
    tamper(
        "UPDATE governance_auditevent SET seq = seq + 1000 WHERE subject = %s AND seq >= %s",
        SUBJECT, first,
    )  # fmt: skip
    tamper(
        "UPDATE governance_auditevent SET seq = seq - 1000 + %s WHERE subject = %s AND seq > 1000",
        by, SUBJECT,
    )  # fmt: skip


# --- Chains -----------------------------------------------------------------------------------


def test_a_trail_that_nobody_touched_is_whole(grow: Grow) -> None:
    grow("a", 5), grow("b", 3)
    report = trail.verify()
    assert report.whole
    assert (report.events, report.chains) == (8, 2)


def test_an_edited_column_is_named(grow: Grow) -> None:
    grow("a", 5)
    tamper(
        "UPDATE governance_auditevent SET actor = 'user:eve', at = at - interval '1 day'"
        " WHERE subject = %s AND seq = 3",
        SUBJECT,
    )
    [finding] = trail.verify().findings
    assert finding == Finding(Kind.EDITED, SUBJECT, 3, "actor, at differ from its bytes")


def test_edited_bytes_are_found(grow: Grow) -> None:
    grow("a", 5)
    tamper(
        "UPDATE governance_auditevent SET body = %s WHERE subject = %s AND seq = 3",
        other_reason(AuditEvent.objects.get(seq=3)), SUBJECT,
    )  # fmt: skip
    assert found() == [(Kind.EDITED, SUBJECT, 3)]


@pytest.mark.parametrize("seq", [1, 3, 5])
def test_a_replaced_event_with_a_hash_of_its_own_is_found(grow: Grow, seq: int) -> None:
    grow("a", 5)
    rehash(seq, other_reason(AuditEvent.objects.get(seq=seq)))
    assert found() == [(Kind.EDITED, SUBJECT, seq)]


@pytest.mark.parametrize("seq", [1, 3, 5])
def test_a_removed_event_is_found(grow: Grow, seq: int) -> None:
    grow("a", 5)
    tamper("DELETE FROM governance_auditevent WHERE subject = %s AND seq = %s", SUBJECT, seq)
    assert found() == [(Kind.REMOVED, SUBJECT, seq)]


def test_a_removed_event_is_found_though_later_ones_were_renumbered(grow: Grow) -> None:
    grow("a", 5)
    tamper("DELETE FROM governance_auditevent WHERE subject = %s AND seq = 3", SUBJECT)
    renumber(4, by=-1)
    assert found() == [(Kind.REMOVED, SUBJECT, 3)]


def test_a_run_of_removed_events_is_one_finding(grow: Grow) -> None:
    grow("a", 6)
    tamper("DELETE FROM governance_auditevent WHERE subject = %s AND seq IN (2, 3, 6)", SUBJECT)
    assert [str(finding) for finding in trail.verify().findings] == [
        "removed: sink:a#2: events 2 to 3 are gone",
        "removed: sink:a#6: event 6 is gone",
    ]


def test_an_inserted_event_is_found(grow: Grow) -> None:
    grow("a", 5)
    event = AuditEvent.objects.get(subject=SUBJECT, seq=3)
    renumber(4, by=1)
    body = other_reason(event)
    tamper(
        "INSERT INTO governance_auditevent (subject, seq, at, action, actor, reason, request_id,"
        " body, prev_hash, hash) SELECT subject, 4, at, action, actor, 'another one', request_id,"
        " %s, hash, %s FROM governance_auditevent WHERE id = %s",
        body, audit.link(bytes(event.hash), body), event.pk,
    )  # fmt: skip
    assert found() == [(Kind.INSERTED, SUBJECT, 3)]


def test_an_event_past_the_head_is_found(grow: Grow) -> None:
    head = grow("a", 5)
    extra = audit.chain(
        head, subject=SUBJECT, action="stream.parked", actor="user:eve", at=clock.now()
    )
    extra.save(force_insert=True)
    assert found() == [(Kind.INSERTED, SUBJECT, 6)]


def test_swapped_events_are_found(grow: Grow) -> None:
    grow("a", 5)
    tamper("UPDATE governance_auditevent SET seq = 99 WHERE subject = %s AND seq = 2", SUBJECT)
    tamper("UPDATE governance_auditevent SET seq = 2 WHERE subject = %s AND seq = 4", SUBJECT)
    tamper("UPDATE governance_auditevent SET seq = 4 WHERE subject = %s AND seq = 99", SUBJECT)
    assert found() == [(Kind.REORDERED, SUBJECT, 2), (Kind.REORDERED, SUBJECT, 4)]


def test_a_missing_chain_is_found(grow: Grow) -> None:
    grow("a", 5), grow("b", 3)
    tamper("DELETE FROM governance_auditevent WHERE subject = %s", SUBJECT)
    assert found() == [(Kind.MISSING_CHAIN, SUBJECT, None)]


def test_a_chain_whose_subject_is_gone_is_found(grow: Grow) -> None:
    grow("a", 5), grow("b", 3)
    tamper("DELETE FROM governance_factsink WHERE name = 'a'")
    assert found() == [(Kind.ORPHAN_CHAIN, SUBJECT, None)]


def test_an_event_moved_to_another_chain_is_found_in_both(grow: Grow) -> None:
    grow("a", 3), grow("b", 2)
    tamper(
        "UPDATE governance_auditevent SET subject = 'sink:b', seq = 3"
        " WHERE subject = %s AND seq = 3",
        SUBJECT,
    )
    # In its new chain it is both a stranger and one too many.
    assert found() == [
        (Kind.REMOVED, SUBJECT, 3),
        (Kind.INSERTED, "sink:b", 3),
        (Kind.INSERTED, "sink:b", 3),
    ]


@pytest.mark.django_db(transaction=True)
def test_writers_that_append_at_once_leave_one_gapless_chain(grow: Grow) -> None:
    grow("a")
    go = threading.Barrier(WRITERS)

    def append() -> None:
        try:
            go.wait(10)
            for _ in range(5):
                grow("a")
        finally:
            connection.close()

    writers = [threading.Thread(target=append) for _ in range(WRITERS)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join(30)

    numbers = AuditEvent.objects.filter(subject=SUBJECT).order_by("seq")
    assert list(numbers.values_list("seq", flat=True)) == list(range(1, 5 * WRITERS + 2))
    assert trail.verify().whole


# --- Checkpoints ------------------------------------------------------------------------------


def test_a_seal_has_one_leaf_per_chain_that_moved(grow: Grow) -> None:
    grow("a", 5), grow("b", 3)
    first = checkpoints.seal()
    grow("b", 2), grow("c")
    second = checkpoints.seal()

    assert first is not None
    assert second is not None
    assert (first.number, first.leaf_count, second.number, second.leaf_count) == (1, 2, 2, 2)
    assert bytes(second.prev_hash) == bytes(first.hash)
    assert second.first_event_id == first.last_event_id + 1
    leaves = second.leaves.order_by("subject").values_list("subject", "seq")
    assert list(leaves) == [("sink:b", 5), ("sink:c", 1)]
    assert checkpoints.seal() is None
    assert trail.verify().whole
    assert trail.verify().checkpoints == 2


def test_a_forged_chain_differs_from_its_checkpoint(grow: Grow) -> None:
    grow("a", 5)
    checkpoints.seal()
    forge_chain()
    [finding] = trail.verify().findings
    assert (finding.kind, finding.subject, finding.seq) == (Kind.EDITED, SUBJECT, 5)
    assert "checkpoint 1" in finding.detail


def test_without_a_checkpoint_a_forged_chain_looks_whole(grow: Grow) -> None:
    """The control of the test before: what checkpoints are for."""
    grow("a", 5)
    forge_chain()
    assert trail.verify().whole


def test_a_leaf_changed_with_the_chain_no_longer_gives_the_signed_root(grow: Grow) -> None:
    head = grow("a", 5)
    checkpoints.seal()
    forge_chain()
    head.refresh_from_db()
    tamper("UPDATE governance_auditcheckpointleaf SET hash = %s", bytes(head.audit_head))
    assert found() == [(Kind.CHECKPOINT, "checkpoint", 1)]


def test_a_checkpoint_changed_with_the_chain_is_of_another_statement(grow: Grow) -> None:
    head = grow("a", 5)
    checkpoints.seal()
    forge_chain()
    head.refresh_from_db()
    tamper("UPDATE governance_auditcheckpointleaf SET hash = %s", bytes(head.audit_head))
    row = AuditCheckpoint.objects.get()
    row.root = checkpoints.merkle_root([chain.Head(SUBJECT, 5, bytes(head.audit_head))])
    digest = hashlib.sha256(checkpoints.Checkpoint.of(row).statement).digest()
    tamper("UPDATE governance_auditcheckpoint SET root = %s, hash = %s", row.root, digest)
    [finding] = trail.verify().findings
    assert finding.detail == "its signature is of another statement"


def test_a_removed_checkpoint_is_found(grow: Grow) -> None:
    for _ in range(3):
        grow("a")
        checkpoints.seal()
    tamper("DELETE FROM governance_auditcheckpointleaf WHERE seq = 2")
    tamper("DELETE FROM governance_auditcheckpoint WHERE number = 2")
    assert (Kind.CHECKPOINT, "checkpoint", 3) in found()
    assert "checkpoint 2 is gone" in str(trail.verify().findings[0])


def test_an_event_slipped_in_behind_a_checkpoint_is_found(grow: Grow) -> None:
    grow("a", 5)
    grow("b")
    checkpoints.seal()
    head = grow("a")
    first = AuditEvent.objects.order_by("id")[0].pk
    tamper("UPDATE governance_auditevent SET id = %s WHERE seq = 6", first - 1)
    assert head.audit_seq == 6
    assert found() == [(Kind.INSERTED, SUBJECT, 6)]


def test_a_checkpoint_signed_by_a_retired_key_still_verifies(grow: Grow) -> None:
    grow("a")
    checkpoints.seal()
    envelopes.rotate()
    grow("a")
    checkpoints.seal()
    assert trail.verify().whole


@pytest.mark.django_db(transaction=True)
def test_a_seal_waits_for_no_writer_and_seals_nothing_uncommitted(
    grow: Grow, on_other_connection: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoints, "LOCK_WAIT_MS", 20)
    monkeypatch.setattr(checkpoints, "LOCK_TRIES_MAX", 2)
    grow("a")
    with transaction.atomic():
        grow("b")
        assert on_other_connection(checkpoints.seal) is None
    sealed = checkpoints.seal()
    assert sealed is not None
    assert sealed.leaf_count == 2


@pytest.mark.django_db(transaction=True)
def test_without_the_table_lock_an_uncommitted_event_is_left_out_for_ever(
    grow: Grow, on_other_connection: Callable[..., Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test before: a lower id that commits later is in no checkpoint."""

    def newest_id() -> int:
        return AuditEvent.objects.order_by("-id").values_list("id", flat=True)[0]

    monkeypatch.setattr(checkpoints, "_settled_event_id", newest_id)
    with transaction.atomic():
        grow("b")
        on_other_connection(grow, "a")
        assert on_other_connection(checkpoints.seal) is not None
    assert (Kind.INSERTED, "sink:b", 1) in found()


@pytest.mark.django_db(transaction=True)
def test_one_sealer_works_at_a_time(grow: Grow, on_other_connection: Callable[..., Any]) -> None:
    grow("a")
    with transaction.atomic():
        assert checkpoints._sealing_alone()
        assert on_other_connection(checkpoints.seal) is None
    assert not AuditCheckpoint.objects.exists()


def test_checkpoints_refuse_to_be_rewritten(grow: Grow) -> None:
    grow("a")
    checkpoints.seal()
    for model in (AuditCheckpoint, AuditCheckpointLeaf, AuditEvent):
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            model.objects.all().update(hash=b"x")
        with pytest.raises(DatabaseError, match="append-only"), transaction.atomic():
            model.objects.all()._raw_delete("default")


@given(st.integers(min_value=1, max_value=70))
def test_the_tree_is_that_of_rfc_6962(leaves: int) -> None:
    """Pairing level by level equals the recursive definition, which splits at a power of two."""
    hashes = [bytes([number]) * 32 for number in range(leaves)]

    def tree(part: list[bytes]) -> bytes:
        if len(part) == 1:
            return part[0]
        split = 1
        while split * 2 < len(part):
            split *= 2
        return hashlib.sha256(b"\x01" + tree(part[:split]) + tree(part[split:])).digest()

    assert checkpoints._tree_hash(list(hashes)) == tree(hashes)


# --- Exports and commands ---------------------------------------------------------------------


def exported() -> list[str]:
    out = io.StringIO()
    export.write(out)
    return out.getvalue().splitlines(keepends=True)


def test_an_export_verifies_by_itself(grow: Grow) -> None:
    grow("a", 5), grow("b", 2)
    checkpoints.seal()
    grow("a", 2)
    checkpoints.seal()
    grow("b", 1)

    report = export.verify(exported())

    assert report.whole
    assert (report.checkpoints, report.chains, report.events) == (2, 2, 9)


@pytest.mark.parametrize("kind", ["header", "checkpoint", "leaf", "event", "signature"])
def test_an_export_with_a_line_missing_does_not_verify(grow: Grow, kind: str) -> None:
    grow("a", 3)
    checkpoints.seal()
    lines = exported()
    del lines[next(n for n, line in enumerate(lines) if json.loads(line)["type"] == kind)]
    assert not export.verify(lines).whole


def test_an_export_with_an_edited_event_says_which(grow: Grow) -> None:
    grow("a", 3)
    checkpoints.seal()
    lines = [line.replace("for the 1th time", "for no reason") for line in exported()]
    kinds = [(f.kind, f.subject, f.seq) for f in export.verify(lines).findings]
    assert kinds == [(Kind.EDITED, SUBJECT, 2), (Kind.CHECKPOINT, "export", None)]


def test_an_export_is_judged_by_the_keys_that_are_given(grow: Grow) -> None:
    grow("a")
    checkpoints.seal()
    lines = exported()
    assert export.verify(lines, trusted=envelopes.public_keys()).whole
    assert not export.verify(lines, trusted={"keys": []}).whole


def test_an_export_shows_that_the_newest_checkpoints_were_cut_off(grow: Grow) -> None:
    grow("a")
    checkpoints.seal()
    grow("a")
    checkpoints.seal()
    lines = exported()
    tamper("DELETE FROM governance_auditcheckpointleaf WHERE seq = 2")
    tamper("DELETE FROM governance_auditcheckpoint WHERE number = 2")
    assert trail.verify().whole
    [finding] = export.verify(lines, against_database=True).findings
    assert (finding.seq, finding.detail) == (2, "it is only in the export")


def test_the_commands_seal_export_and_verify(
    grow: Grow, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    grow("a", 3)
    call_command("seal_audit")
    file, keys = tmp_path / "audit.jsonl", tmp_path / "keys.json"
    keys.write_text(json.dumps(envelopes.public_keys()))
    call_command("export_audit", str(file))
    capsys.readouterr()
    call_command("verify_audit", "--json")
    assert json.loads(capsys.readouterr().out)["whole"] is True
    call_command("verify_audit", "--export", str(file), "--keys", str(keys))
    assert "is whole: 3 events in 1 chains, 1 checkpoints" in capsys.readouterr().out


def test_verify_audit_exits_with_1_and_says_what_is_wrong(
    grow: Grow, capsys: pytest.CaptureFixture[str]
) -> None:
    grow("a", 3)
    tamper("DELETE FROM governance_auditevent WHERE seq = 2")
    with pytest.raises(SystemExit) as ended:
        call_command("verify_audit")
    assert ended.value.code == 1
    assert "removed: sink:a#2: event 2 is gone" in capsys.readouterr().out


def test_verify_audit_exits_with_2_when_it_cannot_look(tmp_path: Path) -> None:
    with pytest.raises(CommandError) as ended:
        call_command("verify_audit", "--export", str(tmp_path / "absent"))
    assert ended.value.returncode == 2
