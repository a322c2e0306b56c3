"""A sink that gives no answer to a fact: whose fault it is, and that no other stream waits."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from governance.core import clock, outbox
from governance.core.errors import InvalidArgument, NotFound
from governance.core.models import AuditEvent, Fact
from governance.relay import relay
from governance.relay.models import FactSink, StreamHold
from governance.relay.sinks import (
    Destination,
    FactRefused,
    Message,
    SinkAway,
    SinkSilent,
    configured,
    webhook,
)

pytestmark = pytest.mark.django_db

#: In partitions of their own and together: eight streams beside the one that is at fault.
OTHERS = [f"job:other-{number}" for number in range(8)]


class Sink:
    """Takes messages, except those that `script` answers with an exception."""

    usable = True

    def __init__(self, script: Callable[[Message], Exception | None]) -> None:
        self.script = script
        self.tried: list[str] = []
        self.taken: list[str] = []

    def send(self, message: Message) -> None:
        self.tried.append(message.stream)
        if (error := self.script(message)) is not None:
            raise error
        self.taken.append(message.stream)

    def keep(self) -> None: ...

    def close(self) -> None: ...


def relay_to(sink: Sink, **options: Any) -> relay.Relay:
    return relay.Relay(Destination("webhook", "here", lambda: sink), **options)


def silent_to(*streams: str) -> Callable[[Message], Exception | None]:
    return lambda message: SinkSilent("no answer") if message.stream in streams else None


@pytest.fixture(autouse=True)
def receiver_is_configured(settings: Any) -> None:
    settings.BROKER_URL, settings.WEBHOOK_URL = "", "http://127.0.0.1:1/"


def tell(*streams: str) -> None:
    """State the next fact of each stream."""
    for stream in streams:
        outbox.fact(
            stream=stream,
            sequence=Fact.objects.filter(stream=stream).count() + 1,
            kind="job.claimed",
            at=clock.now(),
            data={},
        ).save(force_insert=True)


def overdue() -> None:
    StreamHold.objects.filter(parked_at=None).update(next_try_at=clock.now())


def one_pass(runner: relay.Relay) -> int:
    """Run a pass; a sink that is away has taken nothing more."""
    try:
        return runner.relay_pass()
    except SinkAway:
        return -1


def test_a_fact_that_meets_silence_holds_up_no_other_stream_and_is_parked_at_last() -> None:
    tell("job:bad", "job:bad", *OTHERS)
    sink = Sink(silent_to("job:bad"))
    runner = relay_to(sink, tries_max=3)
    one_pass(runner)
    one_pass(runner)
    assert sorted(sink.taken) == OTHERS

    for _ in range(6):
        tell(*OTHERS)
        overdue()
        one_pass(runner)

    assert len(sink.taken) == 7 * len(OTHERS)
    hold = StreamHold.objects.get()
    assert (hold.stream, hold.tries) == ("job:bad", 3)
    assert hold.parked_at is not None
    assert "no answer" in hold.last_error
    assert sink.tried.count("job:bad") == 3, "a parked one is not tried"


def test_a_sink_that_answers_nobody_costs_no_try_and_is_asked_twice_a_pass() -> None:
    tell(*OTHERS)
    sink = Sink(silent_to(*OTHERS))
    runner = relay_to(sink)
    for passes in range(1, 4):
        with pytest.raises(SinkAway):
            runner.relay_pass()
        assert len(sink.tried) == 2 * passes

    assert not StreamHold.objects.exists()


def test_one_stream_alone_that_meets_silence_costs_no_try() -> None:
    tell("job:bad")
    runner = relay_to(Sink(silent_to("job:bad")))
    for _ in range(3):
        with pytest.raises(SinkAway, match="no answer"):
            runner.relay_pass()
    assert not StreamHold.objects.exists()


@pytest.mark.parametrize("bad", [1, 2, 3, 5])
def test_however_many_meet_silence_the_others_pass(bad: int) -> None:
    """Those that met it are tried last: else two of them in a row would be all of every pass."""
    at_fault = [f"job:bad-{number}" for number in range(bad)]
    tell(*at_fault, *OTHERS)
    sink = Sink(silent_to(*at_fault))
    runner = relay_to(sink)
    for _ in range(bad // 2 + 1):
        one_pass(runner)

    assert sorted(sink.taken) == OTHERS
    held = StreamHold.objects.values_list("stream", "tries")
    assert {tries for _, tries in held} <= {1}
    assert {stream for stream, _ in held} <= set(at_fault)


def test_without_being_tried_last_two_that_meet_silence_are_all_of_every_pass(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The control of the test before."""
    monkeypatch.setattr(relay, "SILENT_REMEMBERED_MAX", 0)
    tell("job:bad-0", "job:bad-1", *OTHERS)
    sink = Sink(silent_to("job:bad-0", "job:bad-1"))
    runner = relay_to(sink)
    monkeypatch.setattr(
        runner,
        "_relay_partitions",
        lambda partitions, wanted: runner._relay_batch(0, wanted),
    )
    monkeypatch.setattr(relay, "BATCH", relay.BATCH.replace("& 15", "& 0"))
    for _ in range(4):
        one_pass(runner)
    assert sink.taken == []


def test_a_refusal_is_an_answer_too() -> None:
    tell("job:bad", *OTHERS)

    def script(message: Message) -> Exception | None:
        return SinkSilent("mute") if message.stream == "job:bad" else FactRefused("no")

    runner = relay_to(Sink(script))
    one_pass(runner)
    one_pass(runner)
    tries = dict(StreamHold.objects.values_list("stream", "tries"))
    assert tries == dict.fromkeys(["job:bad", *OTHERS], 1)


def test_a_fact_that_cannot_be_read_is_no_answer_of_the_sink(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    tell("job:bad", "job:unreadable")
    readable = relay.message_of

    def message_of(row: dict[str, Any]) -> Message:
        if row["stream"] == "job:unreadable":
            raise ValueError("no")
        return readable(row)

    monkeypatch.setattr(relay, "message_of", message_of)
    runner = relay_to(Sink(silent_to("job:bad")))
    one_pass(runner)
    one_pass(runner)
    assert set(StreamHold.objects.values_list("stream", flat=True)) == {"job:unreadable"}


def test_a_fact_that_another_relay_has_brought_meanwhile_is_not_held() -> None:
    tell("job:bad")
    runner, other = relay_to(Sink(silent_to("job:bad"))), relay_to(Sink(lambda message: None))
    one_pass(runner)
    assert other.relay_pass() == 1
    tell(*OTHERS)
    assert runner.relay_pass() == len(OTHERS)

    assert not StreamHold.objects.exists()


def test_a_fact_that_another_relay_has_counted_meanwhile_is_counted_once() -> None:
    tell("job:bad")
    first, second = relay_to(Sink(silent_to("job:bad"))), relay_to(Sink(silent_to("job:bad")))
    one_pass(first)
    one_pass(second)
    tell(OTHERS[0])
    assert first.relay_pass() == 1
    overdue()
    tell(OTHERS[1])
    assert one_pass(second) in (1, -1)

    assert StreamHold.objects.get().tries == 1


def test_what_is_remembered_is_bounded_and_leaves_what_the_facts_say(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(relay, "SILENT_REMEMBERED_MAX", 3)
    tell(*OTHERS)
    runner = relay_to(Sink(silent_to(*OTHERS)))
    for _ in range(4):
        one_pass(runner)
    assert len(runner._silent) == 3
    assert not any("data" in met.row for met in runner._silent.values())


# Release all --------------------------------------------------------------------------------


@pytest.fixture
def parked() -> list[str]:
    """Park three streams at the webhook and one at another sink."""
    tell(*OTHERS[:4])
    now = clock.now()
    for number, fact in enumerate(Fact.objects.order_by("id")):
        StreamHold.objects.create(
            sink="webhook" if number < 3 else "rabbitmq",
            stream=fact.stream,
            fact=fact,
            tries=12,
            last_error="away",
            failed_at=now,
            next_try_at=now + relay.timedelta(minutes=10),
            parked_at=now if number != 2 else None,
        )
    return OTHERS[:3]


def test_all_streams_of_a_sink_are_released_at_once(parked: list[str]) -> None:
    FactSink.objects.create(name="webhook")
    assert relay.release_all(sink="webhook", actor="user:anna", reason="it is back") == 3

    held = StreamHold.objects.order_by("stream")
    assert [(hold.sink, hold.tries, hold.parked_at is None) for hold in held] == [
        ("webhook", 0, True),
        ("webhook", 0, True),
        ("webhook", 0, True),
        ("rabbitmq", 12, False),
    ]
    [event] = AuditEvent.objects.filter(subject="sink:webhook")
    assert (event.action, event.actor, event.reason) == (
        "streams.released",
        "user:anna",
        "it is back",
    )
    assert json.loads(bytes(event.body))["details"] == {"streams": 3, "parked": 2}

    sink = Sink(lambda message: None)
    assert relay_to(sink).relay_pass() == 4
    assert {*sink.taken} >= {*parked}


def test_nothing_to_release_or_no_reason_is_refused(parked: list[str]) -> None:
    with pytest.raises(InvalidArgument):
        relay.release_all(sink="webhook", actor="user:anna", reason=" ")
    with pytest.raises(NotFound):
        relay.release_all(sink="elsewhere", actor="user:anna", reason="it is back")

    assert StreamHold.objects.filter(tries=12).count() == 4
    assert not AuditEvent.objects.exists()


def test_the_command_releases_all_streams_of_the_configured_sinks(parked: list[str]) -> None:
    out = StringIO()
    call_command(
        "relay", "--release-all", "--reason", "it is back", "--actor", "command:a", stdout=out
    )
    assert "3 streams go to webhook again." in out.getvalue()
    assert StreamHold.objects.filter(tries=0).count() == 3

    StreamHold.objects.filter(sink="webhook").delete()
    with pytest.raises(CommandError, match="holds"):
        call_command("relay", "--release-all", "--reason", "it is back")
    with pytest.raises(CommandError, match="reason"):
        StreamHold.objects.update(sink="webhook")
        call_command("relay", "--release-all")


def test_the_verb_releases_all_streams_of_a_sink(parked: list[str]) -> None:
    sink = FactSink.objects.create(name="webhook")
    out = StringIO()
    call_command("act", "factsink.release_all", str(sink.pk), "--reason", "it is back", stdout=out)
    assert "3 streams go to webhook again" in out.getvalue()
    assert StreamHold.objects.filter(tries=0).count() == 3


# The webhook's own end of a wait ----------------------------------------------------------------


class Receiver(ThreadingHTTPServer):
    """Answers as the stream of a fact says: `mute`, `drip`, `endless`, `hang up`, or at once."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Answering)
        self.closing = threading.Event()


class Answering(BaseHTTPRequestHandler):
    server: Receiver
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        for way in ("mute", "drip", "endless", "hang-up"):
            if f'"{way}"'.encode() in body:
                self.close_connection = True
                try:
                    getattr(self, way.replace("-", "_"))()
                except OSError:
                    return
                return
        self.send_response(204)
        self.end_headers()

    def mute(self) -> None:
        self.server.closing.wait(20)

    def hang_up(self) -> None:
        """Close without an answer."""

    def drip(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\n")
        while not self.server.closing.wait(0.02):
            self.wfile.write(b"x-drip: 1\r\n")
            self.wfile.flush()

    def endless(self) -> None:
        self.wfile.write(b"HTTP/1.1 200 OK\r\ncontent-length: 999999999\r\n\r\n")
        while not self.server.closing.is_set():
            self.wfile.write(b"x" * 65536)

    def log_message(self, *args: Any) -> None: ...


@pytest.fixture
def sink(settings: Any) -> Iterator[webhook.Webhook]:
    server = Receiver()
    settings.WEBHOOK_SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
    settings.WEBHOOK_URL = f"http://127.0.0.1:{server.server_port}/facts"
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    [destination] = configured()
    opened: Any = destination.connect()
    opened._client.timeout = opened._timeout_seconds = 0.3
    yield opened
    opened.close()
    server.closing.set()
    server.shutdown()
    thread.join(5)
    server.server_close()


def message(way: str) -> Message:
    return Message("01", "job:a", "dev.fencepost.job.claimed", f'{{"way": "{way}"}}'.encode())


@pytest.mark.parametrize("way", ["mute", "drip", "hang-up"])
def test_a_receiver_without_an_answer_to_one_fact_is_left_in_time_and_asked_for_the_next(
    sink: webhook.Webhook, monkeypatch: pytest.MonkeyPatch, way: str
) -> None:
    ended: list[str] = []
    hang_up = sink._hang_up
    monkeypatch.setattr(sink, "_hang_up", lambda: (ended.append(way), hang_up()))
    sink.send(message("well"))
    with pytest.raises(SinkSilent):
        sink.send(message(way))
    sink.send(message("well"))

    if way == "drip":
        # To who sends a byte now and then the client's own time-out never comes.
        assert ended == ["drip"]


def test_an_answer_whose_body_has_no_end_is_its_status(sink: webhook.Webhook) -> None:
    sink.send(message("endless"))
    sink.send(message("well"))
