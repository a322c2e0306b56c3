"""Claims: the coordinates of a granted attempt, and the signed task within."""

from dataclasses import dataclass
from typing import Any

from fencepost_worker.identity import checked_attempt
from fencepost_worker.lease import Terms


class ClaimUnreadable(Exception):
    """The control plane's answer lacks what a worker needs to act under it."""


@dataclass(frozen=True)
class Claim:
    """One claimed attempt. `document` is the job with all that the claim added to it."""

    document: dict[str, Any]
    task_id: str
    job_id: str
    attempt: int
    fencing_token: int
    revision: int
    execution_digest: str
    terms: Terms

    @classmethod
    def from_document(cls, document: dict[str, Any]) -> "Claim":
        """Read a claimed job.

        :raises ClaimUnreadable: a field is missing or of another type.
        """
        try:
            return cls(
                document=document,
                task_id=_text(document, "task_id"),
                job_id=_text(document, "job_id"),
                attempt=checked_attempt(document.get("attempt")),
                fencing_token=checked_attempt(document.get("fencing_token")),
                revision=checked_attempt(document.get("revision")),
                execution_digest=_text(document, "execution_digest"),
                terms=Terms.from_document(document.get("lease") or {}),
            )
        except ValueError as error:
            raise ClaimUnreadable(str(error)) from error

    @property
    def calls_models(self) -> bool:
        """Return whether its work may call models: `model_use` of the type is not `none`.

        A control plane of before says nothing of it, and routes no calls of attempts like these.
        """
        return self.document.get("model_use") in ("allowed", "required")

    @property
    def needs_models(self) -> bool:
        """Return whether it is not complete without a call of a model."""
        return self.document.get("model_use") == "required"

    @property
    def only_models(self) -> bool:
        """Return whether its work touches nothing but models; `effects` of the type."""
        return self.calls_models and self.document.get("effects") == "model_only"

    @property
    def models(self) -> tuple[dict[str, Any], ...]:
        """Return the models that the policy allows, in order, as the claim tells them."""
        models = self.document.get("models")
        rows = models if isinstance(models, list) else []
        return tuple(each for each in rows if isinstance(each, dict))

    @property
    def open_calls_max(self) -> int | None:
        """Return how many model calls of the attempt may be open at a time, where that is told."""
        limit = self.document.get("open_calls_max")
        return limit if type(limit) is int and limit > 0 else None

    @property
    def task_type(self) -> str:
        """Return the type of the job; empty where it is not told."""
        name = self.document.get("task_type")
        return name if isinstance(name, str) else ""

    @property
    def authority(self) -> dict[str, Any]:
        """Return the members that every write of this attempt carries."""
        return {"attempt": self.attempt, "fencing_token": self.fencing_token}

    def binding(self, external_request_id: str) -> dict[str, Any]:
        """Return the members that every call about the attempt's external effect names."""
        return {
            "task_id": self.task_id,
            **self.authority,
            "external_request_id": external_request_id,
        }


@dataclass(frozen=True)
class Job:
    """A claim whose envelope verified. `task` is the signed payload: the only text to act on."""

    claim: Claim
    task: dict[str, Any]


def _text(document: dict[str, Any], name: str) -> str:
    value = document.get(name)
    if not isinstance(value, str) or not value:
        raise ValueError(f"{name} must be a text, got {value!r}")
    return value
