"""What operators can do about streams of facts that a sink does not take."""

from __future__ import annotations

from typing import Any

from governance.core.errors import NotFound
from governance.core.permissions import OPERATOR, Permission
from governance.core.verbs import Done, Target, Verb
from governance.relay import relay
from governance.relay.models import StreamHold

RELEASE_FACTS = Permission("release_facts", "Can release a held stream of facts", (OPERATOR,))


def _release(*, key: int, actor: str, reason: str) -> StreamHold:
    hold = StreamHold.objects.filter(pk=key).first()
    if hold is None:
        raise NotFound("The stream is not held any more.")
    relay.release(sink=hold.sink, stream=hold.stream, actor=actor, reason=reason)
    return hold


def _released(hold: StreamHold) -> Done:
    return Done(
        f"{hold.stream} goes to {hold.sink} again", {"sink": hold.sink, "stream": hold.stream}
    )


VERBS: tuple[Verb[Any], ...] = (
    Verb(
        name="release",
        on=Target(StreamHold),
        label="Release",
        permission=RELEASE_FACTS,
        effect="Lets the relay try each stream again at once, from the fact that was refused on, "
        "with all its tries. What the sink still does not take is parked again.",
        run=_release,
        done=_released,
    ),
)
