"""Facts that agents state: a receipt each, told once, kept as evidence under a stale token."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import rfc8785
from django.db import IntegrityError, connection, transaction
from django.test import Client
from django.test.utils import CaptureQueriesContext
from uuid_utils.compat import uuid7

from agents import entry
from agents.entry import Entry
from governance.core import clock
from governance.core.models import AuditEvent, Fact, PrunedFact
from governance.relay import retention
from jobs import transitions
from jobs.models import Job
from jobs.transitions import facts
from tests.evidence import actions, untouched
from tests.work import Running, expire_lease, make_available
from tests.world import TEST

MakeJob = Callable[..., Job]
Post = Callable[..., tuple[int, dict[str, Any]]]
DATA = {"report": "r-1", "pages": 3}


def stated(data: dict[str, Any] = DATA, **over: Any) -> dict[str, Any]:
    return {
        "fact_id": "report-1",
        "content_sha256": hashlib.sha256(rfc8785.dumps(data)).hexdigest(),
        "type": "com.example.report.published",
        "data": data,
        "subject": None,
    } | over


@pytest.fixture
def post(client: Client, hermes_token: str) -> Post:
    def call(path: str, body: dict[str, Any], key: str = "") -> tuple[int, dict[str, Any]]:
        answer = client.post(
            f"/v1/{path}",
            body,
            content_type="application/json",
            headers={
                "Authorization": f"Bearer {hermes_token}",
                "Idempotency-Key": key or str(uuid7()),
            },
        )
        return answer.status_code, answer.json()

    return call


@pytest.fixture
def subject(make_job: MakeJob, post: Post) -> dict[str, Any]:
    job = make_job()
    _, told = post(f"jobs/{job.task_id}/claim", {"worker_id": "w1"})
    return {
        "task_id": job.task_id,
        "worker_id": "w1",
        "attempt": told["attempt"],
        "fencing_token": told["fencing_token"],
    }


def test_a_fact_of_a_job_takes_the_next_place_in_its_stream(
    post: Post, subject: dict[str, Any]
) -> None:
    job = Job.objects.get(task_id=subject["task_id"])
    status, receipt = post("facts", stated(subject=subject))
    assert (status, receipt["result_code"]) == (200, "ACCEPTED")
    assert receipt["sequence"] == job.fact_sequence + 1
    fact = Fact.objects.get(receipt_id=receipt["receipt_id"])
    assert (fact.stream, fact.relayed, fact.data) == (job.audit_subject, True, DATA)
    assert AuditEvent.objects.filter(subject=job.audit_subject, action="fact.stated").count() == 1


def test_the_same_fact_again_has_the_same_receipt(post: Post, subject: dict[str, Any]) -> None:
    first = post("facts", stated(subject=subject))
    assert post("facts", stated(subject=subject)) == first
    assert Fact.objects.filter(fact_id="report-1").count() == 1


def test_a_fact_that_was_pruned_is_not_recorded_again(post: Post, subject: dict[str, Any]) -> None:
    first = post("facts", stated(subject=subject))
    long_ago = clock.now() - timedelta(days=retention.PUBLISHED_FACT_DAYS + 1)
    Fact.objects.update(published_at=long_ago)
    assert retention.prune().facts > 0
    assert not Fact.objects.exists()

    again = post("facts", stated(subject=subject))
    other = post("facts", stated({"report": "r-2"}, subject=subject))

    assert again == first
    assert (other[0], other[1]["reason"]) == (409, "FACT_DIGEST_CONFLICT")
    assert other[1]["current"] == {"content_sha256": stated()["content_sha256"]}
    assert not Fact.objects.exists()
    assert AuditEvent.objects.filter(action="fact.stated").count() == 1


def test_other_content_under_the_same_id_is_a_conflict(post: Post, subject: dict[str, Any]) -> None:
    post("facts", stated(subject=subject))
    status, refused = post("facts", stated({"report": "r-2"}, subject=subject))
    assert (status, refused["code"], refused["reason"]) == (
        409,
        "ABORTED",
        "FACT_DIGEST_CONFLICT",
    )
    assert Fact.objects.get(fact_id="report-1").data == DATA


def test_a_wrong_digest_is_refused(post: Post) -> None:
    status, refused = post("facts", stated(content_sha256="0" * 64))
    assert (status, refused["reason"]) == (409, "CHECKSUM_MISMATCH")
    assert not Fact.objects.filter(fact_id="report-1").exists()


def test_a_fact_under_a_stale_token_is_kept_and_not_relayed(
    post: Post, subject: dict[str, Any]
) -> None:
    transitions.stop(task_id=subject["task_id"], **TEST)
    before = Job.objects.get(task_id=subject["task_id"]).fact_sequence
    status, receipt = post("facts", stated(subject=subject))
    assert (status, receipt["sequence"]) == (200, None)
    assert not Fact.objects.get(fact_id="report-1").relayed
    job = Job.objects.get(task_id=subject["task_id"])
    assert job.fact_sequence == before
    assert AuditEvent.objects.filter(subject=job.audit_subject, action="fact.kept").count() == 1


def test_the_same_evidence_is_kept_once(post: Post, subject: dict[str, Any]) -> None:
    transitions.stop(task_id=subject["task_id"], **TEST)
    first = post("facts", stated(subject=subject))

    assert post("facts", stated(subject=subject)) == first
    assert Fact.objects.filter(fact_id="report-1").count() == 1


@pytest.mark.parametrize("data", [DATA, {"report": "r-2"}], ids=["same", "other"])
def test_evidence_leaves_the_id_free_for_the_attempt_that_holds_the_token(
    post: Post, subject: dict[str, Any], data: dict[str, Any]
) -> None:
    job = Job.objects.get(task_id=subject["task_id"])
    expire_lease(job)
    transitions.end_if_due(task_id=job.task_id)
    make_available(job)
    kept = post("facts", stated(subject=subject))
    _, claim = post(f"jobs/{job.task_id}/claim", {"worker_id": "w2"})
    current = {name: claim[name] for name in ("attempt", "fencing_token")} | {"worker_id": "w2"}
    job.refresh_from_db()

    status, receipt = post("facts", stated(data, subject=subject | current))

    assert kept[1]["sequence"] is None
    assert (status, receipt["sequence"]) == (200, job.fact_sequence + 1)
    assert receipt["receipt_id"] != kept[1]["receipt_id"]
    recorded = Fact.objects.get(fact_id="report-1", relayed=True)
    assert (recorded.data, str(recorded.receipt_id)) == (data, receipt["receipt_id"])
    assert actions(job)[-1] == "fact.stated"
    # The late one is told what is recorded now.
    status, late = post("facts", stated(subject=subject))
    if data == DATA:
        assert (status, late) == (200, receipt)
    else:
        assert (status, late["reason"]) == (409, "FACT_DIGEST_CONFLICT")
        assert Fact.objects.filter(fact_id="report-1").count() == 2


def test_another_type_is_another_content(post: Post, subject: dict[str, Any]) -> None:
    post("facts", stated(subject=subject))
    with untouched(Job.objects.get(task_id=subject["task_id"])):
        status, refused = post("facts", stated(subject=subject, type="com.example.other"))
    assert (status, refused["reason"]) == (409, "FACT_DIGEST_CONFLICT")
    assert refused["current"] == {"type": "com.example.report.published"}


def test_another_subject_is_another_content(
    make_job: MakeJob, post: Post, subject: dict[str, Any]
) -> None:
    first, second = Job.objects.get(task_id=subject["task_id"]), make_job()
    _, claim = post(f"jobs/{second.task_id}/claim", {"worker_id": "w1"})
    other = {name: claim[name] for name in ("attempt", "fencing_token")} | {"worker_id": "w1"}
    post("facts", stated(subject=subject))

    with untouched(first, second):
        answers = [
            post("facts", stated(subject=other | {"task_id": second.task_id})),
            post("facts", stated()),
        ]

    for status, refused in answers:
        assert (status, refused["reason"]) == (409, "FACT_DIGEST_CONFLICT")
        assert refused["current"] == {"stream": first.audit_subject}


def test_a_pruned_fact_is_told_from_one_of_another_type_or_subject(
    post: Post, subject: dict[str, Any]
) -> None:
    first = post("facts", stated(subject=subject))
    Fact.objects.update(
        published_at=clock.now() - timedelta(days=retention.PUBLISHED_FACT_DAYS + 1)
    )
    retention.prune()

    for other in (stated(subject=subject, type="com.example.other"), stated()):
        status, refused = post("facts", other)
        assert (status, refused["reason"]) == (409, "FACT_DIGEST_CONFLICT")
    assert post("facts", stated(subject=subject)) == first


def test_a_receipt_that_an_earlier_release_left_is_given_for_its_digest(post: Post) -> None:
    receipt_id = uuid7()
    PrunedFact.objects.create(
        principal="agent:hermes", fact_id="report-1", receipt_id=receipt_id, sequence=3,
        content_sha256=stated()["content_sha256"], recorded_at=clock.now(),
    )  # fmt: skip

    status, receipt = post("facts", stated())

    assert (status, receipt["receipt_id"], receipt["sequence"]) == (200, str(receipt_id), 3)


@pytest.mark.parametrize(
    ("relayed", "rule"), [(True, "fact_id_once_stated"), (False, "fact_kept_once")]
)
def test_the_database_refuses_a_second_fact_under_an_id(
    post: Post, relayed: bool, rule: str
) -> None:
    post("facts", stated())
    fact = Fact.objects.get(fact_id="report-1")
    for number in (101, 102):
        fact.pk, fact.receipt_id, fact.relayed = None, uuid7(), relayed
        fact.sequence = number if relayed else None
        if relayed or number == 102:
            with pytest.raises(IntegrityError, match=rule), transaction.atomic():
                fact.save(force_insert=True)
        else:
            fact.save(force_insert=True)


def test_a_fact_without_a_subject_is_the_agents_own(post: Post) -> None:
    first, second = post("facts", stated()), post("facts", stated(fact_id="report-2"))
    assert [first[1]["sequence"], second[1]["sequence"]] == [1, 2]
    assert set(Fact.objects.values_list("stream", flat=True)) == {"agent:hermes"}


@pytest.mark.parametrize("kind", ["dev.fencepost.job.completed", "with space", "", "-x"])
def test_a_type_that_is_not_the_callers_is_refused(post: Post, kind: str) -> None:
    status, refused = post("facts", stated(type=kind))
    assert (status, refused["code"]) == (400, "INVALID_ARGUMENT")
    assert not Fact.objects.filter(fact_id="report-1").exists()


@pytest.mark.parametrize(
    ("named", "refusal"),
    [
        ({"worker_id": "w2"}, (409, "LEASE_HELD_BY_ANOTHER")),
        ({}, (400, "INVALID_ARGUMENT")),
    ],
)
def test_a_current_token_states_nothing_for_another_than_its_holder(
    post: Post, subject: dict[str, Any], named: dict[str, str], refusal: tuple[int, str]
) -> None:
    about = {name: value for name, value in subject.items() if name != "worker_id"} | named

    status, refused = post("facts", stated(subject=about))

    assert (status, refused["reason"]) == refusal
    assert not Fact.objects.filter(fact_id="report-1").exists()
    pointers = [fault["pointer"] for fault in refused["errors"]]
    assert pointers == (["/subject/worker_id"] if status == 400 else [])


def test_another_agents_job_is_nobodys_subject(
    client: Client, post: Post, subject: dict[str, Any], openclaw_token: str
) -> None:
    answer = client.post(
        "/v1/facts",
        stated(subject=subject),
        content_type="application/json",
        headers={
            "Authorization": f"Bearer {openclaw_token}",
            "Idempotency-Key": str(uuid7()),
        },
    )
    assert answer.status_code == 403
    assert not Fact.objects.filter(fact_id="report-1").exists()


@pytest.mark.parametrize("about", ["a job", "the agent"])
def test_the_agent_is_locked_before_the_facts_identity_and_that_before_the_job(
    worker: Entry, running: Callable[..., Running], about: str
) -> None:
    held = running()
    subject = facts.Subject(**held.binding) if about == "a job" else None
    fact = facts.Stated("report-1", stated()["content_sha256"], "com.example", DATA)

    with CaptureQueriesContext(connection) as queries:
        facts.state_fact(entry=worker, stated=fact, subject=subject)

    sent = ";".join(query["sql"] for query in queries.captured_queries)
    order = [entry.LOCK_SHARED, facts.LOCK_FACT, "FROM jobs_job j JOIN jobs_task"]
    places = [sent.find(text) for text in (order if subject else order[:2])]
    assert -1 < places[0] and places == sorted(places)
