"""Reports: the calls that tell the control plane how an attempt ended, as pure functions."""

from dataclasses import replace
from typing import Any
from urllib.parse import quote

from uuid_utils.compat import uuid7

from fencepost_worker import rules
from fencepost_worker.claim import Claim
from fencepost_worker.client import Call, Problem
from fencepost_worker.documents import MAX_MESSAGE_CHARS
from fencepost_worker.exchange import Result
from fencepost_worker.identity import canonical, sha256_hex
from fencepost_worker.journal import Report
from fencepost_worker.redaction import Secrets

#: Members that hold what was said of an attempt, in words that no digest binds.
WORDS = frozenset(
    {
        "error_message", "reason", "progress", "what_worked", "what_failed", "pattern_observed",
        "context_type", "tool_sequence", "success_signal", "failure_signal", "note",
    }
)  # fmt: skip
REPORT_REFUSED = "its report was refused"
SAYING = ("/fail", "/escalate", "/defer", "/reflections", "/feedback")
#: Of a deferral: where the refusal suggests none, and the longest that is taken.
DEFER_SECONDS, DEFER_SECONDS_MAX = 300, 86_400


def job_path(claim: Claim, verb: str) -> str:
    """Return the path of a call on the claimed job."""
    return f"/v1/jobs/{quote(claim.task_id, safe='')}/{verb}"


def of_result(
    claim: Claim,
    result: Result,
    *,
    worker_id: str,
    governed: bool,
    progress: dict[str, Any] | None = None,
) -> Report:
    """Return the report of an effect whose result is known; the call that ends it is the last.

    :param governed: the control plane started an execution, and is owed its result first.
    """
    calls = [_execution_result(claim, result)] if governed else []
    document = result.document
    # Before the end: with it the token goes, and what is told under an old one is not relayed.
    calls += [_fact(claim, fact, worker_id=worker_id) for fact in document["facts"]]
    if document["reflection"] is not None:
        calls.append(_reflection(claim, document["reflection"], worker_id=worker_id))
    calls += [_feedback(each, worker_id=worker_id) for each in document["skill_feedback"]]
    if document["escalate"] is not None:
        calls.append(_escalate(claim, document["escalate"], worker_id=worker_id))
    elif result.outcome == "succeeded":
        calls.append(_complete(claim, result, worker_id=worker_id))
    else:
        calls += of_failure(
            claim,
            worker_id=worker_id,
            code=document["error_code"] or "FAILED",
            message=document["error_message"] or "the work failed",
            retryable=document["retryable"],
            progress=progress,
        ).calls
    return Report(tuple(calls))


def of_undelivered(
    claim: Claim,
    result: Result,
    failure: Report,
    *,
    governed: bool,
) -> Report:
    """Return the report of an attempt whose effect is known, and whose artifacts are not stored.

    Facts, reflection and feedback on skills are left to the attempt that delivers.
    """
    calls = [_execution_result(claim, result)] if governed else []
    return Report((*calls, *failure.calls))


def of_failure(
    claim: Claim,
    *,
    worker_id: str,
    code: str,
    message: str,
    retryable: bool,
    progress: dict[str, Any] | None = None,
) -> Report:
    """Return the report of an attempt that failed, or whose outcome nobody here knows.

    Of an unknown outcome no execution result is told: the control plane then keeps the job in
    doubt instead of trying again.
    """
    body: dict[str, Any] = claim.authority | {
        "worker_id": worker_id,
        "error_code": rules.name(code),
        "error_message": rules.message(message, chars_max=MAX_MESSAGE_CHARS) or code,
        "retryable": retryable,
    }
    if progress is not None:
        body["progress"] = progress
    return Report((Call("POST", job_path(claim, "fail"), body),))


def of_deferral(
    claim: Claim, problem: Problem, *, worker_id: str, result: Result | None = None
) -> Report:
    """Return the report of an attempt that found no room.

    :param result: of the execution that the control plane started; it is owed that first.
    """
    seconds = int(problem.after_seconds or DEFER_SECONDS)
    body = claim.authority | {
        "worker_id": worker_id,
        "reason": rules.message(f"{problem.reason}: {problem.detail}", chars_max=MAX_MESSAGE_CHARS),
        "retry_after_seconds": min(max(seconds, 1), DEFER_SECONDS_MAX),
    }
    defer = Call("POST", job_path(claim, "defer"), body)
    return Report((defer,) if result is None else (_execution_result(claim, result), defer))


def in_fewer_words(call: Call, problem: Problem) -> Call | None:
    """Return a failure whose words the control plane does not take, without them.

    None where it is no such refusal, or there are no fewer words left.
    """
    body = call.body or {}
    if not call.path.endswith("/fail") or problem.code != "INVALID_ARGUMENT":
        return None
    refusal = f"{REPORT_REFUSED}: {problem.detail}"
    if body.get("error_message", "").startswith(REPORT_REFUSED):
        return None
    fewer = {name: value for name, value in body.items() if name != "progress"}
    words = rules.message(refusal, chars_max=MAX_MESSAGE_CHARS)
    return replace(call, body=fewer | {"error_message": words})


def without_secrets(report: Report, secrets: Secrets) -> Report:
    """Return the report without the secrets that its words have; results and facts stay."""
    return Report(tuple(_without_secrets(call, secrets) for call in report.calls))


def _without_secrets(call: Call, secrets: Secrets) -> Call:
    if call.body is None or not call.path.endswith(SAYING):
        return call
    body = {
        name: secrets.of_json(value) if name in WORDS else value
        for name, value in call.body.items()
    }
    return replace(call, body=body)


def completes(result: Result) -> bool:
    """Return whether the attempt delivers, and does not fail or end in a human's hands."""
    return result.outcome == "succeeded" and result.document["escalate"] is None


def delivered_result(result: Result) -> dict[str, Any]:
    """Return the job's result: the members that the work gave, and its artifacts."""
    return (result.document["result"] or {}) | {"artifacts": result.document["artifacts"]}


def _complete(claim: Claim, result: Result, *, worker_id: str) -> Call:
    body: dict[str, Any] = claim.authority | {
        "worker_id": worker_id,
        "result": delivered_result(result),
        "needs_review": result.document["needs_review"],
    }
    if (reason := result.document["no_model_reason"]) is not None:
        body["no_model_reason"] = reason
    return Call("POST", job_path(claim, "complete"), body)


def _escalate(claim: Claim, escalation: dict[str, Any], *, worker_id: str) -> Call:
    body = claim.authority | {"worker_id": worker_id, "reason": _words(escalation["reason"])}
    if (notify_to := escalation.get("notify_to")) is not None:
        body["notify_to"] = rules.message(notify_to, chars_max=rules.NOTIFY_CHARS_MAX)
    return Call("POST", job_path(claim, "escalate"), body)


def _words(text: str) -> str:
    return rules.message(text) or "[nothing that can be shown]"


def _fact(claim: Claim, fact: dict[str, Any], *, worker_id: str) -> Call:
    body = fact | {
        "content_sha256": sha256_hex(canonical(fact["data"])),
        "subject": {"task_id": claim.task_id, "worker_id": worker_id} | claim.authority,
    }
    return Call("POST", "/v1/facts", body, key=str(uuid7()))


def _reflection(claim: Claim, reflection: dict[str, Any], *, worker_id: str) -> Call:
    body = claim.authority | {"worker_id": worker_id} | reflection
    # The key makes it one: the server numbers reflections, and cannot know a repeated one else.
    return Call("POST", job_path(claim, "reflections"), body, key=str(uuid7()))


def _feedback(feedback: dict[str, Any], *, worker_id: str) -> Call:
    body = {name: value for name, value in feedback.items() if name != "skill_id"}
    path = f"/v1/hermes/skills/{feedback['skill_id']}/feedback"
    return Call("POST", path, body | {"worker_id": worker_id}, key=str(uuid7()))


def _execution_result(claim: Claim, result: Result) -> Call:
    document = result.document
    body: dict[str, Any] = claim.authority | {
        "task_id": claim.task_id,
        "execution_digest": claim.execution_digest,
        "outcome": result.outcome,
        "result_sha256": result.sha256,
    }
    if result.outcome == "succeeded":
        delivered = delivered_result(result)
        body |= {"result": delivered, "result_sha256": sha256_hex(canonical(delivered))}
    if document["usage"] is not None:
        body["usage"] = document["usage"]
    if document["error_code"] is not None:
        body["error_code"] = rules.name(document["error_code"])
    path = f"/v1/executions/{document['external_request_id']}/result"
    return Call("POST", path, body, key=str(uuid7()))
