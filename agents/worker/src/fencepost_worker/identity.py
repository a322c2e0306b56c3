"""Identity of an external effect: pure functions over the parts that the claim gives.

The control plane computes the same ids and refuses others, so these are the contract's section 5
to the letter.
"""

import hashlib
import re
from typing import Any

import rfc8785

FOLDER_NAME_MAX = 60
UUID_TEXT = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
SHA256_TEXT = re.compile(r"[0-9a-f]{64}")


def canonical(value: Any) -> bytes:
    """Return the RFC 8785 canonical JSON bytes of `value`.

    :raises rfc8785.CanonicalizationError: the value is not I-JSON.
    """
    return rfc8785.dumps(value)


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 of `content` in lower-case hex."""
    return hashlib.sha256(content).hexdigest()


def checked_attempt(attempt: Any) -> int:
    """Return `attempt` if it is an attempt number.

    :raises ValueError: it is not an integer >= 1. `True` and `"1"` are refused as well.
    """
    if type(attempt) is not int or attempt < 1:
        raise ValueError(f"attempt must be an integer >= 1, got {attempt!r}")
    return attempt


def external_request_id(
    *, task_id: str, job_id: str, execution_digest: str, runtime: str, attempt: int
) -> str:
    """Return the name of the one external effect of this attempt.

    :raises ValueError: a part is empty or not in its one canonical form.
    """
    if not task_id or not runtime:
        raise ValueError("task_id and runtime must not be empty")
    if UUID_TEXT.fullmatch(job_id) is None or SHA256_TEXT.fullmatch(execution_digest) is None:
        raise ValueError("job_id must be a lower-case UUID, execution_digest a lower-case SHA-256")
    parts = {
        "task_id": task_id,
        "job_id": job_id,
        "execution_digest": execution_digest,
        "runtime": runtime,
        "attempt": checked_attempt(attempt),
    }
    return "xr_" + sha256_hex(canonical(parts))


def route_request_id(external_request_id: str, *, call: int = 1) -> str:
    """Return the name of the `call`-th model call (from 1) of an execution.

    :raises ValueError: `call` is not an integer >= 1.
    """
    number = checked_attempt(call)
    return f"{external_request_id}:model" + (f":{number}" if number > 1 else "")


def folder_name(task_id: str) -> str:
    """Return a file name for the task: readable, distinct, and never a path.

    Ids differ where their hashes do; the readable part is only for people.
    """
    readable = re.sub(r"[^A-Za-z0-9_-]", "_", task_id)[:FOLDER_NAME_MAX]
    return f"{readable}-{sha256_hex(task_id.encode())[:12]}"
