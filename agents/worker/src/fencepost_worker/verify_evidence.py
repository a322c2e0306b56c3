"""Verify an evidence bundle of Fencepost, with nothing but Python and `cryptography`.

    python verify_evidence.py FILE.zip --key-fingerprint HEX

Says, a line each, what holds, what does not, and what is left open. Exit status 0: all of it holds;
1: something does not (with `--strict`: or is left open); 2: it could not be looked at.

The keys in a bundle vouch for nobody: whoever makes a false one puts a key of their own into it.
So a key counts only if its fingerprint, the SHA-256 of its 32 public bytes, is given; get that from
the installation by another way (`/.well-known/fencepost/keys.json`, `keyid`).  Repeat the option
for an installation that has changed its key.

One file on purpose, and independent of the service on purpose: it states the format for itself.
Sources: DSSE v1 (envelopes); RFC 6962 section 2.1 (trees) and RFC 9162 section 2.1.3.2 (proofs).
"""

import argparse
import base64
import hashlib
import json
import re
import sys
import zipfile
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

FORMAT = "fencepost-evidence/1"
MANIFEST_TYPE = "application/vnd.fencepost.evidence+json"
ENVELOPE_TYPE = "application/vnd.fencepost.execution-envelope+json"
CHECKPOINT_TYPE = "application/vnd.fencepost.audit-checkpoint+json"

MANIFEST, KEYS, ENVELOPE = "manifest.json", "keys.json", "envelope.json"
CHAIN, CHECKPOINT = "chain.jsonl", "checkpoint.json"
#: Every bundle has these. A checkpoint is missing where none covers an event of the job yet.
NEEDED = (KEYS, ENVELOPE, CHAIN, "rows/job.jsonl", "rows/task.jsonl")
PAYLOADS = "payloads/"
GENESIS = "00" * 32
#: No more than this is read of one member, and no more members.
MEMBER_BYTES_MAX = 256 * 1024 * 1024
MEMBERS_MAX = 100_000
PACKED = (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED)

HELD, PROBLEM, LEFT_OPEN = "holds", "FAILS", "open"
SOMETHING_FAILS, COULD_NOT_LOOK = 1, 2

#: What each row of a person's decision says of when, who and why; an audit event says the same.
DECISIONS = {
    f"rows/{table}.jsonl": (f"{done}_at", f"{done}_by", "reason")
    for done, tables in {
        "decided": ("approvals", "reviews", "reconciliations"), "granted": ("retry_extensions",),
    }.items() for table in tables
}  # fmt: skip
#: What reading raises of members that have another form than they should.
MALFORMED = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError, RecursionError)


#: What taking a member out of a ZIP file raises where its bytes are not those that were put in.
DAMAGED = (zipfile.BadZipFile, zlib.error, RuntimeError, EOFError, ValueError)


class Unreadable(ValueError):
    """A member, or the file, is not what it should be at all."""


@dataclass
class Report:
    """What was found, as (word, place, text), in the order in which it was looked at."""

    lines: list[tuple[str, str, str]] = field(default_factory=list)

    def note(self, word: str, place: str, text: str) -> None:
        """Note something that holds, that fails, or that this bundle leaves open."""
        self.lines.append((word, place, text))

    def note_all(self, faults: Iterable[tuple[str, str]]) -> None:
        """Note (place, text) of each fault."""
        self.lines += [(PROBLEM, place, text) for place, text in faults]

    def count(self, word: str) -> int:
        """Return how many lines begin with the word."""
        return [line[0] for line in self.lines].count(word)

    def judge(self, place: str, faults: Iterator[str], text: str) -> bool:
        """Note every fault of `place`, or that the text holds. Return whether it does.

        What breaks off a check because it cannot be read is a fault too.
        """
        before = self.count(PROBLEM)
        try:
            for fault in faults:
                self.note(PROBLEM, place, fault)
        except MALFORMED as error:
            self.note(PROBLEM, place, _unread(error))
        if sound := self.count(PROBLEM) == before:
            self.note(HELD, place, text)
        return sound


@dataclass
class Bundle:
    """The members of a bundle, the keys that count, and what its manifest states."""

    members: dict[str, bytes]
    trusted: frozenset[str]
    keys: dict[str, bytes] = field(default_factory=dict)
    manifest: dict[str, Any] = field(default_factory=dict)

    def json(self, name: str) -> Any:
        """Return the value of a member that is one JSON text."""
        if name not in self.members:
            raise Unreadable("it is missing")
        return parse(self.members[name])

    def rows(self, name: str) -> list[Any]:
        """Return the values of a member that is a JSON text per line; none where it is absent."""
        return [parse(line) for line in self.members.get(name, b"").splitlines()]

    def events(self) -> list[Any]:
        """Return what the events of the chain state."""
        return [parse(link["body"].encode()) for link in self.rows(CHAIN)]

    @property
    def subject(self) -> str:
        """Return how the audit trail names the job."""
        return f"job:{self.manifest['job_id']}"


def parse(raw: bytes) -> Any:
    """Return the value of a JSON text that names no member twice."""

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(found := dict(pairs)) != len(pairs):
            raise Unreadable("a member is named twice")
        return found

    try:
        return json.loads(raw.decode(), object_pairs_hook=once)
    except (UnicodeDecodeError, json.JSONDecodeError, RecursionError) as error:
        raise Unreadable("it is not JSON") from error


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 bytes of a value without floats, with ASCII keys: all that is hashed."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False).encode()


def sha256_hex(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


# --- Signatures -------------------------------------------------------------------------------


def pre_authentication(payload_type: str, payload: bytes) -> bytes:
    """Return the bytes that a DSSE signature covers (PAE)."""
    kind = payload_type.encode()
    return b"DSSEv1 %d %b %d %b" % (len(kind), kind, len(payload), payload)


def decoded(text: str) -> bytes:
    """Return the bytes of base64 text, of which there is one spelling only."""
    if base64.b64encode(raw := base64.b64decode(text.encode(), validate=True)) != text.encode():
        raise Unreadable("it is not base64 text")
    return raw


def signature_fault(bundle: Bundle, envelope: Any, payload_type: str, payload: bytes) -> str:
    """Return why an envelope is not signed by a key that counts; empty where it is."""
    if envelope["payloadType"] != payload_type:
        return f"it is a {envelope['payloadType']}, not a {payload_type}"
    signed = pre_authentication(payload_type, payload)
    [signature] = envelope["signatures"]
    keyid = signature["keyid"]
    if keyid not in bundle.keys:
        return f"it is signed by the key {keyid}, which is not in {KEYS}"
    try:
        Ed25519PublicKey.from_public_bytes(bundle.keys[keyid]).verify(
            decoded(signature["sig"]), signed
        )
    except InvalidSignature:
        return "its signature does not verify: it was changed"
    if keyid not in bundle.trusted:
        return f"it is signed by the key {keyid}, for which no --key-fingerprint was given"
    return ""


def read_keys(bundle: Bundle) -> Iterator[str]:
    """Take up the keys of the bundle; yield what is wrong with them."""
    for entry in bundle.json(KEYS)["keys"]:
        raw = bytes.fromhex(entry["keyval"]["public"])
        if sha256_hex(raw) == entry["keyid"]:
            bundle.keys[entry["keyid"]] = raw
        else:
            yield f"the key {entry['keyid']} does not have that fingerprint"


def read_manifest(bundle: Bundle) -> Iterator[str]:
    """Take up what the manifest states; yield what is wrong with it."""
    envelope = bundle.json(MANIFEST)
    payload = decoded(envelope["payload"])
    bundle.manifest = parse(payload)
    if bundle.manifest["format"] != FORMAT:
        yield f"its format is {bundle.manifest['format']}, and this verifies {FORMAT}"
    if fault := signature_fault(bundle, envelope, MANIFEST_TYPE, payload):
        yield fault
    # The signature covers the payload only; so what stands around it has one form.
    whole = envelope.keys() == {"payload", "payloadType", "signatures"}
    whole = whole and envelope["signatures"][0].keys() == {"keyid", "sig"}
    if not whole or canonical(envelope) != bundle.members[MANIFEST]:
        yield "it is not written as an export writes it: it was changed"


# --- Members ----------------------------------------------------------------------------------


def read_members(path: Path) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    """Return the members of a ZIP file, and (name, fault) of those that cannot be taken.

    :raises Unreadable: it is no ZIP file.
    """
    members: dict[str, bytes] = {}
    faults: list[tuple[str, str]] = []
    try:
        with zipfile.ZipFile(path) as archive:
            infos = archive.infolist()
            if len(infos) > MEMBERS_MAX:
                raise Unreadable(f"it has more than {MEMBERS_MAX} members")
            for info in infos:
                name = info.filename
                if name in members or info.compress_type not in PACKED:
                    twice = "it is in the file twice"
                    faults.append((name, twice if name in members else "it is packed otherwise"))
                    continue
                try:
                    with archive.open(info) as file:
                        members[name] = file.read(MEMBER_BYTES_MAX + 1)
                except DAMAGED as error:
                    faults.append((name, f"it cannot be read ({error})"))
                if len(members.get(name, b"")) > MEMBER_BYTES_MAX:
                    faults.append((name, f"it has more than {MEMBER_BYTES_MAX} bytes"))
    except (OSError, zipfile.BadZipFile, NotImplementedError) as error:
        raise Unreadable(f"{path.name}: {error}") from error
    return members, faults


def member_faults(bundle: Bundle) -> Iterator[tuple[str, str]]:
    """Yield (name, fault) of every member that is not as the manifest states."""
    stated = bundle.manifest["members"]
    for name in sorted(stated.keys() - bundle.members.keys()):
        yield name, "it was removed"
    for name in sorted(bundle.members.keys() - stated.keys() - {MANIFEST}):
        yield name, "it was added: the manifest does not know it"
    for name in sorted(stated.keys() & bundle.members.keys()):
        raw = bundle.members[name]
        if sha256_hex(raw) == stated[name]["sha256"]:
            continue
        faults = list(_line_faults(raw, stated[name].get("lines") or []))
        for fault in faults or ["it was changed: it is not what was signed"]:
            yield name, fault
    for name in NEEDED:
        if name not in stated:
            yield name, "a bundle without it shows nothing"


def _line_faults(raw: bytes, digests: list[str]) -> Iterator[str]:
    """Yield which lines of a member were changed, added, removed or moved."""
    found = [sha256_hex(line) for line in raw.splitlines()]
    surplus, missing = Counter(found) - Counter(digests), Counter(digests) - Counter(found)
    for number, digest in enumerate(digests, 1):
        if missing[digest]:
            missing[digest] -= 1
            replaced = number <= len(found) and surplus[found[number - 1]] > 0
            if replaced:
                surplus[found[number - 1]] -= 1
            yield f"line {number} was {'changed' if replaced else 'removed'}"
    # Of equal lines the last one is the one too many.
    for number in range(len(found), 0, -1):
        if surplus[found[number - 1]]:
            surplus[found[number - 1]] -= 1
            yield f"line {number} was added"
    pairs = list(zip(found, digests, strict=False))
    moved = [str(number) for number, (is_, was) in enumerate(pairs, 1) if is_ != was]
    if moved and sorted(found) == sorted(digests):
        yield f"lines {', '.join(moved)} stand in another order"


# --- The audit chain --------------------------------------------------------------------------


def chain_faults(bundle: Bundle) -> Iterator[str]:
    """Yield what is wrong with the job's events, by their numbers."""
    before, expected = GENESIS, 1
    for event in bundle.rows(CHAIN):
        stated = parse(event["body"].encode())
        number = stated["seq"]
        if number != expected:
            yield _out_of_order(number, expected)
        elif event["prev_hash"] != before:
            yield f"event {number} does not continue the one before it"
        linked = hashlib.sha256(bytes.fromhex(event["prev_hash"]) + event["body"].encode())
        if linked.hexdigest() != event["hash"]:
            yield f"event {number} was changed: its bytes do not give its hash"
        if stated["subject"] != bundle.subject:
            yield f"event {number} is an event of {stated['subject']}"
        before, expected = event["hash"], number + 1
    if expected == 1:
        yield "there is no event"


def _out_of_order(number: int, expected: int) -> str:
    if number < expected:
        return f"event {number} stands where event {expected} should"
    gone = (
        f"event {expected} is"
        if number == expected + 1
        else f"events {expected} to {number - 1} are"
    )
    return f"{gone} not before event {number}: removed or moved"


def proof_root(leaf: bytes, *, index: int, count: int, path: Sequence[bytes]) -> bytes | None:
    """Return the root that an inclusion proof leads to; None where the proof has another length.

    Source: RFC 9162 section 2.1.3.2.
    """
    if not 0 <= index < count:
        return None
    place, last, node = index, count - 1, hashlib.sha256(b"\x00" + leaf).digest()
    for beside in path:
        if last == 0:
            return None
        if place & 1 or place == last:
            node = hashlib.sha256(b"\x01" + beside + node).digest()
            while not place & 1 and place:
                place, last = place >> 1, last >> 1
        else:
            node = hashlib.sha256(b"\x01" + node + beside).digest()
        place, last = place >> 1, last >> 1
    return node if last == 0 else None


def checkpoint_faults(bundle: Bundle) -> Iterator[str]:
    """Yield what is wrong with the checkpoint, and with the proof that leads to it."""
    sealed = bundle.json(CHECKPOINT)
    checkpoint, leaf = sealed["checkpoint"], sealed["leaf"]
    stated = {k: v for k, v in checkpoint.items() if k not in {"hash", "envelope"}}
    statement = canonical(stated)
    if sha256_hex(statement) != checkpoint["hash"]:
        yield "the checkpoint's statement does not give its hash"
    envelope = checkpoint["envelope"]
    if decoded(envelope["payload"]) != statement:
        yield "the checkpoint's signature is of another statement"
    if fault := signature_fault(bundle, envelope, CHECKPOINT_TYPE, statement):
        yield f"the checkpoint: {fault}"
    path = [bytes.fromhex(node) for node in sealed["path"]]
    root = proof_root(canonical(leaf), index=sealed["index"], count=stated["leaf_count"], path=path)
    if root is None or root.hex() != stated["root"]:
        yield "the proof does not lead from the chain to the root of the checkpoint"
    if leaf["subject"] != bundle.subject:
        yield f"the proof is for {leaf['subject']}"
    events = bundle.rows(CHAIN)
    if not 1 <= leaf["seq"] <= len(events) or events[leaf["seq"] - 1]["hash"] != leaf["hash"]:
        yield f"event {leaf['seq']} is not the one that was sealed"


def judge_coverage(bundle: Bundle, report: Report) -> None:
    """Note which events a checkpoint seals, and name those that none does."""
    events, sealed = len(bundle.rows(CHAIN)), 0
    if CHECKPOINT in bundle.members:
        if not report.judge(
            CHECKPOINT, checkpoint_faults(bundle), "its proof leads from the chain to a signed root"
        ):
            return
        found = bundle.json(CHECKPOINT)
        sealed = found["leaf"]["seq"]
        number, at = found["checkpoint"]["number"], found["checkpoint"]["at"]
        report.note(HELD, CHAIN, f"events 1 to {sealed} are sealed by checkpoint {number} of {at}")
    if sealed < events:
        report.note(LEFT_OPEN, CHAIN, f"events {sealed + 1} to {events}: no checkpoint covers them")


# --- What was to be done, and what the rows say -----------------------------------------------


def judge_envelope(bundle: Bundle, report: Report, brought: bytes | None) -> None:
    """Judge the signed statement of what may be done, in the bundle or brought along."""
    [task] = bundle.rows("rows/task.jsonl")
    envelope = parse(brought) if brought is not None else bundle.json(ENVELOPE)
    if "payload" in envelope:
        text = "its signature verifies, and it is the task's"
        report.judge(ENVELOPE, _envelope_faults(bundle, task, envelope), text)
        return
    if envelope["payload_sha256"] != task["execution_digest"]:
        report.note(PROBLEM, ENVELOPE, "its digest is not the task's")
    text = "its payload was left out, so its signature was not checked (bring it: --envelope FILE)"
    report.note(LEFT_OPEN, ENVELOPE, text)


def _envelope_faults(bundle: Bundle, task: Any, envelope: Any) -> Iterator[str]:
    payload = decoded(envelope["payload"])
    if fault := signature_fault(bundle, envelope, ENVELOPE_TYPE, payload):
        yield fault
    if sha256_hex(payload) != task["execution_digest"]:
        yield "its digest is not the task's"
    stated = parse(payload)
    for name in ("task_id", "job_id"):
        if stated[name] != bundle.manifest[name]:
            yield f"its {name} is another"


def job_faults(bundle: Bundle) -> Iterator[str]:
    """Yield where the job's row is not where its chain ends."""
    [job] = bundle.rows("rows/job.jsonl")
    [task] = bundle.rows("rows/task.jsonl")
    links, events = bundle.rows(CHAIN), bundle.events()
    for name in ("job_id", "task_id"):
        if job[name] != bundle.manifest[name]:
            yield f"its {name} is another"
    if (job["audit_seq"], job["audit_head"]) != (len(links), links[-1]["hash"]):
        yield f"it ends its chain at event {job['audit_seq']}, and the chain at {len(links)}"
    states = [e["after"]["state"] for e in events if "state" in (e["after"] or {})]
    if states and states[-1] != job["state"]:
        yield f"it is {job['state']}, and its chain says {states[-1]}"
    digest = events[0]["details"].get("execution_digest")
    if digest is not None and digest != task["execution_digest"]:
        yield "its chain begins with another execution digest"


def attempt_faults(bundle: Bundle) -> Iterator[str]:
    """Yield the attempts without a claim in the chain, and the claims without an attempt."""
    rows = {row["fencing_token"] for row in bundle.rows("rows/attempts.jsonl")}
    claimed = [event for event in bundle.events() if event["action"] == "job.claimed"]
    claims = {event["details"]["fencing_token"] for event in claimed}
    for token in sorted(rows - claims):
        yield f"no event claims the attempt with the fencing token {token}"
    for token in sorted(claims - rows):
        yield f"the attempt that was claimed with the fencing token {token} is gone"


def decision_faults(bundle: Bundle, name: str) -> Iterator[str]:
    """Yield the decisions of which the chain knows nothing."""
    known = {(event["at"], event["actor"], event["reason"]) for event in bundle.events()}
    for number, row in enumerate(bundle.rows(name), 1):
        if row.get("decision") == "expired":
            continue
        if tuple(row[column] for column in DECISIONS[name]) not in known:
            yield f"line {number}: no event of the chain says so"


def money_faults(bundle: Bundle) -> Iterator[str]:
    """Yield where reservations and their ends do not fit each other, or the chain."""
    reservations = {row["reservation_id"]: row for row in bundle.rows("rows/reservations.jsonl")}
    ends = {row["reservation_id"]: row for row in bundle.rows("rows/resolutions.jsonl")}
    for key in sorted(ends.keys() - reservations.keys()):
        yield f"the reservation {key} is gone, and its end is not"
    for key, row in reservations.items():
        if row["state"] in {"settled", "released", "failed"} and key not in ends:
            yield f"the reservation {key} is {row['state']}, and its end is gone"
    for event in bundle.events():
        booked = event["details"]
        if not {"cost_basis", "reservation_id", "actual"} <= booked.keys():
            continue
        end = ends.get(booked["reservation_id"])
        if end is None:
            yield f"event {event['seq']} ends a reservation whose end is gone"
        elif Decimal(end["cost"]) != Decimal(booked["actual"]):
            yield f"event {event['seq']} books {booked['actual']}, and the row {end['cost']}"


def execution_faults(bundle: Bundle) -> Iterator[str]:
    """Yield the executions whose identity is not made of what they are."""
    for row in bundle.rows("rows/executions.jsonl"):
        identity = {name: row[name] for name in ("execution_digest", "runtime", "attempt")}
        identity |= {name: bundle.manifest[name] for name in ("task_id", "job_id")}
        if row["external_request_id"] != "xr_" + sha256_hex(canonical(identity)):
            yield f"{row['external_request_id']} is not the identity of attempt {row['attempt']}"


def payload_faults(bundle: Bundle) -> Iterator[str]:
    """Yield the payloads that are not what their names say, or that no row names."""
    named = {digest for name in bundle.members for digest in _digests_named(bundle, name)}
    for name, raw in bundle.members.items():
        if not name.startswith(PAYLOADS):
            continue
        if name != f"{PAYLOADS}{sha256_hex(raw)}.json":
            yield f"{name} is not what its name says"
        elif sha256_hex(raw) not in named:
            yield f"{name} belongs to no row"
    if bundle.manifest["with_payloads"]:
        there = {name[len(PAYLOADS) : -len(".json")] for name in bundle.members}
        for digest in sorted(named - there - {*bundle.manifest["withheld"]}):
            yield f"{PAYLOADS}{digest}.json is missing"


def _digests_named(bundle: Bundle, name: str) -> Iterator[str]:
    """Yield the digests of payloads that the rows of a member name."""
    if not name.startswith("rows/"):
        return
    for row in bundle.rows(name):
        for value in row.values():
            if isinstance(value, dict) and value.keys() == {"payload_sha256", "bytes"}:
                yield value["payload_sha256"]


# --- All of it --------------------------------------------------------------------------------


def verify(path: Path, fingerprints: Sequence[str], envelope: bytes | None = None) -> Report:
    """Return what holds in a bundle and what does not.

    :param fingerprints: of the keys that count, 64 hexadecimal digits each.
    :param envelope: the task's signed envelope, brought along from elsewhere.
    :raises Unreadable: the file is no ZIP file.
    """
    report = Report()
    members, faults = read_members(path)
    report.note_all(faults)
    bundle = Bundle(members, frozenset(text.lower() for text in fingerprints))
    report.judge(KEYS, read_keys(bundle), "each key has the fingerprint that it names")
    report.judge(MANIFEST, read_manifest(bundle), "it is signed by a key that was named")
    try:
        report.note_all(wrong := list(member_faults(bundle)))
        if not wrong:
            report.note(HELD, "members", "all are there, none besides, and none was changed")
        _judge_contents(bundle, report)
        judge_coverage(bundle, report)
        judge_envelope(bundle, report, envelope)
    except MALFORMED as error:
        report.note(PROBLEM, "bundle", _unread(error))
    return report


def _judge_contents(bundle: Bundle, report: Report) -> None:
    """Judge what the members say, whatever the manifest says of them."""
    judge = report.judge
    judge(CHAIN, chain_faults(bundle), "every event continues the one before it")
    judge("rows/job.jsonl", job_faults(bundle), "it is as its chain says")
    judge("rows/attempts.jsonl", attempt_faults(bundle), "each was claimed in the chain")
    for name in DECISIONS:
        judge(name, decision_faults(bundle, name), "the chain knows each decision")
    judge("rows/executions.jsonl", execution_faults(bundle), "each identity is made of its parts")
    judge("rows/resolutions.jsonl", money_faults(bundle), "ends fit reservations, and the chain")
    judge("payloads", payload_faults(bundle), "each is what its digest says")
    if not bundle.manifest["with_payloads"]:
        text = "inputs and results were left out; rows have their digests"
        report.note(LEFT_OPEN, "payloads", text)
    elif withheld := bundle.manifest["withheld"]:
        report.note(LEFT_OPEN, "payloads", f"{len(withheld)} that may hold secrets were left out")


def _unread(error: Exception) -> str:
    detail = str(error) if isinstance(error, Unreadable) else type(error).__name__
    return f"it cannot be read ({detail})"


def _fingerprint(text: str) -> str:
    if not re.fullmatch(r"[0-9a-fA-F]{64}", text):
        raise argparse.ArgumentTypeError("a fingerprint is 64 hexadecimal digits")
    return text.lower()


def main(argv: Sequence[str] | None = None) -> int:
    """Verify a bundle, print what was found, and return the exit status."""
    about = (__doc__ or "").partition("\n")[0]
    parser = argparse.ArgumentParser(prog="verify_evidence", description=about)
    parser.add_argument("file", type=Path, help="the evidence bundle, a ZIP file")
    keys = parser.add_argument("--key-fingerprint", action="append", required=True)
    keys.type, keys.metavar = _fingerprint, "HEX"
    keys.help = "SHA-256 of a public key to go by, from elsewhere than the bundle; repeatable"
    parser.add_argument("--envelope", type=Path, help="the task's signed envelope, from elsewhere")
    parser.add_argument("--strict", action="store_true", help="what is left open fails too")
    options = parser.parse_args(argv)
    try:
        envelope = options.envelope.read_bytes() if options.envelope else None
        report = verify(options.file, options.key_fingerprint, envelope)
    except (Unreadable, OSError) as error:
        print(f"verify_evidence: {error}", file=sys.stderr)
        return COULD_NOT_LOOK
    failing, unshown = report.count(PROBLEM), report.count(LEFT_OPEN)
    for word, place, text in report.lines:
        line = f"{word:5}  {place}: {text}"
        # A bundle may come from anybody; a terminal would obey what it cannot print.
        print("".join(letter if letter.isprintable() else "?" for letter in line))
    print(
        f"{options.file.name}: {failing or 'none'} of it fails, {unshown or 'none'} is left open."
    )
    failed = failing or (options.strict and unshown)
    return SOMETHING_FAILS if failed else 0


if __name__ == "__main__":
    sys.exit(main())
