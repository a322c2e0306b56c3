"""What operators can do to jobs that are set aside."""

from __future__ import annotations

from typing import Any

from governance.core.permissions import OPERATOR, Permission
from governance.core.verbs import Done, Target, Verb, of_row
from jobs.models import SetAside
from jobs.transitions import aside

RETRY_SET_ASIDE = Permission(
    "retry_set_aside", "Can have a job tried again that was set aside", (OPERATOR,)
)


def _retry(*, key: str, actor: str, reason: str) -> SetAside:
    return aside.retry_set_aside(task_id=key, actor=actor, reason=reason)


RETRY = Verb(
    name="retry_set_aside",
    on=Target(SetAside, key="task_id"),
    label="Try again",
    permission=RETRY_SET_ASIDE,
    effect="Lets each job be claimed again. One whose row is still at fault is set aside anew "
    "after three failures.",
    run=_retry,
    done=lambda row: Done("tried again", {"task_id": row.task_id}),
    precondition=of_row(aside.retriable),
)

VERBS: tuple[Verb[Any], ...] = (RETRY,)
