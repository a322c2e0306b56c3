"""The webhook sink: CloudEvents by POST, signed as Standard Webhooks.

Source: the Standard Webhooks specification 1.0 (headers `webhook-id`, `webhook-timestamp`,
`webhook-signature`); CloudEvents HTTP binding, structured mode.
"""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from standardwebhooks import Webhook as Signer

from governance.relay.sinks import Destination, FactRefused, Message, SinkAway, SinkSilent

NAME = "webhook"
CONTENT_TYPE = "application/cloudevents+json"
#: The receiver as a whole takes no more for now: the fact is not at fault.
AWAY_STATUS = 429
#: It, or what stands before it, gives no answer to this fact; whether to any, others tell.
SILENT_STATUSES = frozenset({502, 503, 504})
RETRY_AFTER_SECONDS_MAX = 3600
#: Of an answer's body no more is read: a connection with the rest of one is not used again.
BODY_BYTES_READ_MAX = 64 * 1024
#: The fact had not left when these were raised.
NOT_SENT = (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.PoolTimeout, httpx2.ProxyError)
#: A connection is made, or made anew as TLS: the event tells with what.
MADE = frozenset({"connect_tcp.complete", "start_tls.complete"})


def destination() -> Destination:
    """Return the receiver of the settings."""
    parts = urlsplit(settings.WEBHOOK_URL)
    connect = partial(
        Webhook,
        url=settings.WEBHOOK_URL,
        secret=settings.WEBHOOK_SECRET,
        timeout_seconds=settings.WEBHOOK_TIMEOUT_SECONDS,
    )
    return Destination(NAME, f"{parts.scheme}://{parts.netloc}", connect)


class Webhook:
    """An HTTP client of one receiver. A 2xx is the confirm; redirects are not followed."""

    usable = True

    def __init__(self, *, url: str, secret: str, timeout_seconds: float) -> None:
        self._url = url
        self._signer = Signer(secret)
        self._timeout_seconds = timeout_seconds
        # One at a time, so that the newest connection is the one that is used.
        limits = httpx2.Limits(max_connections=1)
        self._client = httpx2.Client(timeout=timeout_seconds, follow_redirects=False, limits=limits)
        self._socket: socket.socket | None = None

    def send(self, message: Message) -> None:
        """Post one message; see `Sink.send`."""
        # The receiver judges the age of this try, by its own clock.
        now = datetime.now(UTC)
        headers = {
            "content-type": CONTENT_TYPE,
            "webhook-id": message.message_id,
            "webhook-timestamp": str(int(now.timestamp())),
            "webhook-signature": self._signer.sign(message.message_id, now, message.body.decode()),
        }
        try:
            answer = self._answer(content=message.body, headers=headers)
        except NOT_SENT as error:
            raise SinkAway(f"{type(error).__name__}: {error}") from error
        except (httpx2.HTTPError, OSError) as error:
            raise SinkSilent(f"{type(error).__name__}: {error}") from error
        if answer.status_code == AWAY_STATUS or answer.status_code in SILENT_STATUSES:
            kind = SinkAway if answer.status_code == AWAY_STATUS else SinkSilent
            raise kind(f"answered {answer.status_code}", after_seconds=_retry_after_seconds(answer))
        if not answer.is_success:
            raise FactRefused(f"answered {answer.status_code}")

    def _answer(self, **request: Any) -> httpx2.Response:
        """Return the answer; only its status and headers are of use."""
        extensions = {"trace": self._note_connection}
        with (
            self._ended_in_time(),
            self._client.stream("POST", self._url, extensions=extensions, **request) as answer,
        ):
            size = 0
            # What goes wrong after the status does not change it.
            with contextlib.suppress(httpx2.HTTPError):
                for chunk in answer.iter_raw():
                    size += len(chunk)
                    if size > BODY_BYTES_READ_MAX:
                        break
        return answer

    def _note_connection(self, event: str, info: dict[str, Any]) -> None:
        if event.partition(".")[2] in MADE:
            self._socket = info["return_value"].get_extra_info("socket")

    @contextmanager
    def _ended_in_time(self) -> Iterator[None]:
        """Hang up when an answer takes too long as a whole.

        The client's own time-out is one of silence: who sends a byte now and then has no end.
        """
        timer = threading.Timer(self._timeout_seconds, self._hang_up)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def _hang_up(self) -> None:
        if self._socket is not None:
            # Not of the TLS layer, which belongs to the thread that reads.
            with contextlib.suppress(OSError):
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def keep(self) -> None:
        """Do nothing: a lost connection is opened again by the next post."""

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()


def _retry_after_seconds(answer: httpx2.Response) -> float | None:
    header = answer.headers.get("retry-after", "")
    return min(int(header), RETRY_AFTER_SECONDS_MAX) if header.isdigit() else None
