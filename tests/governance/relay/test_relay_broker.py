"""The relay against a real RabbitMQ, which is killed, frozen and misconfigured."""

from __future__ import annotations

import json
import signal
import threading
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection

from governance.core import clock, outbox
from governance.core.models import Fact
from governance.relay import relay
from governance.relay.models import StreamHold
from governance.relay.sinks import SinkAway, rabbitmq
from tests import children
from tests.broker import Broker, installed_server

pytestmark = [
    pytest.mark.broker,
    pytest.mark.skipif(installed_server() is None, reason="RabbitMQ is not installed"),
    pytest.mark.django_db(transaction=True),
    # Starting the broker is part of the first test's time.
    pytest.mark.timeout(120),
]

RELAY_KILLED_BEFORE_IT_MARKS = """
import os, signal
from governance.relay import relay
from governance.relay.sinks import configured
relay.Relay._mark = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
relay.Relay(configured()[0]).relay_pass()
"""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Broker]:
    node = Broker(tmp_path_factory.mktemp("rabbitmq"))
    try:
        node.start()
        yield node
    finally:
        node.close()


@pytest.fixture(autouse=True)
def exchange(broker: Broker, settings: Any) -> str:
    """Point the settings at an exchange and a queue of the test's own."""
    name = f"facts-{uuid.uuid4().hex[:8]}"
    settings.BROKER_URL, settings.WEBHOOK_URL = broker.url, ""
    settings.BROKER_EXCHANGE = settings.BROKER_QUEUE = name
    settings.BROKER_CONFIRM_TIMEOUT_SECONDS = 3
    return name


@pytest.fixture
def tell() -> Callable[..., None]:
    """State the next facts of streams: `tell("job:a", "job:b", times=3)`."""
    numbers: dict[str, int] = {}

    def state(*streams: str, times: int = 1) -> None:
        for _ in range(times):
            for stream in streams:
                numbers[stream] = numbers.get(stream, 0) + 1
                outbox.fact(
                    stream=stream,
                    sequence=numbers[stream],
                    kind="job.claimed",
                    at=clock.now(),
                    data={},
                ).save(force_insert=True)

    return state


def received(broker: Broker, queue: str) -> dict[str, list[int]]:
    """Take all messages and return the numbers of each stream, in the order of arrival."""
    found: dict[str, list[int]] = {}
    for body in broker.bodies(queue):
        event = json.loads(body)
        found.setdefault(event["subject"], []).append(int(event["sequence"]))
    return found


def first_arrivals(numbers: list[int]) -> list[int]:
    """Return the numbers as a receiver keeps them that drops what it has seen."""
    return list(dict.fromkeys(numbers))


def waiting() -> int:
    return Fact.objects.filter(published_at=None).count()


def relay_once(destination: Any = None) -> int:
    runner = relay.Relay(destination or rabbitmq.destination())
    try:
        return runner.relay_pass()
    finally:
        runner.close()


def test_messages_are_persistent_and_typed(
    broker: Broker, exchange: str, tell: Callable[..., None]
) -> None:
    tell("job:a")
    call_command("relay", "--once")

    with broker.channel() as channel:
        method, properties, body = channel.basic_get(exchange, auto_ack=True)
    fact = Fact.objects.get()
    assert method.routing_key == "job.dev.fencepost.job.claimed"
    assert properties.delivery_mode == 2
    assert properties.content_type == "application/cloudevents+json"
    assert properties.message_id == str(fact.receipt_id)
    assert json.loads(body)["id"] == fact.fact_id
    assert fact.published_at is not None


def test_an_unroutable_message_holds_its_stream_until_a_queue_is_bound(
    broker: Broker, exchange: str, tell: Callable[..., None], settings: Any
) -> None:
    settings.BROKER_QUEUE = ""
    with broker.channel() as channel:
        channel.exchange_declare(exchange, exchange_type="topic", durable=True)
        channel.queue_declare("agents", durable=True)
        channel.queue_bind("agents", exchange, routing_key="agent.#")
    tell("job:a", "agent:hermes", times=2)

    assert relay_once() == 2
    assert received(broker, "agents") == {"agent:hermes": [1, 2]}
    hold = StreamHold.objects.get()
    assert hold.stream == "job:a"
    assert "unroutable" in hold.last_error

    with broker.channel() as channel:
        channel.queue_declare(exchange, durable=True)
        channel.queue_bind(exchange, exchange, routing_key="job.#")
    relay.release(sink="rabbitmq", stream="job:a", actor="user:anna", reason="bound the queue")
    assert relay_once() == 2
    assert received(broker, exchange) == {"job:a": [1, 2]}
    assert waiting() == 0


def test_a_nack_holds_only_the_stream_of_its_message(
    broker: Broker, exchange: str, tell: Callable[..., None], settings: Any
) -> None:
    settings.BROKER_QUEUE = ""
    full = {"x-max-length": 1, "x-overflow": "reject-publish"}
    with broker.channel() as channel:
        channel.exchange_declare(exchange, exchange_type="topic", durable=True)
        channel.queue_declare("full", durable=True, arguments=full)
        channel.queue_bind("full", exchange, routing_key="job.#")
        channel.queue_declare("roomy", durable=True)
        channel.queue_bind("roomy", exchange, routing_key="agent.#")
    tell("job:a", "agent:hermes", times=3)

    relay_once()

    assert "nack" in StreamHold.objects.get(stream="job:a").last_error
    assert received(broker, "roomy") == {"agent:hermes": [1, 2, 3]}
    # A classic queue takes one or two before it counts itself full; never one past a nack.
    arrived = received(broker, "full")["job:a"]
    assert arrived == list(range(1, len(arrived) + 1))
    assert len(arrived) < 3
    published = Fact.objects.filter(stream="job:a").exclude(published_at=None).count()
    assert published == len(arrived)


def test_nothing_is_lost_or_reordered_when_the_broker_is_killed_and_restarted(
    broker: Broker, exchange: str, tell: Callable[..., None]
) -> None:
    streams = ["job:a", "job:b", "job:c"]
    tell(*streams, times=20)
    stop, some_sent = threading.Event(), threading.Event()
    runner = relay.Relay(rabbitmq.destination(), stop=stop)
    mark = runner._mark

    def mark_and_tell(rows: list[dict[str, Any]]) -> None:
        mark(rows)
        some_sent.set()

    runner._mark = mark_and_tell  # type: ignore[method-assign]
    thread = threading.Thread(target=_run, args=(runner,))
    thread.start()
    try:
        assert some_sent.wait(20)
        broker.kill()
        tell(*streams, times=20)
        broker.start()
        _until_nothing_waits(seconds=60)
    finally:
        stop.set()
        thread.join(20)
    for numbers in received(broker, exchange).values():
        assert first_arrivals(numbers) == list(range(1, 41))
    assert not StreamHold.objects.filter(parked_at__isnull=False).exists()


def test_a_relay_killed_between_send_and_mark_sends_again_with_the_same_id(
    broker: Broker, exchange: str, tell: Callable[..., None]
) -> None:
    tell("job:a", times=5)
    killed = children.start_python(
        RELAY_KILLED_BEFORE_IT_MARKS,
        BROKER_URL=broker.url,
        BROKER_EXCHANGE=exchange,
        BROKER_QUEUE=exchange,
    )
    output, _ = killed.communicate(timeout=30)
    assert killed.returncode == -signal.SIGKILL, output
    assert waiting() == 5
    # The server drops the lock of the dead when it notices.
    _until(lambda: relay_once() == 5)

    bodies = broker.bodies(exchange)
    assert len(bodies) == 10
    assert bodies[:5] == bodies[5:]
    assert [int(json.loads(body)["sequence"]) for body in bodies] == [1, 2, 3, 4, 5] * 2
    assert waiting() == 0


def test_a_broker_that_hangs_is_given_up_and_nothing_is_marked(
    broker: Broker, exchange: str, tell: Callable[..., None]
) -> None:
    sink = rabbitmq.destination().connect()
    tell("job:a", times=2)
    broker.freeze()
    try:
        with pytest.raises(SinkAway, match="no answer in time"):
            sink.send(relay.message_of(_row(Fact.objects.order_by("id")[0])))
    finally:
        broker.thaw()
        sink.close()
    assert waiting() == 2

    _until(lambda: relay_once() == 2)
    numbers = received(broker, exchange)["job:a"]
    assert first_arrivals(numbers) == [1, 2]


def test_a_slow_confirm_is_waited_for(
    broker: Broker, exchange: str, tell: Callable[..., None]
) -> None:
    sink = rabbitmq.destination().connect()
    tell("job:a")
    broker.freeze()
    thawing = threading.Timer(1.0, broker.thaw)
    thawing.start()
    try:
        sink.send(relay.message_of(_row(Fact.objects.get())))
    finally:
        thawing.join()
        sink.close()
    assert received(broker, exchange) == {"job:a": [1]}


def test_the_command_ends_on_sigterm_and_has_relayed_what_waited(
    broker: Broker, exchange: str, tell: Callable[..., None]
) -> None:
    tell("job:a", "job:b", times=3)
    running = children.start(
        "relay", "--threads", "2",
        BROKER_URL=broker.url, BROKER_EXCHANGE=exchange, BROKER_QUEUE=exchange,
    )  # fmt: skip
    try:
        _until_nothing_waits(seconds=30)
    finally:
        running.send_signal(signal.SIGTERM)
        output, _ = running.communicate(timeout=20)
    assert running.returncode == 0, output
    assert "Relaying to rabbitmq" in output
    assert received(broker, exchange) == {"job:a": [1, 2, 3], "job:b": [1, 2, 3]}


def _row(fact: Fact) -> dict[str, Any]:
    return {**vars(fact), "data": json.dumps(fact.data)}


def _run(runner: relay.Relay) -> None:
    try:
        runner.run()
    finally:
        connection.close()


def _until_nothing_waits(*, seconds: float) -> None:
    _until(lambda: waiting() == 0, seconds=seconds)


def _until(holds: Callable[[], bool], *, seconds: float = 15) -> None:
    """Ask the database again and again, for a bounded time; a process of its own is at work."""
    never = threading.Event()
    for _ in range(int(seconds / 0.1)):
        if holds():
            return
        never.wait(0.1)
    raise AssertionError("it did not come about in time")
