"""The operation that tells a submitter what its jobs have cost."""

from __future__ import annotations

from typing import Annotated, TypedDict

from agents.operations.callers import principal_of
from governance.core.errors import PermissionDenied
from governance.core.idempotency import Answer
from governance.core.wire import explained
from governance.money.models import CURRENCY
from governance.money.pricing import text_of
from governance.operations.operation import DONE, Call, operation
from governance.operations.parameters import Day, Keyed
from jobs.operations.shapes import LABEL_CHARS_MAX
from jobs.spend.sums import GROUPS_MAX, LABEL, Spend, SpendGroup, read_spend


class SpendGroupOut(TypedDict):
    """What the calls of one group have cost."""

    group: Annotated[str | None, explained("null: the job has no such label")]
    cost: str
    input_tokens: int
    output_tokens: int
    calls: int


class SpendOut(TypedDict):
    """What the calls of one's own jobs have cost."""

    currency: str
    total: Annotated[str, explained("of all groups")]
    results: list[SpendGroupOut]
    truncated: Annotated[bool, explained(f"there are more than {GROUPS_MAX} groups")]


@operation(
    scopes=("read",),
    answers=SpendOut,
    query={
        "from": Day("The first day, in UTC; default the first of the month."),
        "to": Day("The last day, itself included; default the last of that month."),
        "group_by": Keyed(
            "What is summed up.", ("day", "model", "job_type"), LABEL, LABEL_CHARS_MAX
        ),
    },
)
def get_spend(call: Call) -> Answer:
    """Say what one's own jobs have cost.

    Source: contract, section 9.
    """
    principal = principal_of(call)
    if principal.kind != "submitter":
        raise PermissionDenied("Only a submitter has jobs of its own that cost something.")
    found = read_spend(
        submitter=principal.text,
        since=call.parameter("from"),
        until=call.parameter("to"),
        group_by=call.parameter("group_by"),
    )
    return Answer(DONE, _answer(found))


def _answer(found: Spend) -> SpendOut:
    return {
        "currency": CURRENCY,
        "total": text_of(found.total),
        "results": [_group(each) for each in found.groups],
        "truncated": found.truncated,
    }


def _group(each: SpendGroup) -> SpendGroupOut:
    return {
        "group": each.group,
        "cost": text_of(each.cost),
        "input_tokens": each.input_tokens,
        "output_tokens": each.output_tokens,
        "calls": each.calls,
    }
