"""The webhook sink against a real HTTP server."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from standardwebhooks import Webhook as Verifier

from governance.relay.sinks import FactRefused, Message, SinkAway, SinkSilent, configured, webhook

SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
MESSAGE = Message("01", "job:a", "dev.fencepost.job.claimed", b'{"id": "01"}')


class Receiver(ThreadingHTTPServer):
    """Keeps what it is sent, and answers with what the test put into `answer`."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.answer: tuple[int, dict[str, str]] = (204, {})
        self.requests: list[tuple[dict[str, str], bytes]] = []


class Answering(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.requests.append((dict(self.headers), body))
        status, headers = self.server.answer
        self.send_response(status)
        for name, value in ({"content-length": "0"} | headers).items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def receiver(settings: Any) -> Iterator[Receiver]:
    server = Receiver()
    settings.BROKER_URL, settings.WEBHOOK_SECRET = "", SECRET
    settings.WEBHOOK_URL = f"http://127.0.0.1:{server.server_port}/facts"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.shutdown()
    thread.join(5)
    server.server_close()


@pytest.fixture
def sink(receiver: Receiver) -> Iterator[webhook.Webhook]:
    [destination] = configured()
    opened = destination.connect()
    yield opened  # type: ignore[misc]
    opened.close()


def test_a_message_carries_a_signature_that_verifies(
    sink: webhook.Webhook, receiver: Receiver
) -> None:
    sink.send(MESSAGE)
    [(headers, body)] = receiver.requests
    Verifier(SECRET).verify(body, headers)
    assert body == MESSAGE.body
    assert headers["webhook-id"] == MESSAGE.message_id
    assert headers["content-type"] == "application/cloudevents+json"


@pytest.mark.parametrize("status", [301, 400, 404, 410, 500])
def test_an_answer_that_is_no_success_refuses_this_fact(
    sink: webhook.Webhook, receiver: Receiver, status: int
) -> None:
    receiver.answer = (status, {"location": "/elsewhere"})
    with pytest.raises(FactRefused, match=str(status)):
        sink.send(MESSAGE)
    assert len(receiver.requests) == 1, "a redirect is not followed"


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_a_receiver_in_trouble_is_away_for_as_long_as_it_asks(
    sink: webhook.Webhook, receiver: Receiver, status: int
) -> None:
    receiver.answer = (status, {"retry-after": "7"})
    with pytest.raises(SinkAway) as caught:
        sink.send(MESSAGE)
    assert caught.value.after_seconds == 7
    # What stands before a receiver says the same where that hangs for one fact alone.
    assert isinstance(caught.value, SinkSilent) == (status != 429)


def test_a_receiver_that_does_not_answer_is_away(sink: webhook.Webhook, receiver: Receiver) -> None:
    sink.close()
    receiver.shutdown()
    receiver.server_close()
    [destination] = configured()
    with pytest.raises(SinkAway):
        destination.connect().send(MESSAGE)
