"""The console's pages of the relay: what waits, what is parked, and how it is released."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from governance.console.models import BulkItem
from governance.core import clock, outbox
from governance.core.models import AuditEvent, Fact
from governance.relay import relay
from governance.relay.models import FactSink, Pulse, StreamHold
from jobs.models import Job
from tests.console import act_url, confirm

MODEL = "governance.streamhold"
LIST = "admin:governance_streamhold_changelist"
QUERIES_MAX = 12
REFUSAL = "unroutable: no queue is bound"


@pytest.fixture
def broker(settings: Any) -> None:
    settings.BROKER_URL = "amqp://guest:guest@broker.example:5672/%2F"
    settings.WEBHOOK_URL = ""


@pytest.fixture
def no_broker(settings: Any) -> None:
    settings.BROKER_URL = settings.WEBHOOK_URL = ""


def hold(job: Job, *, parked: bool = True, tries: int = relay.TRIES_MAX) -> StreamHold:
    """Hold the stream of a job at its first fact, as the relay does."""
    now = clock.now()
    return StreamHold.objects.create(
        sink="rabbitmq",
        stream=job.audit_subject,
        fact=Fact.objects.get(stream=job.audit_subject, sequence=1),
        tries=tries,
        last_error=REFUSAL,
        failed_at=now,
        next_try_at=now + timedelta(minutes=10),
        parked_at=now if parked else None,
    )


def page(client: Any, url: str) -> str:
    answer = client.get(url)
    assert answer.status_code == 200
    return str(answer.content.decode())


def test_without_a_broker_the_console_says_that_facts_wait(
    as_: Any, make_job: Any, no_broker: None
) -> None:
    client = as_("viewer")
    assert "No fact waits for the relay" in page(client, reverse("admin:index"))
    make_job()

    for url in (reverse("admin:index"), reverse(LIST)):
        told = page(client, url)
        assert "<strong>1</strong> fact waits (no broker" in told
        assert "BROKER_URL" in told


def test_with_a_broker_the_overview_says_how_many_wait_and_how_many_streams_are_parked(
    as_: Any, make_job: Any, broker: None
) -> None:
    hold(make_job(task_id="parked-1")), hold(make_job(task_id="tried-1"), parked=False)

    told = page(as_("viewer"), reverse("admin:index"))

    assert "<strong>2</strong> facts wait." in told
    assert "<strong>1</strong> stream parked" in told
    assert f'href="{reverse(LIST)}?held=parked"' in told
    assert "no broker" not in told


def test_the_list_says_where_since_when_and_why_a_stream_is_held(
    as_: Any, make_job: Any, broker: None
) -> None:
    job = make_job(task_id="parked-1")
    parked, tried = hold(job), hold(make_job(task_id="tried-1"), parked=False, tries=3)
    Pulse.objects.create(name="relay:rabbitmq", at=clock.now() - timedelta(minutes=5))
    client = as_("viewer")

    told = page(client, reverse(LIST))
    assert f'<a href="{reverse("admin:jobs_job_change", args=(job.pk,))}">parked-1</a>' in told
    assert REFUSAL in told
    assert "5 min ago" in told, "the relay's last round"
    rows = client.get(reverse(LIST), {"held": "parked"}).context["cl"].result_list
    assert [row.pk for row in rows] == [parked.pk]
    rows = client.get(reverse(LIST), {"q": "tried-"}).context["cl"].result_list
    assert [row.pk for row in rows] == [tried.pk]

    told = page(client, reverse("admin:governance_streamhold_change", args=(parked.pk,)))
    assert "after a release" in told
    assert f"<dd>{relay.TRIES_MAX}</dd>" in told
    assert reverse("admin:governance_fact_change", args=(parked.fact_id,)) in told
    assert reverse(LIST) in page(client, reverse("admin:governance_fact_changelist"))


def test_what_is_behind_a_refused_fact_is_known_without_counting(
    as_: Any, make_job: Any, broker: None
) -> None:
    job = make_job()
    hold(job)
    [alone] = as_("viewer").get(reverse(LIST)).context["cl"].result_list
    for sequence in (2, 3, 4):
        later = outbox.fact(
            stream=job.audit_subject, sequence=sequence, kind="job.paused", at=clock.now(), data={}
        )
        later.save(force_insert=True)

    [followed] = as_("viewer").get(reverse(LIST)).context["cl"].result_list

    assert (alone.waiting_facts, followed.waiting_facts) == (1, 4)


def test_a_parked_stream_waits_in_the_inbox(as_: Any, make_job: Any, broker: None) -> None:
    row = hold(make_job(task_id="parked-1"))
    hold(make_job(task_id="tried-1"), parked=False)

    told = page(as_("operator"), reverse("admin:console_inbox"))

    assert reverse("admin:governance_streamhold_change", args=(row.pk,)) in told
    assert "parked-1" in told
    assert "tried-1" not in told


def test_an_operator_releases_a_parked_stream_with_a_reason(
    as_: Any, make_job: Any, broker: None
) -> None:
    job = make_job()
    row = hold(job)

    confirm(as_("operator"), MODEL, "release", row.pk)

    row.refresh_from_db()
    assert (row.parked_at, row.tries) == (None, 0)
    assert row.next_try_at <= clock.now()
    event = AuditEvent.objects.get(subject="sink:rabbitmq")
    assert (event.action, event.actor, event.reason) == (
        "stream.released", "user:operator", "as agreed",
    )  # fmt: skip
    sink = FactSink.objects.get()
    told = page(as_("viewer"), reverse("admin:governance_factsink_change", args=(sink.pk,)))
    assert "stream.released" in told
    assert "audit chain verified" in told


def test_an_operator_releases_all_streams_of_a_sink_from_its_page(
    as_: Any, make_job: Any, broker: None
) -> None:
    for _ in range(3):
        hold(make_job())
    sink = FactSink.objects.create(name="rabbitmq")
    own = reverse("admin:governance_factsink_change", args=(sink.pk,))
    client = as_("operator")
    assert act_url("governance.factsink", "release_all") in page(client, own)
    assert act_url("governance.factsink", "release_all") not in page(as_("viewer"), own)

    confirm(client, "governance.factsink", "release_all", sink.pk)

    assert set(StreamHold.objects.values_list("parked_at", "tries")) == {(None, 0)}
    event = AuditEvent.objects.get(subject="sink:rabbitmq")
    assert (event.action, event.actor) == ("streams.released", "user:operator")
    assert "streams.released" in page(client, own)


def test_a_stream_that_went_on_meanwhile_is_not_released(
    as_: Any, make_job: Any, broker: None
) -> None:
    row = hold(make_job())
    client = as_("operator")
    asked = client.get(act_url(MODEL, "release"), {"key": str(row.pk)})
    assert asked.status_code == 200
    key = row.pk
    row.delete()

    confirm(client, MODEL, "release", key)

    assert BulkItem.objects.get().outcome == "failed"
    assert not AuditEvent.objects.filter(subject="sink:rabbitmq").exists()


@pytest.mark.parametrize("group", ["viewer", "approver"])
def test_who_may_not_release_is_neither_offered_it_nor_served(
    as_: Any, make_job: Any, broker: None, group: str
) -> None:
    row = hold(make_job())
    client = as_(group)

    told = page(client, reverse("admin:governance_streamhold_change", args=(row.pk,)))
    url = act_url(MODEL, "release")

    assert url not in told
    assert client.get(url, {"key": row.pk}).status_code == 403
    assert client.post(url, {"selection": "x", "reason": "as agreed"}).status_code == 403
    row.refresh_from_db()
    assert row.parked_at is not None
    assert not AuditEvent.objects.filter(subject="sink:rabbitmq").exists()


def test_the_list_asks_no_more_for_more_rows(as_: Any, make_job: Any, broker: None) -> None:
    client = as_("viewer")
    client.get(reverse(LIST))

    def asked() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(reverse(LIST))
        return len(queries)

    hold(make_job(task_id="a"))
    one = asked()
    for name in ("b", "c", "d"):
        hold(make_job(task_id=name), parked=name == "b")
    assert asked() == one <= QUERIES_MAX


def test_a_large_backlog_is_said_and_not_counted(
    as_: Any, make_job: Any, broker: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(relay, "FACTS_LOOKED_AT_MAX", 2)
    for name in ("a", "b", "c", "d"):
        hold(make_job(task_id=name))

    told = page(as_("viewer"), reverse("admin:index"))

    assert "<strong>More than 2</strong> facts wait." in told
    assert "<strong>More than 2</strong> streams parked" in told
