"""What operators can do about streams of facts that a sink does not take."""

from __future__ import annotations

from typing import Any

from governance.core.errors import NotFound
from governance.core.permissions import OPERATOR, Permission
from governance.core.verbs import Done, Target, Verb
from governance.relay import relay
from governance.relay.models import FactSink, StreamHold

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


def _release_all(*, key: int, actor: str, reason: str) -> tuple[str, int]:
    sink = FactSink.objects.filter(pk=key).first()
    if sink is None:
        raise NotFound("There is no such sink.")
    return sink.name, relay.release_all(sink=sink.name, actor=actor, reason=reason)


def _all_released(released: tuple[str, int]) -> Done:
    sink, streams = released
    return Done(f"{streams} streams go to {sink} again", {"sink": sink, "streams": streams})


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
    Verb(
        name="release_all",
        on=Target(FactSink),
        label="Release all",
        permission=RELEASE_FACTS,
        effect="Lets the relay try every stream that the sink holds again at once, parked or not, "
        "with all its tries. What the sink still does not take is parked again.",
        run=_release_all,
        done=_all_released,
    ),
)
