"""The example receiver that tells people what waits: on the facts that jobs really tell."""

from __future__ import annotations

import importlib.util
import json
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from governance.core.models import Fact
from governance.relay.sinks import Message, SinkAway
from governance.relay.sinks.webhook import Webhook
from jobs import transitions
from jobs.console.inbox import KINDS
from jobs.models import Job
from tests.work import ANNA, pass_time

ROOT = Path(__file__).parents[2]
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def example() -> Any:
    spec = importlib.util.spec_from_file_location(
        "notify_operators", ROOT / "examples/notify_operators.py"
    )
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


EXAMPLE = example()


class Receiver:
    """The example at work, with the relay's own sink to reach it by."""

    def __init__(self) -> None:
        self.told: list[str] = []
        self.away = False
        self.server = EXAMPLE.serve(
            port=0,
            secret=SECRET,
            notices=EXAMPLE.Notices(console="https://f.example.org/admin/"),
            tell=self.tell,
        )
        self.url = f"http://127.0.0.1:{self.server.server_port}/"
        self.sink = Webhook(url=self.url, secret=SECRET, timeout_seconds=5)

    def tell(self, notice: str) -> None:
        if self.away:
            raise ConnectionRefusedError
        self.told.append(notice)

    def send(self, fact: Fact) -> None:
        event = {"id": fact.fact_id, "subject": fact.stream, "type": fact.type, "data": fact.data}
        body = json.dumps(event).encode()
        self.sink.send(Message(str(fact.receipt_id), fact.stream, fact.type, body))

    def send_all(self, job: Job) -> None:
        for fact in Fact.objects.filter(stream=job.audit_subject).order_by("sequence"):
            self.send(fact)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    made = Receiver()
    thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
    thread.start()
    yield made
    made.sink.close()
    made.server.shutdown()
    thread.join(5)
    made.server.server_close()


def test_what_it_tells_of_is_what_the_inbox_shows_of_jobs() -> None:
    of_jobs = set(KINDS.values()) - {Job.State.NEEDS_REWORK}

    assert set(EXAMPLE.WAITS) == {*of_jobs, Job.State.IN_DOUBT}
    page = (ROOT / "docs/how-to/notifications.md").read_text()
    assert all(f"| `{state}` |" in page for state in EXAMPLE.WAITS)


def test_each_time_that_a_job_waits_people_are_told_once(receiver: Receiver, make_job: Any) -> None:
    job = make_job(task_id="invoices", execution_approval_required=True)
    transitions.pause(task_id=job.task_id, **ANNA)
    transitions.resume(task_id=job.task_id, **ANNA)
    transitions.approve(task_id=job.task_id, **ANNA)
    pass_time(job, "approval_valid_until")
    transitions.sweep()

    receiver.send_all(job)

    place = "https://f.example.org/admin/jobs/job/task/invoices/"
    assert receiver.told == [f"invoices waits for an approval: {place}"] * 2


def test_reviews_and_escalations_are_told(
    receiver: Receiver, delivered: Any, escalated: Any
) -> None:
    receiver.send_all(delivered())
    receiver.send_all(escalated())

    assert [notice.partition(": ")[0].partition(" ")[2] for notice in receiver.told] == [
        "waits for a review",
        "has called for a human",
    ]


def test_who_cannot_be_told_is_told_when_the_fact_comes_again(
    receiver: Receiver, make_job: Any
) -> None:
    job = make_job(execution_approval_required=True)
    receiver.away = True
    with pytest.raises(SinkAway):
        receiver.send_all(job)

    receiver.away = False
    receiver.send_all(job)
    receiver.send_all(job)

    assert len(receiver.told) == 1


def test_what_nobody_signed_is_refused(receiver: Receiver) -> None:
    answer = httpx2.post(receiver.url, json={"data": {"task_id": "a", "state": "held"}})

    assert (answer.status_code, receiver.told) == (401, [])
