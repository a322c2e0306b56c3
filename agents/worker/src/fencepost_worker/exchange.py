"""Exchanges: the folder in which one external effect is requested, begun and answered, once.

    exchange/<external_request_id>/request.json    what is asked; never changed
    exchange/<external_request_id>/calls/*.json    keys of calls to the control plane, before use
    exchange/<external_request_id>/started.json    durable before the effect begins
    exchange/<external_request_id>/models/         the journal of its model calls
    exchange/<external_request_id>/no-room.json    what left no room for it, before its result
    exchange/<external_request_id>/result.json     what came of it; never changed

After a crash the files say what is true: a result is replayed, a start without a result is
unknown, a request alone was never begun.
"""

import enum
import json
import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost_worker import durable, rules
from fencepost_worker.claim import Job
from fencepost_worker.client import Call, Problem
from fencepost_worker.documents import (
    MAX_CODE_CHARS,
    MAX_MESSAGE_CHARS,
    RESULT_DEFAULTS,
    result_fault,
)
from fencepost_worker.identity import canonical, checked_attempt, external_request_id, sha256_hex

log = logging.getLogger("fencepost_worker")

MAX_FACT_BYTES = 256 * 1024
#: As it is kept; what is sent of it has the attempt's coordinates beside it.
MAX_RESULT_BYTES = rules.BODY_BYTES_MAX - 64 * 1024
#: What a runtime may answer at all. More than a request may carry of it goes as an artifact, and
#: what is kept has room for it in any spelling.
MAX_ANSWER_BYTES = durable.MAX_DOCUMENT_BYTES // 2
#: Members that are told in calls of their own, and bounded there.
TOLD_APART = frozenset({"facts", "reflection", "skill_feedback"})
#: The member of a job's result that says what was mended of it, and where.
MENDED_MEMBER = "delivery_faults"
REQUEST_ID = re.compile(r"xr_[0-9a-f]{64}")


class ExchangeConflict(Exception):
    """The exchange holds another request or another result than the one that is offered."""


class AlreadyStarted(Exception):
    """The effect has begun before; it must not begin again."""


class ResultRefused(Exception):
    """A result document that is not valid, or is not the result of this request.

    `code` is the error code under which the attempt fails.
    """

    def __init__(self, detail: str, *, code: str = "RESULT_INVALID") -> None:
        self.code = code
        super().__init__(detail)


class ResultTooLarge(ResultRefused):
    """A result that is valid, and larger than a request may be; `document` is all of it."""

    def __init__(self, document: dict[str, Any]) -> None:
        self.document = document
        super().__init__(f"the result is larger than {MAX_RESULT_BYTES} bytes")

    def told_by(self, artifact: str) -> dict[str, Any]:
        """Return the document with, in place of the job's result, where all of it is."""
        faults = [{"pointer": "", "detail": f"{self}; all of it is the artifact {artifact}"}]
        return self.document | {"result": {MENDED_MEMBER: faults}}


@dataclass(frozen=True)
class Request:
    """The request document, with the parts that the result must bind."""

    document: dict[str, Any]

    @classmethod
    def of(cls, job: Job, *, runtime: str, attempt: int) -> "Request":
        """Build the request of this attempt.

        :raises ValueError: `attempt` is not an integer >= 1.
        """
        claim = job.claim
        number = checked_attempt(attempt)
        request_id = external_request_id(
            task_id=claim.task_id,
            job_id=claim.job_id,
            execution_digest=claim.execution_digest,
            runtime=runtime,
            attempt=number,
        )
        history = {name: claim.document.get(name) for name in ("previous_progress", "rework")}
        # A claim of before has none, and its request is not changed.
        if "story" in claim.document:
            history["story"] = claim.document["story"]
        coordinates = {
            "external_request_id": request_id,
            "execution_digest": claim.execution_digest,
            "attempt": number,
            "runtime": runtime,
        }
        return cls(job.task | history | coordinates)

    @property
    def external_request_id(self) -> str:
        """Return the name of the effect."""
        value: str = self.document["external_request_id"]
        return value

    @property
    def attempt(self) -> int:
        """Return the attempt number."""
        value: int = self.document["attempt"]
        return value

    @property
    def task_id(self) -> str:
        """Return the task that the effect is for."""
        value: str = self.document["task_id"]
        return value

    @property
    def sha256(self) -> str:
        """Return the digest (lower-case hex) of the canonical request."""
        return sha256_hex(canonical(self.document))

    @property
    def binding(self) -> dict[str, Any]:
        """Return the members that a result must repeat."""
        names = ("external_request_id", "attempt", "execution_digest")
        return {name: self.document[name] for name in names}


@dataclass(frozen=True)
class Result:
    """A result document that was checked against its request."""

    document: dict[str, Any]

    @classmethod
    def of(cls, request: Request, document: Any) -> "Result":
        """Check a result document and fill in its optional members.

        What the control plane would not take as JSON is mended, and said so in the job's result
        with its place: finished work is not lost for a number.

        :raises ResultTooLarge: it is valid, and cannot be sent as it is.
        :raises ResultRefused: it is not valid or binds another request.
        """
        if not isinstance(document, dict):
            raise ResultRefused("the result is not a JSON object")
        document = _mended(document)
        _check_binding(request, document)
        fault = result_fault(document)
        if fault is not None:
            raise ResultRefused(fault)
        whole = RESULT_DEFAULTS | document
        _check_facts(whole["facts"])
        ending = {name: value for name, value in whole.items() if name not in TOLD_APART}
        if len(durable.encode(ending)) > MAX_RESULT_BYTES:
            raise ResultTooLarge(whole)
        apart = {name: whole[name] for name in TOLD_APART}
        if len(durable.encode(apart)) > MAX_ANSWER_BYTES:
            raise ResultRefused(f"facts and the like are larger than {MAX_ANSWER_BYTES} bytes")
        return cls(whole)

    @classmethod
    def failed(
        cls, request: Request, *, code: str, message: str, retryable: bool, **over: Any
    ) -> "Result":
        """Return the result of an effect that did not succeed."""
        document = request.binding | {
            "outcome": "failed",
            "error_code": rules.name(code, chars_max=MAX_CODE_CHARS),
            "error_message": rules.message(message[-MAX_MESSAGE_CHARS:]) or code,
            "retryable": retryable,
        }
        return cls.of(request, document | over)

    @property
    def outcome(self) -> str:
        """Return `succeeded`, `failed` or `not_started`."""
        value: str = self.document["outcome"]
        return value

    @property
    def sha256(self) -> str:
        """Return the digest (lower-case hex) of the canonical result."""
        return sha256_hex(canonical(self.document))


def _mended(document: dict[str, Any]) -> dict[str, Any]:
    """Return the document as the control plane takes it, with what was mended in its `result`."""
    mended, faults = rules.mended(document)
    whole: dict[str, Any] = mended
    listed = [fault._asdict() for fault in faults]
    if not listed:
        return whole
    log.warning("a result was mended: %s", "; ".join(map(str, faults)))
    result = whole.get("result")
    if whole.get("outcome") == "succeeded" and (result is None or isinstance(result, dict)):
        whole["result"] = {MENDED_MEMBER: listed} | (result or {})
    return whole


def _check_facts(facts: list[dict[str, Any]]) -> None:
    """Refuse what a schema cannot say: an id that is used twice, data without bounds."""
    if len({fact["fact_id"] for fact in facts}) < len(facts):
        raise ResultRefused("facts: two have the same fact_id")
    for fact in facts:
        if len(canonical(fact["data"])) > MAX_FACT_BYTES:
            raise ResultRefused(f"facts: the data is larger than {MAX_FACT_BYTES} bytes")


def _check_binding(request: Request, document: dict[str, Any]) -> None:
    for name, expected in request.binding.items():
        got = document.get(name)
        # An attempt of True or 1.0 equals 1 in Python and is refused all the same.
        if got != expected or type(got) is not type(expected):
            raise ResultRefused(f"{name} is not that of the request", code="RESULT_NOT_BOUND")


class Stage(enum.Enum):
    """The stages of an exchange, each durable before the next."""

    REQUESTED = "requested"
    STARTED = "started"
    ANSWERED = "answered"


class Exchange:
    """One effect's folder."""

    def __init__(self, folder: Path, request: Request) -> None:
        self.request = request
        self._folder = folder

    @property
    def stage(self) -> Stage:
        """Return how far it has come, by what is on disk."""
        if (self._folder / "result.json").exists():
            return Stage.ANSWERED
        if (self._folder / "started.json").exists():
            return Stage.STARTED
        return Stage.REQUESTED

    def once(self, name: str, call: Call) -> tuple[Call, bool]:
        """Return the call under this name as it was first made, and whether it was made before.

        The call with its key is durable before it is sent, so a restart sends the same one.
        """
        path = self._folder / "calls" / f"{name}.json"
        try:
            durable.create(path, durable.encode(call.as_document()))
        except FileExistsError:
            return Call(**(durable.read_document(path) or {})), True
        return call, False

    @property
    def asked_to_start(self) -> bool:
        """Return whether the control plane was asked to start the execution, by any permit."""
        return any((self._folder / "calls").glob("start*.json"))

    @property
    def calls_folder(self) -> Path:
        """Return where the journal of the attempt's model calls is kept."""
        return self._folder / "models"

    def note_no_room(self, problem: Problem) -> None:
        """Keep what left no room for the effect, before its result: the attempt is deferred."""
        durable.replace(self._folder / "no-room.json", durable.encode(problem.as_document()))

    def no_room(self) -> Problem | None:
        """Return what left no room for the effect, or None."""
        document = durable.read_document(self._folder / "no-room.json")
        return None if document is None else Problem(**document)

    def begin(self) -> None:
        """Mark, durably, that the effect begins now.

        :raises AlreadyStarted: it was marked before, by whomever.
        """
        try:
            durable.create(self._folder / "started.json", durable.encode(self.request.binding))
        except FileExistsError as error:
            raise AlreadyStarted(self.request.external_request_id) from error

    def record(self, result: Result) -> Result:
        """Keep the result, once; the same result again changes nothing.

        :raises ExchangeConflict: another result is kept already.
        """
        content = durable.encode(result.document)
        try:
            durable.create(self._folder / "result.json", content)
        except FileExistsError as error:
            if (self._folder / "result.json").read_bytes() != content:
                raise ExchangeConflict("another result is recorded") from error
        return result

    def result(self) -> Result | None:
        """Return the recorded result, or None.

        It was judged when it was recorded; a stricter worker of today reports it all the same.

        :raises ResultRefused: the file does not hold a result of this request.
        """
        document = durable.read_document(self._folder / "result.json")
        if document is None:
            return None
        _check_binding(self.request, document)
        return Result(RESULT_DEFAULTS | document)


class ExternalAgentExchange:
    """All exchanges below one data folder, each keyed by its external request id."""

    def __init__(self, folder: Path) -> None:
        self._folder = durable.make_folder(folder)

    def open(self, request: Request) -> Exchange:
        """Return the exchange of this request; the first call writes its request document.

        :raises ExchangeConflict: another request is kept under the same id.
        """
        if REQUEST_ID.fullmatch(request.external_request_id) is None:
            raise ValueError("not an external request id")
        folder = self._folder / request.external_request_id
        content = durable.encode(request.document)
        try:
            durable.create(folder / "request.json", content)
        except FileExistsError as error:
            if json.loads((folder / "request.json").read_bytes()) != json.loads(content):
                raise ExchangeConflict("another request is recorded under this id") from error
        return Exchange(folder, request)
