"""Where facts go: what a sink promises, and which sinks this installation has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from django.conf import settings


class FactRefused(Exception):
    """The far side does not take this fact: its stream waits, others go on."""


class SinkAway(Exception):
    """The sink cannot be reached, or it cannot be told what it took: nothing is counted.

    :param after_seconds: when the far side asked to be tried again, if it did.
    """

    def __init__(self, detail: str, *, after_seconds: float | None = None) -> None:
        super().__init__(detail)
        self.after_seconds = after_seconds


class SinkSilent(SinkAway):
    """No answer to this fact, which was sent: the sink may be away, or this fact be at fault.

    What it answers to other facts tells the one from the other; see `relay.Relay`.
    """


@dataclass(frozen=True)
class Message:
    """One fact as it goes out: a CloudEvent in JSON, the same bytes at every try.

    `message_id` is the same at every try as well; receivers deduplicate by it.
    """

    message_id: str
    stream: str
    type: str
    body: bytes


class Sink(Protocol):
    """An open connection to a place that takes facts, used by one thread."""

    def send(self, message: Message) -> None:
        """Send, and return once the far side has confirmed that it holds the message.

        :raises FactRefused: it does not take this one.
        :raises SinkSilent: it gave no answer to this one, within a bounded time.
        :raises SinkAway: it is not known whether it has it; the connection must be thrown away.
        """

    @property
    def usable(self) -> bool:
        """Tell whether the connection can still send."""

    def keep(self) -> None:
        """Tend an idle connection; called at least once a second between passes.

        :raises SinkAway: it is gone.
        """

    def close(self) -> None:
        """Let the connection go. Never raises."""


@dataclass(frozen=True)
class Destination:
    """A configured sink: its name, under which deliveries are marked, and how to connect.

    `connect` raises `SinkAway`.
    """

    name: str
    address: str
    connect: Callable[[], Sink]


def configured() -> list[Destination]:
    """Return the sinks of the settings. With none, facts wait."""
    from governance.relay.sinks import rabbitmq, webhook

    found = []
    if settings.BROKER_URL:
        found.append(rabbitmq.destination())
    if settings.WEBHOOK_URL:
        found.append(webhook.destination())
    return found
