"""The relay against a sink that is told what to do."""

from __future__ import annotations

import itertools
import json
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError
from uuid_utils.compat import uuid7

from governance.core import audit, clock, outbox
from governance.core.errors import InvalidArgument, NotFound
from governance.core.models import AuditEvent, Fact
from governance.evidence import chain
from governance.relay import relay
from governance.relay.models import FactSink, StreamHold
from governance.relay.sinks import Destination, FactRefused, Message, SinkAway

pytestmark = pytest.mark.django_db


class ScriptedSink:
    """Takes messages, except those that `script` answers with an exception."""

    usable = True

    def __init__(self, script: Callable[[Message], Exception | None] = lambda message: None):
        self.script = script
        self.taken: list[Message] = []
        self.connects = 0

    def send(self, message: Message) -> None:
        if (error := self.script(message)) is not None:
            raise error
        self.taken.append(message)

    def keep(self) -> None: ...

    def close(self) -> None: ...

    def connect(self) -> ScriptedSink:
        self.connects += 1
        return self

    @property
    def told(self) -> list[tuple[str, int]]:
        bodies = [json.loads(message.body) for message in self.taken]
        return [(body["subject"], int(body["sequence"])) for body in bodies]


def relay_to(sink: ScriptedSink, name: str = "rabbitmq", **options: Any) -> relay.Relay:
    return relay.Relay(Destination(name, "here", sink.connect), **options)


def refuses(stream: str) -> Callable[[Message], Exception | None]:
    return lambda message: FactRefused("no") if message.stream == stream else None


@pytest.fixture(autouse=True)
def broker_is_configured(settings: Any) -> None:
    settings.BROKER_URL = "amqp://guest:guest@127.0.0.1:1/%2F"
    settings.WEBHOOK_URL = ""


@pytest.fixture
def told() -> Callable[..., Fact]:
    """State the next fact of a stream."""
    numbers: dict[str, int] = {}

    def tell(stream: str = "job:a") -> Fact:
        numbers[stream] = numbers.get(stream, 0) + 1
        fact = outbox.fact(
            stream=stream,
            sequence=numbers[stream],
            kind="job.claimed",
            at=clock.now(),
            data={"n": numbers[stream]},
        )
        fact.save(force_insert=True)
        return fact

    return tell


def overdue(stream: str) -> None:
    """Let the stream's pause be over."""
    past = clock.now() - timedelta(seconds=1)
    StreamHold.objects.filter(stream=stream).update(next_try_at=past)


def test_a_fact_goes_out_as_a_cloud_event_and_is_marked(told: Callable[..., Fact]) -> None:
    fact = told()
    sink = ScriptedSink()

    assert relay_to(sink).relay_pass() == 1

    [message] = sink.taken
    assert message.message_id == str(fact.receipt_id)
    assert json.loads(message.body) == {
        "specversion": "1.0",
        "id": fact.fact_id,
        "source": "urn:fencepost:system",
        "type": "dev.fencepost.job.claimed",
        "subject": "job:a",
        "time": fact.recorded_at.isoformat().replace("+00:00", "Z"),
        "datacontenttype": "application/json",
        "sequence": "1",
        "partitionkey": "job:a",
        "data": {"n": 1},
    }
    fact.refresh_from_db()
    assert fact.delivered_to == ["rabbitmq"]
    assert fact.published_at is not None
    assert relay_to(sink).relay_pass() == 0


def test_facts_of_a_stream_go_out_in_order(told: Callable[..., Fact]) -> None:
    for _ in range(5):
        told("job:a"), told("job:b")
    sink = ScriptedSink()

    relay_to(sink).relay_pass()

    for stream in ("job:a", "job:b"):
        assert [n for name, n in sink.told if name == stream] == [1, 2, 3, 4, 5]


def test_a_refused_fact_holds_its_stream_and_no_other(told: Callable[..., Fact]) -> None:
    refused = told("job:a")
    told("job:a"), told("job:b"), told("job:b")
    sink = ScriptedSink(refuses("job:a"))
    runner = relay_to(sink)

    assert runner.relay_pass() == 2
    assert sink.told == [("job:b", 1), ("job:b", 2)]
    hold = StreamHold.objects.get()
    assert (hold.stream, hold.fact_id, hold.tries, hold.last_error, hold.parked_at) == (
        "job:a", refused.pk, 1, "no", None,
    )  # fmt: skip
    assert runner.relay_pass() == 0, "it is not tried again before its pause is over"

    overdue("job:a")
    sink.script = lambda message: None
    assert runner.relay_pass() == 2
    assert sink.told[2:] == [("job:a", 1), ("job:a", 2)]
    assert not StreamHold.objects.exists()


def test_a_stream_is_parked_after_bounded_tries_and_released_by_a_person(
    told: Callable[..., Fact],
) -> None:
    told("job:a"), told("job:a")
    sink = ScriptedSink(refuses("job:a"))
    runner = relay_to(sink, tries_max=3)
    for _ in range(5):
        runner.relay_pass()
        overdue("job:a")

    hold = StreamHold.objects.get()
    assert hold.tries == 3
    assert hold.parked_at is not None
    assert relay.backlog().parked_streams == 1
    assert relay.backlog().waiting == 2

    with pytest.raises(InvalidArgument):
        relay.release(sink="rabbitmq", stream="job:a", actor="user:anna", reason=" ")
    relay.release(sink="rabbitmq", stream="job:a", actor="user:anna", reason="queue is bound")
    sink.script = lambda message: None
    assert runner.relay_pass() == 2

    actions = AuditEvent.objects.filter(subject="sink:rabbitmq").order_by("seq")
    assert list(actions.values_list("action", "actor")) == [
        ("stream.parked", "system:relay"),
        ("stream.released", "user:anna"),
    ]
    head = FactSink.objects.get()
    walked = chain.walk(
        chain.Head(head.audit_subject, head.audit_seq, bytes(head.audit_head)),
        chain.stored_links(subject=head.audit_subject),
    )
    assert list(walked) == []


def test_releasing_a_stream_that_is_not_held_is_refused() -> None:
    with pytest.raises(NotFound):
        relay.release(sink="rabbitmq", stream="job:a", actor="user:anna", reason="why not")
    assert not AuditEvent.objects.exists()


def test_a_sink_that_goes_away_costs_no_try_and_keeps_what_it_confirmed(
    told: Callable[..., Fact],
) -> None:
    for _ in range(3):
        told("job:a")
    lost = [SinkAway("gone")]
    sink = ScriptedSink(lambda m: lost.pop() if b'"n": 2' in m.body and lost else None)
    runner = relay_to(sink)

    with pytest.raises(SinkAway):
        runner.relay_pass()
    assert sink.told == [("job:a", 1)]
    assert Fact.objects.filter(published_at=None).count() == 2
    assert not StreamHold.objects.exists()

    assert runner.relay_pass() == 2
    assert sink.told == [("job:a", 1), ("job:a", 2), ("job:a", 3)]
    assert sink.connects == 2, "after an error the connection is thrown away"


def test_a_fact_is_published_when_every_sink_has_it(
    told: Callable[..., Fact], settings: Any
) -> None:
    settings.WEBHOOK_URL = "http://127.0.0.1:1/"
    fact = told()
    broker, receiver = ScriptedSink(), ScriptedSink(refuses("job:a"))

    relay_to(broker).relay_pass()
    relay_to(receiver, "webhook").relay_pass()
    fact.refresh_from_db()
    assert (fact.delivered_to, fact.published_at) == (["rabbitmq"], None)
    assert relay_to(broker).relay_pass() == 0, "who has it does not get it again"

    overdue("job:a")
    receiver.script = lambda message: None
    relay_to(receiver, "webhook").relay_pass()
    fact.refresh_from_db()
    assert fact.delivered_to == ["rabbitmq", "webhook"]
    assert fact.published_at is not None


def test_a_fact_that_waited_for_a_removed_sink_is_published(
    told: Callable[..., Fact], settings: Any
) -> None:
    settings.WEBHOOK_URL = "http://127.0.0.1:1/"
    fact = told()
    relay_to(ScriptedSink()).relay_pass()

    settings.WEBHOOK_URL = ""
    assert relay.settle() == 1
    fact.refresh_from_db()
    assert fact.published_at is not None


def test_what_was_held_for_a_removed_sink_alone_is_held_no_more(
    told: Callable[..., Fact], settings: Any
) -> None:
    settings.WEBHOOK_URL = "http://127.0.0.1:1/"
    told("job:a"), told("job:b")
    relay_to(ScriptedSink(refuses("job:b"))).relay_pass()
    relay_to(ScriptedSink(lambda message: FactRefused("no")), "webhook").relay_pass()
    assert StreamHold.objects.count() == 3

    settings.WEBHOOK_URL = ""
    assert relay.settle() == 1
    held = StreamHold.objects.values_list("sink", "stream")
    assert set(held) == {("rabbitmq", "job:b"), ("webhook", "job:b")}


def test_a_stream_is_released_at_the_sink_that_holds_it(
    told: Callable[..., Fact], settings: Any
) -> None:
    settings.WEBHOOK_URL = "http://127.0.0.1:1/"
    told("job:a")
    relay_to(ScriptedSink(refuses("job:a")), "webhook", tries_max=1).relay_pass()
    events = AuditEvent.objects.filter(subject="sink:webhook")

    for stream, reason in (("job:b", "bound"), ("job:a", " ")):
        with pytest.raises(CommandError):
            call_command("relay", "--release", stream, "--reason", reason)
    assert [event.action for event in events] == ["stream.parked"]

    call_command("relay", "--release", "job:a", "--reason", "the far side is mended")
    assert StreamHold.objects.get().parked_at is None
    assert [(event.action, event.actor) for event in events.order_by("seq")] == [
        ("stream.parked", "system:relay"),
        ("stream.released", audit.shell_actor()),
    ]


def test_what_waits_is_counted_by_sink_and_no_further_than_the_cap(
    told: Callable[..., Fact], settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.WEBHOOK_URL = "http://127.0.0.1:1/"
    monkeypatch.setattr(relay, "FACTS_LOOKED_AT_MAX", 4)
    for _ in range(3):
        told("job:a"), told("job:b")
    assert relay.backlog().waiting == 5, "one past the cap says that there are more"

    relay_to(ScriptedSink(refuses("job:b"))).relay_pass()

    assert {sink.name: sink.waiting for sink in relay.sinks()} == {"rabbitmq": 2, "webhook": 5}
    assert (relay.backlog().held_streams, relay.backlog().parked_streams) == (1, 0)


def test_evidence_is_never_relayed(told: Callable[..., Fact]) -> None:
    fact = told()
    Fact(
        fact_id="late", principal="agent:hermes", stream="job:a", sequence=None, relayed=False,
        type="x", data={}, content_sha256="", receipt_id=uuid7(),
        recorded_at=fact.recorded_at,
    ).save()  # fmt: skip
    sink = ScriptedSink()

    assert relay_to(sink).relay_pass() == 1
    assert sink.told == [("job:a", 1)]


def test_without_a_sink_the_command_says_that_facts_wait(settings: Any) -> None:
    settings.BROKER_URL = ""
    with pytest.raises(CommandError, match="facts wait"):
        call_command("relay", "--once")
    assert relay.backlog().sinks == []


@pytest.mark.django_db(transaction=True)
def test_a_relay_that_is_there_before_the_database_waits_for_it(
    told: Callable[..., Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    told()
    stop = threading.Event()
    sink = ScriptedSink(lambda message: stop.set())
    away = [OperationalError("starting up"), OperationalError("starting up")]

    def settle() -> int:
        if away:
            raise away.pop()
        return 0

    monkeypatch.setattr(relay, "settle", settle)
    monkeypatch.setattr(relay, "_backoff", lambda tries, cap_seconds: 0.0)

    relay_to(sink, stop=stop).run()

    assert away == []
    assert sink.told == [("job:a", 1)]


@pytest.mark.parametrize(("taken_between", "pauses"), [(0, [1, 2, 3, 4]), (1, [1, 1, 1, 1])])
def test_a_sink_is_given_longer_pauses_only_while_it_takes_nothing(
    told: Callable[..., Fact],
    monkeypatch: pytest.MonkeyPatch,
    taken_between: int,
    pauses: list[int],
) -> None:
    for _ in range(6):
        told()
    stop, waited, calls = threading.Event(), list[int](), itertools.count(1)

    def answer(message: Message) -> Exception | None:
        return None if taken_between and next(calls) % 2 else SinkAway("gone")

    def backoff(tries: int, cap_seconds: float) -> float:
        waited.append(tries)
        if len(waited) == len(pauses):
            stop.set()
        return 0.0

    monkeypatch.setattr(relay, "_backoff", backoff)

    relay_to(ScriptedSink(answer), stop=stop).run()

    assert waited == pauses


@pytest.mark.django_db(transaction=True)
def test_a_partition_that_a_relay_works_on_is_left_to_it(told: Callable[..., Fact]) -> None:
    told()
    inside, go_on = threading.Event(), threading.Event()

    def wait_inside(message: Message) -> None:
        inside.set()
        assert go_on.wait(5)

    slow, other = ScriptedSink(wait_inside), ScriptedSink()
    thread = threading.Thread(target=_one_pass, args=(slow,))
    thread.start()
    try:
        assert inside.wait(5)
        assert relay_to(other).relay_pass() == 0
    finally:
        go_on.set()
        thread.join(5)
    assert other.told == []
    assert slow.told == [("job:a", 1)]
    assert relay_to(other).relay_pass() == 0


@pytest.mark.django_db(transaction=True)
def test_without_the_partition_lock_both_relays_send(
    told: Callable[..., Fact], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The control of the test before."""
    monkeypatch.setattr(relay, "TRY_LOCK", "SELECT %s::int IS NOT NULL AND %s::text <> '' AS taken")
    told()
    inside, go_on = threading.Event(), threading.Event()

    def wait_inside(message: Message) -> None:
        inside.set()
        assert go_on.wait(5)

    slow, other = ScriptedSink(wait_inside), ScriptedSink()
    thread = threading.Thread(target=_one_pass, args=(slow,))
    thread.start()
    try:
        assert inside.wait(5)
        assert relay_to(other).relay_pass() == 1
    finally:
        go_on.set()
        thread.join(5)


@pytest.mark.django_db(transaction=True)
def test_no_transaction_is_open_while_a_message_is_sent(told: Callable[..., Fact]) -> None:
    from django.db import connection

    told()
    states = []
    sink = ScriptedSink(
        lambda message: states.append(connection.connection.info.transaction_status.name)
    )

    relay_to(sink).relay_pass()

    assert states == ["IDLE"]


def _one_pass(sink: ScriptedSink) -> None:
    from django.db import connection

    try:
        relay_to(sink).relay_pass()
    finally:
        connection.close()
