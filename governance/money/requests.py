"""Requests for model calls: what is asked for, whose it is, and what makes it the same again."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from functools import cached_property
from uuid import UUID

from governance.core import digests
from governance.core.errors import BindingMismatch, FieldFault, InvalidArgument
from governance.money.apis import Api
from governance.money.pricing import TOKENS_MAX, Terms, is_term
from governance.money.scopes import Scopes, scopes_of

REQUIREMENTS_MAX = 20
#: So many calls of an attempt may be open at a time where its job's type says nothing.
OPEN_CALLS_MAX = 8


@dataclass(frozen=True, kw_only=True)
class RouteRequest:
    """One model call that an attempt asks for.

    :param estimated_input_tokens: 0: what the request takes is not stated.
    :param max_output_tokens: 0: the request states no limit.
    :param request_bytes: bytes of its text, where they are known.
    :param requirements: capabilities that the model must have, and terms of the price (`Terms`).
    :param wanted_model: the name of the model that the program asks for, or `provider/name`: taken
        where it is allowed and there is room.
    :param api: the `Api` that the program speaks: no other model is taken.
    :param fallback_of: the `route_request_id` of the failed call that this one is in place of.
    :param request_sha256: digest of what is sent to the model, where who asks says it: two calls
        that are made at once are then two requests, whatever else they have in common.
    :param open_calls_max: so many calls of one attempt may be open at a time.
    :param submitter: who the job is of, as of a budget; its labels: each as `name=value`.
    :raises InvalidArgument: a token count, a requirement or an API is not valid.
    """

    external_request_id: str
    route_request_id: str
    task_id: str
    job_id: UUID
    attempt: int
    fencing_token: int
    agent: str
    job_type: str
    risk_tier: str
    runtime: str
    estimated_input_tokens: int = 0
    max_output_tokens: int = 0
    request_bytes: int | None = None
    requirements: tuple[str, ...] = ()
    wanted_model: str = ""
    api: str = ""
    fallback_of: str = ""
    request_sha256: str = ""
    open_calls_max: int = OPEN_CALLS_MAX
    submitter: str = ""
    labels: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        faults = [
            FieldFault(f"/{name}", f"an integer from 0 to {TOKENS_MAX}")
            for name in ("estimated_input_tokens", "max_output_tokens", "request_bytes")
            if (count := getattr(self, name)) is not None or name != "request_bytes"
            if type(count) is not int or not 0 <= count <= TOKENS_MAX
        ]
        if len(self.requirements) > REQUIREMENTS_MAX or not all(
            isinstance(each, str) and 0 < len(each) <= 60 for each in self.requirements
        ):
            faults.append(FieldFault("/requirements", f"up to {REQUIREMENTS_MAX} short names"))
        if self.api not in ("", *Api.values):
            faults.append(FieldFault("/api", " or ".join(Api.values)))
        if faults:
            raise InvalidArgument(errors=faults)
        Terms.read(self.requirements)

    @cached_property
    def terms(self) -> Terms:
        """Return what the requirements say that changes what the call may cost."""
        return Terms.read(self.requirements)

    @cached_property
    def capabilities(self) -> frozenset[str]:
        """Return the requirements that a model must be able to meet."""
        return frozenset(each for each in self.requirements if not is_term(each))

    @property
    def call(self) -> int:
        """Return which call of its attempt this is, counted from 1.

        :raises BindingMismatch: `route_request_id` is not one of this attempt.
        """
        return self._number(self.route_request_id)

    @property
    def fallback_call(self) -> int | None:
        """Return which call of its attempt this one is in place of; None: of none.

        :raises BindingMismatch: `fallback_of` is not one of this attempt.
        """
        return self._number(self.fallback_of) if self.fallback_of else None

    def _number(self, route_request_id: str) -> int:
        try:
            return digests.call_number(
                external_request_id=self.external_request_id, route_request_id=route_request_id
            )
        except ValueError as error:
            raise BindingMismatch(str(error)) from error

    @property
    def content_sha256(self) -> str:
        """Return the digest of all that must be equal when the request is repeated."""
        content = asdict(self) | {
            "job_id": str(self.job_id),
            "requirements": sorted(set(self.requirements)),
        }
        # A restore raises the tokens of running attempts; the call is still the same.
        del content["fencing_token"]
        # A setting of the job's type, which is not asked for.
        del content["open_calls_max"]
        # Facts of the job, whose id is there.
        del content["submitter"], content["labels"]
        # Requests of before had none of these, and are the same without.
        for name in ("request_sha256", "wanted_model", "api", "fallback_of"):
            if not content[name]:
                del content[name]
        if self.request_bytes is None:
            del content["request_bytes"]
        return digests.sha256_hex(digests.canonical(content))

    @property
    def scopes(self) -> Scopes:
        """Return what this call counts as in each scope that does not hang on its model."""
        return scopes_of(
            agent=self.agent,
            job_type=self.job_type,
            task_id=self.task_id,
            submitter=self.submitter,
            labels=self.labels,
        )
