"""The webhook sink: CloudEvents by POST, signed as Standard Webhooks.

Source: the Standard Webhooks specification 1.0 (headers `webhook-id`, `webhook-timestamp`,
`webhook-signature`); CloudEvents HTTP binding, structured mode.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from urllib.parse import urlsplit

import httpx2
from django.conf import settings
from standardwebhooks import Webhook as Signer

from governance.relay.sinks import Destination, FactRefused, Message, SinkAway

NAME = "webhook"
CONTENT_TYPE = "application/cloudevents+json"
#: The receiver as a whole is in trouble: the fact is not at fault.
AWAY_STATUSES = frozenset({429, 502, 503, 504})
RETRY_AFTER_SECONDS_MAX = 3600


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
        self._client = httpx2.Client(timeout=timeout_seconds, follow_redirects=False)

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
            answer = self._client.post(self._url, content=message.body, headers=headers)
        except httpx2.HTTPError as error:
            raise SinkAway(f"{type(error).__name__}: {error}") from error
        if answer.status_code in AWAY_STATUSES:
            raise SinkAway(
                f"answered {answer.status_code}", after_seconds=_retry_after_seconds(answer)
            )
        if not answer.is_success:
            raise FactRefused(f"answered {answer.status_code}")

    def keep(self) -> None:
        """Do nothing: a lost connection is opened again by the next post."""

    def close(self) -> None:
        """Close the idle connections."""
        self._client.close()


def _retry_after_seconds(answer: httpx2.Response) -> float | None:
    header = answer.headers.get("retry-after", "")
    return min(int(header), RETRY_AFTER_SECONDS_MAX) if header.isdigit() else None
