"""The jobs API, call by call: what it answers, what it refuses, and what a repetition gets."""

from __future__ import annotations

import json
from datetime import datetime
from typing import Any
from urllib.parse import urlencode

import pytest
from django.utils import timezone
from uuid_utils.compat import uuid7

from agents import entry
from agents.models import Session
from governance.core.errors import ApprovalRequired, BudgetExhausted
from governance.core.idempotency import Answer
from governance.core.models import AuditEvent, IdempotencyRecord
from governance.evidence.envelopes import payload_of
from governance.web.problems import problem_of
from jobs import transitions
from jobs.models import Job, Lease, Reflection, Skill, Task
from jobs.operations.shapes import PROGRESS_BYTES_MAX
from tests.client import Api, refused, timeless

pytestmark = pytest.mark.django_db

TASK: dict[str, Any] = {
    "task_id": "t-1",
    "source": "manual",
    "title": "A title",
    "goal": "A goal that is long enough",
    "task_type": "content_prep",
    "risk_tier": "low",
}


def key() -> str:
    return str(uuid7())


@pytest.fixture
def ops(submitter_token: str) -> Api:
    return Api(submitter_token)


@pytest.fixture
def worker(hermes_token: str) -> Api:
    return Api(hermes_token)


@pytest.fixture
def claimed(ops: Api, worker: Api) -> dict[str, Any]:
    """A job of hermes that worker `w1` has claimed: the claim's answer."""
    ops.post("/v1/jobs", TASK)
    return worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}).json()


def authority(claim: dict[str, Any]) -> dict[str, Any]:
    return {
        "worker_id": claim["job"]["claimed_by"],
        "attempt": claim["job"]["attempt"],
        "fencing_token": claim["fencing_token"],
    }


def lease_of(claim: dict[str, Any]) -> dict[str, Any]:
    """Return the lease of a claim as a heartbeat names it."""
    return {"task_id": "t-1"} | {name: claim[name] for name in ("attempt", "fencing_token")}


def events(task_id: str = "t-1") -> int:
    job = Job.objects.get(task_id=task_id)
    return AuditEvent.objects.filter(subject=job.audit_subject).count()


# --- intake ----------------------------------------------------------------------------------


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/intake/task"])
def test_a_task_is_queued_once_and_answered_again(ops, path):
    first = ops.post(path, TASK)
    again = ops.post(path, TASK)

    assert (first.status_code, first.json()["outcome"]) == (201, "queued")
    assert (again.status_code, again.json()["outcome"]) == (200, "already_queued")
    assert first.json()["job"]["job_id"] == again.json()["job"]["job_id"]
    assert first["ETag"] == '"r1"'
    assert Job.objects.count() == 1


def test_a_task_of_high_risk_is_held(ops):
    task = TASK | {
        "task_type": "implementation",
        "risk_tier": "high",
        "review_required": True,
        "execution_approval_required": True,
    }

    response = ops.post("/v1/jobs", task)

    assert (response.status_code, response.json()["outcome"]) == (201, "held")
    assert response.json()["job"]["state"] == response.json()["job"]["status"] == "held"


def test_an_older_client_may_send_its_time_and_status(ops):
    task = TASK | {"created_at": "2026-01-31T09:30:00Z", "status": "pending", "owner_role": None}

    assert ops.post("/v1/jobs", task).status_code == 201
    assert ops.post("/v1/jobs", TASK | {"task_id": "t-2", "status": "done"}).status_code == 400


@pytest.mark.parametrize("output", ["spec.md and schema.json", "", "x" * 4000, True, False])
def test_what_is_to_be_delivered_is_kept_signed_and_answered_as_given(
    ops: Api, worker: Api, output: str | bool
) -> None:
    asked = TASK | {"output_required": output}

    response = ops.post("/v1/jobs", asked)

    task = Task.objects.get()
    assert response.status_code == 201
    assert response.json()["job"]["output_required"] == output
    assert json.loads(payload_of(task.envelope))["output_required"] == output
    assert task.output_required is bool(output)
    assert ops.post("/v1/jobs", asked).json()["outcome"] == "already_queued"
    claim = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}).json()
    assert claim["job"]["output_required"] == output


@pytest.mark.parametrize("output", ["x" * 4001, 1, [], {}])
def test_what_is_to_be_delivered_is_text_or_yes_or_no(ops: Api, output: Any) -> None:
    response = ops.post("/v1/jobs", TASK | {"output_required": output})

    assert response.status_code == 400
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["/output_required"]
    assert not Job.objects.exists()


def test_a_member_that_is_null_has_its_default(ops):
    nothing = dict.fromkeys(
        "priority inputs output_required review_required execution_approval_required "
        "rollback_required labels max_attempts available_at".split()
    )

    first = ops.post("/v1/jobs", TASK | nothing)

    assert first.status_code == 201
    job = first.json()["job"]
    assert (job["priority"], job["inputs"], job["labels"]) == ("normal", {}, {})
    assert job["output_required"] is job["review_required"] is job["rollback_required"] is False
    assert ops.post("/v1/jobs", TASK).json()["outcome"] == "already_queued"


def test_an_instant_is_the_same_with_another_offset(ops):
    ops.post("/v1/jobs", TASK | {"deadline_at": "2100-01-31T09:30:00Z"})

    same = ops.post("/v1/jobs", TASK | {"deadline_at": "2100-01-31T11:30:00+02:00"})
    other = ops.post("/v1/jobs", TASK | {"deadline_at": "2100-01-31T11:30:00Z"})

    assert (same.status_code, same.json()["outcome"]) == (200, "already_queued")
    assert refused(other) == (409, "TASK_CONTENT_MISMATCH")


@pytest.mark.parametrize("offset", ["+23:59", "-23:59", "+16:00"])
def test_an_instant_may_have_any_offset_that_there_is(ops, offset):
    response = ops.post("/v1/jobs", TASK | {"available_at": f"2100-03-01T12:00:00{offset}"})

    assert response.status_code == 201, response.content
    [at] = Job.objects.values_list("available_at", flat=True)
    assert at == datetime.fromisoformat(f"2100-03-01T12:00:00{offset}")


#: Years 10000 and 0 in UTC, and the first instants beyond the bounds.
UNREADABLE = (
    "9999-12-31T23:59:59-05:00",
    "0001-01-01T00:00:00+09:00",
    "9000-01-01T00:00:00Z",
    "1970-01-01T00:59:59+01:00",
)


@pytest.mark.parametrize("at", UNREADABLE)
@pytest.mark.parametrize(
    "name", ["available_at", "deadline_at", "expires_if_not_started_at", "created_at"]
)
def test_an_instant_that_not_every_reader_holds_is_refused(ops, name, at):
    response = ops.post("/v1/jobs", TASK | {name: at})

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert [fault["pointer"] for fault in response.json()["errors"]] == [f"/{name}"]
    assert not Job.objects.exists()


@pytest.mark.parametrize("at", UNREADABLE)
@pytest.mark.parametrize("name", ["created_after", "created_before"])
def test_a_filter_takes_no_such_instant_either(ops, name, at):
    response = ops.get(f"/v1/jobs?{urlencode({name: at})}")

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert [fault["pointer"] for fault in response.json()["errors"]] == [f"/{name}"]


@pytest.mark.parametrize("at", UNREADABLE)
def test_a_hold_until_such_an_instant_is_refused(ops, at):
    ops.post("/v1/jobs", TASK)
    hold = {"action": "HOLD", "expected_task_revision": 1, "reason": "why", "until": at}

    response = ops.post("/v1/jobs/t-1/control", hold, Idempotency_Key=key())

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert "/until" in [fault["pointer"] for fault in response.json()["errors"]]
    assert (Job.objects.get().revision, events()) == (1, 1)


@pytest.mark.parametrize("at", ["8999-12-31T23:59:59Z", "1970-01-01T00:00:00Z"])
def test_the_first_and_the_last_instant_are_taken_and_read(ops, worker, at):
    assert ops.post("/v1/jobs", TASK | {"created_at": at, "available_at": at}).status_code == 201

    assert ops.get("/v1/jobs/t-1").status_code == worker.get("/v1/jobs").status_code == 200


def test_the_same_task_with_another_envelope_is_refused(ops):
    ops.post("/v1/jobs", TASK)

    response = ops.post("/v1/jobs", TASK | {"title": "Another title"})

    assert refused(response) == (409, "TASK_CONTENT_MISMATCH")
    assert response.json()["code"] == "ALREADY_EXISTS"
    assert events() == 1


@pytest.mark.parametrize(
    ("over", "pointer"),
    [
        ({"task_id": ""}, "/task_id"),
        ({"task_id": "x" * 101}, "/task_id"),
        ({"task_id": "a/b"}, "/task_id"),
        ({"task_id": "batch"}, "/task_id"),
        ({"task_id": "a\nb"}, "/task_id"),
        ({"task_id": "  "}, "/task_id"),
        ({"title": "abcd"}, "/title"),
        ({"title": " " * 5}, "/title"),
        ({"title": "\u200b\n\t \u3000"}, "/title"),
        ({"goal": " \n" * 5}, "/goal"),
        ({"title": "x" * 201}, "/title"),
        ({"goal": "too short"}, "/goal"),
        ({"goal": "x" * 4001}, "/goal"),
        ({"source": "nowhere"}, "/source"),
        ({"task_type": "nothing"}, "/task_type"),
        ({"risk_tier": "extreme"}, "/risk_tier"),
        ({"risk_tier": "high"}, "/risk_tier"),
        ({"priority": "asap"}, "/priority"),
        ({"preferred_owner": "openclaw"}, "/preferred_owner"),
        ({"preferred_owner": "hermes", "owner_role": "openclaw"}, "/owner_role"),
        ({"inputs": []}, "/inputs"),
        ({"review_required": "yes"}, "/review_required"),
        ({"available_at": "2026-01-31 09:30"}, "/available_at"),
        ({"available_at": "2026-02-31T09:30:00Z"}, "/available_at"),
        ({"available_at": "9999-12-31T23:59:59-05:00"}, "/available_at"),
        ({"created_at": "0001-01-01T00:00:00+05:00"}, "/created_at"),
        ({"deadline_at": "2020-01-31T09:30:00Z"}, "/deadline_at"),
        ({"max_attempts": 0}, "/max_attempts"),
        ({"max_attempts": 999}, "/max_attempts"),
        ({"colour": "red"}, "/colour"),
    ],
)
def test_a_broken_rule_of_intake_is_named_and_nothing_is_stored(ops, over, pointer):
    response = ops.post("/v1/jobs", TASK | over)

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert pointer in [fault["pointer"] for fault in response.json()["errors"]]
    assert Job.objects.count() == 0
    assert AuditEvent.objects.filter(subject__startswith="job:").count() == 0


def test_the_letters_of_an_instant_may_be_small(ops):
    """RFC 3339, 5.6."""
    answer = ops.post("/v1/jobs", TASK | {"available_at": "2036-01-31t09:30:00z"}).json()

    assert answer["job"]["available_at"] == "2036-01-31T09:30:00.000000Z"


def test_a_batch_answers_each_item_in_order_and_one_bad_item_spoils_no_other(ops):
    items = [
        TASK,
        TASK | {"task_id": "t-2", "title": "x"},
        TASK | {"task_id": "t-3", "source": "nowhere"},
        TASK,
        TASK | {"title": "Another title"},
        "no object",
        TASK | {"task_id": "t-4"},
        TASK | {"task_id": "t-5", "available_at": "9999-12-31T23:59:59-05:00"},
    ]

    response = ops.post("/v1/jobs/batch", {"tasks": items})

    assert response.status_code == 200
    results = response.json()["results"]
    assert [item["status"] for item in results] == [201, 400, 400, 200, 409, 400, 201, 400]
    assert results[1]["errors"] == [
        {"pointer": "/title", "detail": results[1]["errors"][0]["detail"]}
    ]
    assert results[3]["outcome"] == "already_queued"
    assert results[4]["reason"] == "TASK_CONTENT_MISMATCH"
    assert sorted(Job.objects.values_list("task_id", flat=True)) == ["t-1", "t-4"]


@pytest.mark.parametrize("body", [{}, {"other": []}, {"tasks": 5}, {"tasks": []}, "x", 5])
def test_a_broken_outer_shape_of_a_batch_is_refused(ops, body):
    assert refused(ops.post("/v1/jobs/batch", body)) == (400, "INVALID_ARGUMENT")


def test_a_batch_is_bounded(ops):
    items = [TASK | {"task_id": f"t-{n}"} for n in range(501)]

    assert refused(ops.post("/v1/jobs/batch", {"tasks": items})) == (400, "INVALID_ARGUMENT")
    assert Job.objects.count() == 0


def test_a_batch_may_be_a_bare_array(ops):
    assert ops.post("/v1/jobs/batch", [TASK]).json()["results"][0]["status"] == 201


# --- reads -----------------------------------------------------------------------------------


def test_a_job_is_read_with_its_revision_as_etag(ops, worker, claimed):
    response = worker.get("/v1/jobs/t-1")

    assert response.status_code == 200
    assert response.json()["state"] == "active"
    assert response["ETag"] == f'"r{response.json()["revision"]}"'
    assert ops.get("/v1/jobs/t-1").json() == response.json()


def test_an_absent_and_a_foreign_job_are_the_same_to_a_submitter(ops, issue, claimed):
    other = Api(issue(submitter="other"))

    absent, foreign = other.get("/v1/jobs/t-0"), other.get("/v1/jobs/t-1")

    assert refused(absent) == refused(foreign) == (404, "NOT_FOUND")
    assert absent.json()["detail"] == foreign.json()["detail"]


@pytest.mark.parametrize("path", ["/v1/jobs/t-1", "/v1/jobs/t-1/events"])
def test_another_agents_job_is_refused(openclaw_token, claimed, path):
    assert refused(Api(openclaw_token).get(path)) == (403, "WRONG_OWNER")


def test_jobs_are_paged_by_key_newest_first_and_without_a_count(ops):
    ops.post("/v1/jobs/batch", [TASK | {"task_id": f"t-{n}"} for n in range(5)])

    page = ops.get("/v1/jobs?page_size=2").json()
    assert page.keys() == {"results", "next", "previous"}
    seen = [job["task_id"] for job in page["results"]]
    while page["next"]:
        page = ops.get(page["next"]).json()
        seen += [job["task_id"] for job in page["results"]]

    assert seen == ["t-4", "t-3", "t-2", "t-1", "t-0"]


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("state=active", ["t-1"]),
        ("status=queued", ["t-2"]),
        ("task_type=rewrite", ["t-2"]),
        ("owner=hermes", ["t-1"]),
        ("priority=urgent", ["t-2"]),
        ("risk_tier=low", ["t-2", "t-1"]),
        ("task_id=t-2", ["t-2"]),
        ("task_id_prefix=t-", ["t-2", "t-1"]),
        ("paused=true", []),
        ("paused=False", ["t-2", "t-1"]),
        ("created_after=2020-01-01T00:00:00Z", ["t-2", "t-1"]),
        ("created_before=2020-01-01T00:00:00Z", []),
    ],
)
def test_jobs_are_filtered(ops, claimed, query, expected):
    ops.post("/v1/jobs", TASK | {"task_id": "t-2", "task_type": "rewrite", "priority": "urgent"})

    found = ops.get(f"/v1/jobs?{query}").json()["results"]

    assert [job["task_id"] for job in found] == expected


@pytest.mark.parametrize(
    "name",
    "state status owner task_type risk_tier priority paused on_hold task_id task_id_prefix "
    "created_after created_before cursor page_size".split(),
)
def test_an_empty_filter_is_refused(ops, claimed, name):
    for blank in ("", "%20"):
        response = ops.get(f"/v1/jobs?{name}={blank}")

        assert refused(response) == (400, "INVALID_ARGUMENT")
        assert [fault["pointer"] for fault in response.json()["errors"]] == [f"/{name}"]


@pytest.mark.parametrize(
    "query",
    [
        "state=lost",
        "priority=9",
        "created_after=soon",
        "cursor=zzz",
        "paused=yes",
        "on_hold=maybe",
    ],
)
def test_a_filter_with_a_bad_value_is_refused(ops, query):
    assert refused(ops.get(f"/v1/jobs?{query}")) == (400, "INVALID_ARGUMENT")


def test_an_agent_lists_its_own_jobs_only(openclaw_token, worker, claimed):
    assert [job["task_id"] for job in worker.get("/v1/jobs").json()["results"]] == ["t-1"]
    assert Api(openclaw_token).get("/v1/jobs").json()["results"] == []


def test_the_events_of_a_job_are_listed_as_they_were_hashed(ops, claimed):
    found = ops.get("/v1/jobs/t-1/events").json()["results"]

    assert [event["action"] for event in found] == ["job.queued", "job.claimed"]
    assert [event["seq"] for event in found] == [1, 2]
    assert found[1]["prev_hash"] == found[0]["hash"]


# --- claims ----------------------------------------------------------------------------------


def test_a_claim_gives_token_and_lease_also_within_the_job_and_the_envelope_once(claimed):
    assert claimed["outcome"] == "claimed"
    job = claimed["job"]
    assert (job["attempt"], job["attempt_number"], job["claimed_by"]) == (1, 1, "w1")
    assert job["fencing_token"] == claimed["fencing_token"] == 1
    assert job["lease"] == claimed["lease"]
    assert job["lease"].keys() == {"ttl_seconds", "heartbeat_interval_seconds", "expires_at"}
    assert claimed["envelope"]["payloadType"] and len(job["execution_digest"]) == 64
    assert not job.keys() & {"envelope", "story", "previous_progress", "rework", "models"}


def test_a_second_claim_of_the_same_name_is_given_the_same_again(worker, claimed):
    again = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"})

    assert (again.status_code, again.json()["outcome"]) == (200, "already_running")
    assert authority(again.json()) == authority(claimed)
    for name in ("envelope", "execution_digest", "attempt_deadline_at"):
        assert again.json()[name] == claimed[name]
    assert again.json()["lease"]["expires_at"] == claimed["lease"]["expires_at"]


def test_a_replayed_claim_gives_the_token_again(ops, worker):
    ops.post("/v1/jobs", TASK)
    name = key()

    first = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}, Idempotency_Key=name)
    again = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}, Idempotency_Key=name)

    assert timeless(again.content) == timeless(first.content)
    assert again["Idempotent-Replayed"] == "true"
    assert Job.objects.get().attempt == 1


def test_another_worker_does_not_get_a_held_lease(worker, claimed):
    before = events()

    response = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w2"})

    assert refused(response) == (409, "LEASE_HELD_BY_ANOTHER")
    assert events() == before


def test_the_wrong_agent_may_not_claim(openclaw_token, ops):
    ops.post("/v1/jobs", TASK)
    other = Api(openclaw_token)

    named = other.post("/v1/jobs/t-1/claim", {"worker_id": "w1", "owner": "hermes"})
    unnamed = other.post("/v1/jobs/t-1/claim", {"worker_id": "w1"})

    assert refused(named) == refused(unnamed) == (403, "WRONG_OWNER")
    assert events() == 1


def test_a_claim_needs_a_name_or_a_session(ops, worker):
    ops.post("/v1/jobs", TASK)

    response = worker.post("/v1/jobs/t-1/claim", {})

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert response.json()["errors"][0]["pointer"] == "/worker_id"


@pytest.mark.parametrize("seconds", [59, 3601, "900", 900.0, True])
def test_a_lease_has_its_bounds(ops, worker, seconds):
    ops.post("/v1/jobs", TASK)

    response = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1", "lease_seconds": seconds})

    assert refused(response) == (400, "INVALID_ARGUMENT")


def test_a_job_that_is_not_there_cannot_be_claimed(worker):
    response = worker.post("/v1/jobs/t-0/claim", {"worker_id": "w1"})

    assert refused(response) == (404, "NOT_FOUND")


def test_a_claim_under_an_unknown_session_is_refused(ops, worker):
    ops.post("/v1/jobs", TASK)

    response = worker.post("/v1/jobs/t-1/claim", {}, Fencepost_Session=str(uuid7()))

    assert refused(response) == (401, "SESSION_REQUIRED")
    assert events() == 1


def test_a_session_header_that_is_no_uuid_is_refused(worker):
    response = worker.post("/v1/jobs/t-1/claim", {}, Fencepost_Session="me")

    assert refused(response) == (400, "INVALID_ARGUMENT")


def test_a_stale_revision_in_if_match_fails_the_precondition(ops, worker):
    ops.post("/v1/jobs", TASK)

    response = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}, If_Match='"r7"')

    assert refused(response) == (412, "REVISION_MISMATCH")
    assert response.json()["current"] == {"revision": 1}
    assert events() == 1


def test_a_repetition_is_answered_whatever_revision_if_match_names(worker, claimed):
    said = authority(claimed) | {"result": 1}
    tag, same = '"r2"', key()
    path = "/v1/jobs/t-1/complete"
    first = worker.post(path, said, If_Match=tag, Idempotency_Key=same)
    assert first.json()["outcome"] == "recorded"
    before = events()

    replayed = worker.post(path, said, If_Match=tag, Idempotency_Key=same)
    repeated = worker.post(path, said, If_Match=tag)

    assert (replayed.status_code, replayed.content) == (200, first.content)
    assert repeated.json()["outcome"] == "already_recorded"
    other = worker.post(path, said | {"result": 2}, If_Match=tag)
    assert refused(other) == (409, "OUTCOME_CONFLICT")
    assert events() == before


def test_a_move_under_a_stale_revision_is_undone(worker, claimed):
    before = events()

    response = worker.post(
        "/v1/jobs/t-1/complete", authority(claimed) | {"result": 1}, If_Match='"r1"'
    )

    assert refused(response) == (412, "REVISION_MISMATCH")
    assert (Job.objects.get().state, events()) == ("active", before)
    assert Lease.objects.count() == 1


def test_a_session_that_asks_again_gets_what_its_claim_gave(ops, worker):
    ops.post("/v1/jobs", TASK)
    boot = {"activation_operation_id": "op-1", "cell_id": "c", "boot_id": "b"}
    told = worker.post(
        "/v1/agents/hermes/activate", boot | {"protocol_version": "1.0"}, idempotency_key=key()
    ).json()
    session = {"Fencepost-Session": told["session_id"]}
    first = worker.post("/v1/jobs/t-1/claim", **session).json()
    failure = authority(first) | {"error_message": "It broke.", "progress": {"step": 3}}
    worker.post("/v1/jobs/t-1/fail", failure, **session)
    Job.objects.update(available_at=timezone.now())
    second = worker.post("/v1/jobs/t-1/claim", **session).json()

    again = worker.post("/v1/jobs/t-1/claim", **session).json()

    assert again["outcome"] == "already_running"
    assert again["previous_progress"] == {"step": 3}
    varying = {"lease", "outcome", "job"}
    assert {k: v for k, v in again.items() if k not in varying} == {
        k: v for k, v in second.items() if k not in varying
    }


@pytest.mark.parametrize("name", ["deadline_at", "expires_if_not_started_at"])
def test_a_job_whose_time_is_over_is_not_started(ops, worker, name):
    ops.post("/v1/jobs", TASK)
    Job.objects.update(**{name: timezone.now()})

    one = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"})
    next_ones = worker.post("/v1/claims", {"worker_id": "w1"}, idempotency_key=key())

    assert refused(one) == (409, "INVALID_TRANSITION")
    assert next_ones.json()["results"] == []
    assert (Job.objects.get().attempt, events()) == (0, 1)


@pytest.mark.parametrize("tag", ['"r1"', "r1", "1", "*"])
def test_the_current_revision_in_if_match_passes(ops, worker, tag):
    ops.post("/v1/jobs", TASK)

    assert worker.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}, If_Match=tag).status_code == 200


def test_the_next_jobs_are_claimed_highest_priority_first(ops, worker):
    for n, priority in enumerate(["low", "urgent", "normal"]):
        ops.post("/v1/jobs", TASK | {"task_id": f"t-{n}", "priority": priority})

    body = worker.post("/v1/claims", {"worker_id": "w1", "limit": 2}, Idempotency_Key=key()).json()

    assert [item["job"]["task_id"] for item in body["results"]] == ["t-1", "t-2"]
    assert {item["outcome"] for item in body["results"]} == {"claimed"}
    assert body["retry_after_seconds"] is None


def test_claiming_the_next_jobs_needs_a_key(worker):
    response = worker.post("/v1/claims", {"worker_id": "w1"})

    assert refused(response) == (400, "IDEMPOTENCY_KEY_REQUIRED")


def test_an_empty_claim_is_no_record_and_a_granted_one_is(ops, worker):
    name = key()
    empty = worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=name)
    assert (empty.status_code, empty.json()["results"]) == (200, [])
    assert IdempotencyRecord.objects.count() == 0
    ops.post("/v1/jobs", TASK)

    first = worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=name)
    again = worker.post("/v1/claims", {"worker_id": "w1"}, Idempotency_Key=name)

    assert len(first.json()["results"]) == 1
    assert timeless(again.content) == timeless(first.content)
    assert Job.objects.get().attempt == 1


def test_a_claim_of_the_next_jobs_names_types_and_owner(ops, worker):
    ops.post("/v1/jobs", TASK)

    none = worker.post(
        "/v1/claims", {"worker_id": "w1", "task_types": ["healthcheck"]}, Idempotency_Key=key()
    )
    wrong = worker.post(
        "/v1/claims", {"worker_id": "w1", "owner": "openclaw"}, Idempotency_Key=key()
    )

    assert none.json()["results"] == []
    assert refused(wrong) == (403, "WRONG_OWNER")


@pytest.mark.parametrize("path", ["/v1/claims", "/v1/jobs/t-1/claim"])
def test_a_claim_is_refused_for_its_session_before_its_owner(ops, worker, path):
    ops.post("/v1/jobs", TASK)
    body, session = {"owner": "openclaw"}, {"Fencepost_Session": str(uuid7())}

    response = worker.post(path, body, Idempotency_Key=key(), **session)

    assert refused(response) == (401, "SESSION_REQUIRED")
    assert not Lease.objects.exists()


@pytest.mark.parametrize("over", [{"limit": 0}, {"limit": 101}, {"wait_seconds": 31}, {"x": 1}])
def test_a_claim_of_the_next_jobs_has_its_bounds(worker, over):
    response = worker.post("/v1/claims", {"worker_id": "w1"} | over, Idempotency_Key=key())

    assert refused(response) == (400, "INVALID_ARGUMENT")


# --- heartbeats ------------------------------------------------------------------------------


def test_heartbeats_answer_each_lease(worker, claimed):
    beat = lease_of(claimed) | {"progress": {"done": 1}}

    response = worker.post(
        "/v1/leases/heartbeat",
        {
            "leases": [
                beat,
                beat | {"fencing_token": 9},
                {"task_id": "t-0", "attempt": 1, "fencing_token": 1},
                {"task_id": "t-1", "attempt": "1", "fencing_token": 1},
            ]
        },
    )

    results = response.json()["results"]
    assert [item["status"] for item in results] == [200, 409, 404, 400]
    assert results[0]["control"] == "continue" and results[0]["ttl_seconds"] > 800
    assert results[1]["reason"] == "STALE_FENCING_TOKEN"
    assert Lease.objects.get().progress == {"done": 1}
    assert Job.objects.get().revision == claimed["job"]["revision"]


# --- outcomes --------------------------------------------------------------------------------


def test_a_delivery_is_recorded_once_and_told_again(worker, claimed):
    body = {"worker_id": "w1", **authority(claimed), "result": {"answer": 42}}

    first = worker.post("/v1/jobs/t-1/complete", body)
    again = worker.post("/v1/jobs/t-1/complete", body)
    other = worker.post("/v1/jobs/t-1/complete", body | {"result": {"answer": 43}})

    assert (first.status_code, first.json()["outcome"]) == (200, "recorded")
    assert (again.status_code, again.json()["outcome"]) == (200, "already_recorded")
    assert refused(other) == (409, "OUTCOME_CONFLICT")
    assert first.json()["job"]["state"] == "completed"
    assert first.json()["job"]["result"] == {"answer": 42}
    assert events() == 3


def test_a_completed_job_answers_a_claim_with_its_result(worker, claimed):
    worker.post("/v1/jobs/t-1/complete", authority(claimed) | {"result_pointer": "s3://a/b"})

    response = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w2"})

    assert (response.status_code, response.json()["outcome"]) == (200, "already_completed")
    assert response.json()["job"]["result_pointer"] == "s3://a/b"


def test_a_worker_may_ask_for_a_review(worker, claimed):
    response = worker.post("/v1/jobs/t-1/complete", authority(claimed) | {"needs_review": True})

    assert response.json()["job"]["state"] == "review_required"


def test_a_stale_token_writes_nothing(worker, claimed):
    stale = {"worker_id": "w1", "attempt": 1, "fencing_token": 7}
    for path, body in [
        ("complete", {"result": 1}),
        ("fail", {"error_message": "x"}),
        ("escalate", {"reason": "x"}),
        ("reflections", {"what_worked": "x"}),
    ]:
        response = worker.post(f"/v1/jobs/t-1/{path}", stale | body)

        assert refused(response) == (409, "STALE_FENCING_TOKEN"), path
        assert response.json()["current"]["fencing_token"] == 1
    assert Job.objects.get().state == "active"
    assert events() == 2


def test_the_older_contract_names_only_the_worker(worker, claimed):
    response = worker.post("/v1/jobs/t-1/complete", {"worker_id": "w1", "result": 1})

    assert response.json()["outcome"] == "recorded"


def test_a_whole_life_with_nothing_but_the_workers_name(ops, worker):
    ops.post("/v1/jobs", TASK | {"review_required": True})
    me = {"worker_id": "w1"}

    def post(path, **content):
        response = worker.post(f"/v1/jobs/t-1/{path}", me | content)
        assert response.status_code in (200, 201), response.content
        return response.json()["outcome"]

    assert post("claim") == "claimed"
    assert post("claim") == "already_running"
    assert post("reflections", what_worked="asking twice") == "recorded"
    assert post("fail", error_message="It broke.") == "recorded"
    assert post("fail", error_message="It broke.") == "already_recorded"
    Job.objects.update(available_at=timezone.now())
    assert post("claim") == "claimed"
    assert post("complete", result_pointer="out/1") == "recorded"
    rework = {"verdict": "needs_rework", "actor": "user:anna", "reason": "More."}
    transitions.review(task_id="t-1", **rework)
    assert post("claim") == "claimed"
    assert post("complete", result_pointer="out/2") == "recorded"
    assert post("complete", result_pointer="out/2") == "already_recorded"
    assert Job.objects.get().state == "review_required"


@pytest.mark.parametrize(
    ("body", "refusal"),
    [
        ({"worker_id": "w2"}, (409, "LEASE_HELD_BY_ANOTHER")),
        ({"worker_id": "w2", "attempt": 1, "fencing_token": 1}, (409, "LEASE_HELD_BY_ANOTHER")),
        ({"attempt": 1, "fencing_token": 1}, (400, "INVALID_ARGUMENT")),
        ({}, (400, "INVALID_ARGUMENT")),
        ({"attempt": 1}, (409, "FENCING_TOKEN_REQUIRED")),
        ({"fencing_token": 1}, (409, "FENCING_TOKEN_REQUIRED")),
    ],
)
@pytest.mark.parametrize(
    ("path", "content"),
    [
        ("complete", {"result": 1}),
        ("fail", {"error_message": "x"}),
        ("escalate", {"reason": "x"}),
        ("reflections", {"what_worked": "x"}),
    ],
)
def test_a_write_is_judged_by_token_and_holder(worker, claimed, path, content, body, refusal):
    response = worker.post(f"/v1/jobs/t-1/{path}", body | content)

    assert refused(response) == refusal
    if refusal[0] == 400:
        assert [fault["pointer"] for fault in response.json()["errors"]] == ["/worker_id"]
    assert Job.objects.get().state == "active"
    assert events() == 2


def test_another_agent_writes_nothing(openclaw_token, claimed):
    other = Api(openclaw_token)
    for path, body in [
        ("complete", {"result": 1}),
        ("fail", {"error_message": "x"}),
        ("escalate", {"reason": "x"}),
        ("reflections", {"what_worked": "x"}),
    ]:
        response = other.post(f"/v1/jobs/t-1/{path}", authority(claimed) | body)

        assert refused(response) == (403, "WRONG_OWNER"), path
    assert events() == 2


def test_deliveries_come_in_batches(ops, worker, claimed):
    good = {"task_id": "t-1", **authority(claimed), "result": 1}

    response = worker.post(
        "/v1/jobs/complete/batch",
        {
            "completions": [
                good,
                good,
                good | {"result": 2},
                {"task_id": "t-0", "worker_id": "w1", "attempt": 1, "fencing_token": 1},
                {"task_id": "t-1", "attempt": 1, "result": 1},
                {"attempt": 1},
            ]
        },
    )

    results = response.json()["results"]
    assert [item["status"] for item in results] == [200, 200, 409, 404, 409, 400]
    assert [item["outcome"] for item in results[:2]] == ["recorded", "already_recorded"]
    assert results[4]["reason"] == "FENCING_TOKEN_REQUIRED"


def test_an_item_of_a_batch_that_names_nobody_spoils_no_other(ops, worker, claimed):
    good = {"task_id": "t-1", **authority(claimed), "result": 1}
    unnamed = {name: value for name, value in good.items() if name != "worker_id"}

    response = worker.post("/v1/jobs/complete/batch", {"completions": [unnamed, good]})

    first, second = response.json()["results"]
    assert (first["status"], first["errors"][0]["pointer"]) == (400, "/worker_id")
    assert second["outcome"] == "recorded"


def test_a_batch_of_heartbeats_says_once_whose_they_are(worker, claimed):
    lease = lease_of(claimed)

    def beat(**beside):
        response = worker.post("/v1/leases/heartbeat", {"leases": [lease]} | beside)
        assert response.status_code == 200, response.content
        [result] = response.json()["results"]
        return result.get("outcome") or result["reason"]

    assert beat(worker_id="w1") == "renewed"
    assert beat(worker_id="w2") == "LEASE_HELD_BY_ANOTHER"
    assert beat() == "renewed"


@pytest.mark.parametrize("beside", [{"worker_id": 5}, {"worker_id": ""}, {"colour": "red"}])
def test_what_stands_beside_the_heartbeats_has_its_shape(worker, claimed, beside):
    lease = lease_of(claimed)
    response = worker.post("/v1/leases/heartbeat", {"leases": [lease]} | beside)
    assert refused(response) == (400, "INVALID_ARGUMENT")


def test_nothing_stands_beside_the_items_of_other_batches(worker, claimed):
    sent = {"completions": [{"task_id": "t-1"}], "worker_id": "w1"}
    assert refused(worker.post("/v1/jobs/complete/batch", sent)) == (400, "INVALID_ARGUMENT")


def test_a_batch_of_malformed_items_is_answered_under_its_key(worker, claimed):
    name, body = key(), {"completions": [{"task_id": "t-1", "colour": "red"}, 5]}

    first = worker.post("/v1/jobs/complete/batch", body, Idempotency_Key=name)
    again = worker.post("/v1/jobs/complete/batch", body, Idempotency_Key=name)

    assert [item["status"] for item in first.json()["results"]] == [400, 400]
    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"


@pytest.mark.parametrize(
    ("odd", "pointer"),
    [
        ('{"task_id": "t-1", "attempt": 1, "fencing_token": 9007199254740993}', "/fencing_token"),
        ('{"task_id": "t-1\\u0000", "attempt": 1, "fencing_token": 1}', "/task_id"),
        ('{"task_id": "t-1", "attempt": 1, "attempt": 1, "fencing_token": 1}', "/attempt"),
    ],
)
def test_a_heartbeat_that_is_no_i_json_lets_no_other_lease_run_out(worker, claimed, odd, pointer):
    body = f'{{"worker_id": "w1", "leases": [{odd}, {json.dumps(lease_of(claimed))}]}}'

    response = worker.post("/v1/leases/heartbeat", raw=body.encode())

    refusal, renewed = response.json()["results"]
    assert (refusal["status"], refusal["errors"][0]["pointer"]) == (400, pointer)
    assert renewed["outcome"] == "renewed"


def test_a_batch_with_an_item_that_is_no_i_json_is_answered_under_its_key(worker, claimed):
    good = json.dumps({"task_id": "t-1", **authority(claimed), "result": 1})
    name, odd = key(), good.replace('"result": 1', '"result": "\\u0000"')

    def send(*items):
        body = f'{{"completions": [{", ".join(items)}]}}'.encode()
        return worker.post("/v1/jobs/complete/batch", raw=body, Idempotency_Key=name)

    first, again, other = send(odd, good), send(odd, good), send(good, good)

    assert [item["status"] for item in first.json()["results"]] == [400, 200]
    assert (again.content, again["Idempotent-Replayed"]) == (first.content, "true")
    assert refused(other) == (422, "IDEMPOTENCY_KEY_REUSED")


@pytest.mark.parametrize(
    ("path", "name"),
    [("jobs/complete/batch", "completions"), ("leases/heartbeat", "leases")],
)
def test_a_batch_of_malformed_items_is_refused_to_who_may_not_act(worker, claimed, path, name):
    response = worker.post(f"/v1/{path}", {name: [5]}, Fencepost_Session=str(uuid7()))

    assert refused(response) == (401, "SESSION_REQUIRED")


def test_a_failure_is_recorded_and_retried(worker, claimed):
    body = authority(claimed) | {"error_message": "no luck", "error_code": "E1", "retryable": True}

    first = worker.post("/v1/jobs/t-1/fail", body)
    again = worker.post("/v1/jobs/t-1/fail", body)

    assert (first.json()["outcome"], again.json()["outcome"]) == ("recorded", "already_recorded")
    assert first.json()["job"]["state"] == "queued"
    assert first.json()["job"]["error_message"] == "no luck"


def test_a_failure_that_is_not_retryable_ends_the_job(worker, claimed):
    response = worker.post(
        "/v1/jobs/t-1/fail", authority(claimed) | {"error_message": "x", "retryable": False}
    )

    assert response.json()["job"]["state"] == "failed"


def test_a_deferral_is_recorded_once_and_answers_what_is_left(worker, claimed):
    body = authority(claimed) | {"reason": "no quota", "retry_after_seconds": 600}

    first = worker.post("/v1/jobs/t-1/defer", body)
    again = worker.post("/v1/jobs/t-1/defer", body)

    job = first.json()["job"]
    assert (first.json()["outcome"], again.json()["outcome"]) == ("recorded", "already_recorded")
    assert (job["state"], job["attempt"], job["deferrals"]) == ("queued", 1, 1)
    assert job["attempts_left"] == job["max_attempts"]
    assert (job["error_code"], job["error_message"]) == ("DEFERRED", "no quota")
    assert first["ETag"] == f'"r{job["revision"]}"'


def test_a_claim_says_how_many_attempts_are_left(worker, claimed):
    assert claimed["attempts_left"] == claimed["job"]["attempts_left"] == 2


@pytest.mark.parametrize(
    ("fault", "pointer"),
    [
        ({"reason": ""}, "/reason"),
        ({"reason": None}, "/reason"),
        ({"retry_after_seconds": 0}, "/retry_after_seconds"),
        ({"retry_after_seconds": 86_401}, "/retry_after_seconds"),
        ({"retry_after_seconds": True}, "/retry_after_seconds"),
        ({"until": "tomorrow"}, "/until"),
        ({"worker_id": None}, "/worker_id"),
    ],
)
def test_a_deferral_of_another_shape_is_refused(worker, claimed, fault, pointer):
    body = authority(claimed) | {"reason": "no quota", "retry_after_seconds": 600}

    response = worker.post("/v1/jobs/t-1/defer", body | fault)

    assert response.status_code == 400
    assert [each["pointer"] for each in response.json()["errors"]] == [pointer]
    assert worker.get("/v1/jobs/t-1").json()["state"] == "active"


def test_an_escalation_waits_for_a_human(worker, claimed):
    body = authority(claimed) | {"reason": "I am lost", "notify_to": "ops"}

    first = worker.post("/v1/jobs/t-1/escalate", body)
    again = worker.post("/v1/jobs/t-1/escalate", body)

    assert first.json()["job"]["state"] == "escalated"
    assert (first.json()["outcome"], again.json()["outcome"]) == ("recorded", "already_recorded")


def test_a_keyed_refusal_that_time_may_mend_is_not_kept(ops, worker, claimed):
    name = key()
    worker.post("/v1/jobs/t-1/claim", {"worker_id": "w2"}, Idempotency_Key=name)
    worker.post("/v1/jobs/t-1/complete", authority(claimed) | {"result": 1}, Idempotency_Key=key())

    response = worker.post("/v1/jobs/t-1/claim", {"worker_id": "w2"}, Idempotency_Key=name)

    assert (response.status_code, response.json()["outcome"]) == (200, "already_completed")


def test_a_keyed_refusal_that_nothing_mends_is_kept_with_its_bytes(openclaw_token, ops):
    ops.post("/v1/jobs", TASK)
    other, name = Api(openclaw_token), key()

    first = other.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}, Idempotency_Key=name)
    again = other.post("/v1/jobs/t-1/claim", {"worker_id": "w1"}, Idempotency_Key=name)

    assert refused(first) == (403, "WRONG_OWNER")
    assert again.content == first.content
    assert again["Idempotent-Replayed"] == "true"


# --- reflections and skills --------------------------------------------------------------------


def test_reflections_are_numbered_by_the_server_and_repeat(worker, claimed):
    body = authority(claimed) | {"what_worked": "asking"}

    first = worker.post("/v1/jobs/t-1/reflections", body)
    second = worker.post("/v1/jobs/t-1/reflections", body)
    again = worker.post("/v1/jobs/t-1/reflections", body | {"sequence_number": 1})
    other = worker.post(
        "/v1/jobs/t-1/reflections", body | {"sequence_number": 1, "what_worked": "guessing"}
    )

    assert (first.status_code, first.json()["sequence_number"]) == (201, 1)
    assert second.json()["sequence_number"] == 2
    assert (again.status_code, again.json()["outcome"]) == (200, "already_recorded")
    assert refused(other) == (409, "REFLECTION_CONTENT_MISMATCH")
    assert Reflection.objects.count() == 2


def test_the_older_path_of_reflections_is_the_same_operation(worker, claimed):
    response = worker.post(
        "/v1/hermes/reflections",
        {"task_id": "t-1", "worker_id": "w1", "what_worked": "asking", "tool_sequence": ["a"]},
    )

    assert (response.status_code, response.json()["sequence_number"]) == (201, 1)
    assert Reflection.objects.get().tool_sequence == ["a"]


@pytest.mark.parametrize("named", [{}, {"worker_id": "w1"}])
@pytest.mark.parametrize("by", ["task_id", "job_id"])
@pytest.mark.parametrize("ended", [False, True])
def test_the_older_form_of_reflections_names_job_or_task_and_the_worker_if_it_likes(
    worker, claimed, named, by, ended
):
    if ended:
        worker.post("/v1/jobs/t-1/complete", authority(claimed) | {"result": 1})
    about = {by: claimed["job"][by], "owner": "hermes"}

    response = worker.post("/v1/hermes/reflections", named | about | {"what_worked": "asking"})

    assert (response.status_code, response.json()["sequence_number"]) == (201, 1)
    assert Reflection.objects.get().attempt == 1


@pytest.mark.parametrize(
    ("about", "refusal"),
    [
        ({}, (400, "INVALID_ARGUMENT")),
        ({"job_id": "no uuid"}, (400, "INVALID_ARGUMENT")),
        ({"job_id": "0190aaaa-0000-7000-8000-000000000001"}, (404, "NOT_FOUND")),
        ({"task_id": "t-1", "owner": "openclaw"}, (403, "WRONG_OWNER")),
        ({"task_id": "t-1", "worker_id": "w2"}, (409, "LEASE_HELD_BY_ANOTHER")),
    ],
)
def test_the_older_form_of_reflections_is_refused(worker, claimed, about, refusal):
    response = worker.post("/v1/hermes/reflections", about | {"what_worked": "asking"})

    assert refused(response) == refusal
    assert (Reflection.objects.count(), events()) == (0, 2)


def test_task_and_job_of_a_reflection_are_one(ops, worker, claimed):
    ops.post("/v1/jobs", TASK | {"task_id": "t-2"})
    about = {"task_id": "t-2", "job_id": claimed["job"]["job_id"]}

    response = worker.post("/v1/hermes/reflections", about | {"what_worked": "asking"})

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert not Reflection.objects.exists()


def test_a_reflection_of_nobody_may_be_the_late_word_of_anybody(ops, worker, claimed):
    Lease.objects.update(expires_at=timezone.now())
    transitions.sweep()
    Job.objects.update(available_at=timezone.now())
    worker.post("/v1/jobs/t-1/claim", {"worker_id": "w2"})
    about = {"task_id": "t-1", "what_worked": "asking"}

    assert refused(worker.post("/v1/hermes/reflections", about)) == (
        409, "FENCING_TOKEN_REQUIRED",
    )  # fmt: skip
    named = worker.post("/v1/hermes/reflections", about | {"worker_id": "w2"})
    assert named.status_code == 201


@pytest.fixture
def reflected(worker: Api, claimed: dict[str, Any]) -> None:
    for pattern in ["Read the  table first", "read the table first", "Only once"]:
        worker.post(
            "/v1/hermes/reflections",
            authority(claimed)
            | {"task_id": "t-1", "pattern_observed": pattern, "context_type": "csv"},
        )


def test_skills_are_extracted_from_patterns_that_recur(worker, reflected):
    first = worker.post("/v1/hermes/extract-skills", {}).json()
    again = worker.post("/v1/hermes/extract-skills", {}).json()

    assert (first["outcome"], first["created"]) == ("extracted", 1)
    assert (again["outcome"], again["created"], again["updated"]) == ("already_extracted", 0, 0)
    [skill] = first["skills"]
    assert (skill["task_type"], skill["context_type"]) == ("content_prep", "csv")
    assert (skill["pattern"], skill["occurrences"]) == ("read the table first", 2)
    assert skill["confidence"] == 0.75
    chain = AuditEvent.objects.filter(subject="agent:hermes", action="skills.extracted")
    assert chain.count() == 1


def test_skills_of_a_task_type_that_does_not_exist_are_a_named_fault(worker, reflected):
    before = AuditEvent.objects.count()

    response = worker.post("/v1/hermes/extract-skills", {"task_type": "no_such_type"})

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["/task_type"]
    assert AuditEvent.objects.count() == before
    known = worker.post("/v1/hermes/extract-skills", {"task_type": "content_prep"})
    assert (known.status_code, known.json()["outcome"]) == (200, "extracted")


def test_skills_are_found_by_type_and_context_and_ordered_by_confidence(
    worker, openclaw_token, reflected
):
    worker.post("/v1/hermes/extract-skills", {})
    skill = Skill.objects.get()
    best = Skill.objects.create(
        agent=skill.agent,
        task_type="content_prep",
        context_type="csv",
        pattern="better",
        pattern_sha256="0" * 64,
        occurrences=9,
        confidence=0.9,
        created_at=timezone.now(),
        updated_at=timezone.now(),
    )

    def found(query: str) -> list[int]:
        return [s["skill_id"] for s in worker.get(f"/v1/hermes/skills?{query}").json()]

    assert found("task_type=content_prep&context_type=csv") == [best.pk, skill.pk]
    assert found("task_type=rewrite") == []
    assert found("min_confidence=0.8") == [best.pk]
    assert found("limit=1") == [best.pk]
    assert Api(openclaw_token).get("/v1/hermes/skills").json() == []


@pytest.mark.parametrize(
    "query",
    ["limit=0", "limit=x", "limit=1_0", "limit=1e1", "min_confidence=2", "min_confidence=nan"],
)
def test_a_search_for_skills_has_its_bounds(worker, query):
    assert refused(worker.get(f"/v1/hermes/skills?{query}")) == (400, "INVALID_ARGUMENT")


def test_feedback_moves_the_confidence_of_a_skill(worker, openclaw_token, reflected):
    worker.post("/v1/hermes/extract-skills", {})
    skill = Skill.objects.get()
    path = f"/v1/hermes/skills/{skill.pk}/feedback"
    name = key()

    worse = worker.post(path, {"success": False}, Idempotency_Key=name).json()["skill"]
    again = worker.post(path, {"success": False}, Idempotency_Key=name).json()["skill"]
    better = worker.post(path, {"task_succeeded": True}).json()["skill"]

    assert worse == again and worse["failures"] == 1
    assert worse["confidence"] < 0.75 < better["confidence"] + 0.1
    one = worker.get(f"/v1/hermes/skills/{skill.pk}")
    assert (one.status_code, one.json()) == (200, better)
    for nobodys in (
        Api(openclaw_token).get(f"/v1/hermes/skills/{skill.pk}"),
        worker.get(f"/v1/hermes/skills/{skill.pk + 1}"),
    ):
        assert refused(nobodys) == (404, "NOT_FOUND")
    for unclear in ({}, {"success": True, "task_succeeded": True}):
        assert refused(worker.post(path, unclear)) == (400, "INVALID_ARGUMENT")
    assert refused(Api(openclaw_token).post(path, {"success": True})) == (404, "NOT_FOUND")
    assert refused(worker.post(path, {"success": "yes"})) == (400, "INVALID_ARGUMENT")
    assert AuditEvent.objects.filter(action="skill.rated").count() == 2


# --- control ---------------------------------------------------------------------------------


def control(action: str, revision: int) -> dict[str, Any]:
    return {"action": action, "expected_task_revision": revision, "reason": "because"}


def test_a_submitter_steers_its_own_job(ops, worker, claimed):
    revision = claimed["job"]["revision"]
    beat = {"leases": [lease_of(claimed)]}

    paused = ops.post(
        "/v1/jobs/t-1/control", control("PAUSE", revision), Idempotency_Key=key()
    ).json()
    assert (paused["result_code"], paused["job"]["paused"]) == ("APPLIED", True)
    heard = worker.post("/v1/leases/heartbeat", beat).json()["results"][0]
    assert heard["control"] == "pause"
    resumed = ops.post(
        "/v1/jobs/t-1/control", control("RESUME", revision + 1), Idempotency_Key=key()
    ).json()
    assert resumed["job"]["paused"] is False
    stopped = ops.post(
        "/v1/jobs/t-1/control", control("STOP", revision + 2), Idempotency_Key=key()
    ).json()
    assert stopped["job"]["state"] == "stopped"
    heard = worker.post("/v1/leases/heartbeat", beat).json()["results"][0]
    assert (heard["control"], heard["ttl_seconds"]) == ("stop", 0)


def test_control_of_a_moved_job_is_refused_and_a_replay_moves_nothing_twice(ops, claimed):
    revision, name = claimed["job"]["revision"], key()

    first = ops.post("/v1/jobs/t-1/control", control("PAUSE", revision), Idempotency_Key=name)
    again = ops.post("/v1/jobs/t-1/control", control("PAUSE", revision), Idempotency_Key=name)
    stale = ops.post("/v1/jobs/t-1/control", control("STOP", revision), Idempotency_Key=key())

    assert again.content == first.content
    assert refused(stale) == (409, "REVISION_MISMATCH")
    assert stale.json()["current"]["revision"] == revision + 1
    assert events() == 3


def test_control_under_a_stale_if_match_fails_the_precondition(ops, claimed):
    revision, path, same = claimed["job"]["revision"], "/v1/jobs/t-1/control", key()
    before = events()

    stale = ops.post(
        path, control("PAUSE", revision - 1), If_Match=f'"r{revision - 1}"', Idempotency_Key=key()
    )
    assert refused(stale) == (412, "REVISION_MISMATCH")
    assert stale.json()["current"]["revision"] == revision
    assert (Job.objects.get().paused, events()) == (False, before)

    tag = f'"r{revision}"'
    first = ops.post(path, control("PAUSE", revision), If_Match=tag, Idempotency_Key=same)
    again = ops.post(path, control("PAUSE", revision), If_Match=tag, Idempotency_Key=same)
    assert (first.status_code, again.content) == (200, first.content)
    assert events() == before + 1


def test_a_reflection_under_a_stale_if_match_fails_the_precondition(worker, claimed):
    said = authority(claimed) | {"what_worked": "a", "what_failed": "b", "pattern_observed": "c"}
    before = events()

    for path, body in (
        ("/v1/jobs/t-1/reflections", said),
        ("/v1/hermes/reflections", said | {"task_id": "t-1"}),
    ):
        stale = worker.post(path, body, If_Match='"r1"')
        assert refused(stale) == (412, "REVISION_MISMATCH")
    assert (Reflection.objects.count(), events()) == (0, before)

    assert worker.post("/v1/jobs/t-1/reflections", said, If_Match='"r2"').status_code == 201


def test_control_needs_key_scope_and_ownership(ops, issue, worker, claimed):
    body = control("STOP", claimed["job"]["revision"])
    other = Api(issue(submitter="other", scopes=["control", "read"]))
    path = "/v1/jobs/t-1/control"

    assert refused(ops.post(path, body)) == (400, "IDEMPOTENCY_KEY_REQUIRED")
    assert refused(worker.post(path, body, Idempotency_Key=key())) == (403, "PERMISSION_DENIED")
    assert refused(other.post(path, body, Idempotency_Key=key())) == (404, "NOT_FOUND")
    assert Job.objects.get().state == "active"


@pytest.mark.parametrize(
    ("refusal", "kept", "after"),
    [
        (BudgetExhausted(after_seconds=7), False, {"Retry-After": "7"}),
        (ApprovalRequired(), True, {}),
    ],
)
def test_a_recorded_refusal_is_kept_by_the_rule_of_all_refusals(refusal, kept, after):
    answer = Answer.of_refusal(refusal)
    response = problem_of(answer)

    assert (answer.status, answer.recorded) == (refusal.status, kept)
    assert {n: v for n, v in response.items() if n == "Retry-After"} == after


@pytest.mark.parametrize("char", ["\u202e", "\u200b", "\ufeff", "\u2028", "\x1b", "\u00ad"])
def test_names_have_no_unseen_characters(ops, worker, char):
    told = f"U+{ord(char):04X}"
    bad = f"a{char}b"

    task = ops.post("/v1/jobs", TASK | {"task_id": bad, "labels": {bad: "x"}})
    claim = worker.post("/v1/jobs/t/claim", {"worker_id": bad, "runtime": bad})
    beat = worker.post("/v1/agents/hermes/heartbeat", {"worker_ids": [bad]})

    for response, pointers in (
        (task, ["/labels", "/task_id"]),
        (claim, ["/runtime", "/worker_id"]),
        (beat, ["/worker_ids/0"]),
    ):
        assert refused(response) == (400, "INVALID_ARGUMENT")
        errors = response.json()["errors"]
        assert sorted(fault["pointer"] for fault in errors) == pointers
        assert all(told in fault["detail"] for fault in errors)
    assert Job.objects.count() == 0


def test_other_text_may_have_them_and_so_may_values_of_labels(ops):
    text = "\u202eturned\u202c around"
    task = TASK | {"task_id": "größer 東京", "title": text, "labels": {"von": text}}

    assert ops.post("/v1/jobs", task).json()["job"]["title"] == text


@pytest.mark.parametrize("size", [PROGRESS_BYTES_MAX - 2, PROGRESS_BYTES_MAX - 1])
def test_progress_is_small(ops, worker, size):
    ops.post("/v1/jobs", TASK)
    held = worker.post(f"/v1/jobs/{TASK['task_id']}/claim", {"worker_id": "w"}).json()
    beat = {"task_id": TASK["task_id"], "attempt": 1, "fencing_token": held["fencing_token"]}

    answer = worker.post("/v1/leases/heartbeat", {"leases": [beat | {"progress": "x" * size}]})

    [item] = answer.json()["results"]
    fits = size + 2 <= PROGRESS_BYTES_MAX
    assert item["status"] == (200 if fits else 400)
    if not fits:
        assert [fault["pointer"] for fault in item["errors"]] == ["/progress"]
        assert str(PROGRESS_BYTES_MAX) in item["errors"][0]["detail"]
    assert (Lease.objects.get().progress is not None) == fits


@pytest.mark.parametrize(("number", "told"), [("1e300", "1e+300"), ("9" * 20, "of 20 digits")])
def test_a_number_that_others_would_read_differently_is_told(ops, number, told):
    raw = json.dumps(TASK | {"inputs": {"deep": ["@"]}}).replace('"@"', number).encode()

    response = ops.post("/v1/jobs", raw=raw)

    assert refused(response) == (400, "INVALID_ARGUMENT")
    [fault] = response.json()["errors"]
    assert fault["pointer"] == "/inputs/deep/0"
    assert told in fault["detail"] and "send it as text" in fault["detail"]
    assert Job.objects.count() == 0


def test_an_agent_takes_a_bounded_number_of_new_names_in_a_day(ops, worker, monkeypatch):
    monkeypatch.setattr(entry, "IMPLICIT_A_DAY_MAX", 2)
    ops.post("/v1/jobs", TASK)
    claim = f"/v1/jobs/{TASK['task_id']}/claim"
    beat = "/v1/agents/hermes/heartbeat"
    assert worker.post(beat, {"worker_ids": ["one", "two"]}).status_code == 200

    for response in (
        worker.post(beat, {"worker_ids": ["two", "three"]}),
        worker.post(claim, {"worker_id": "three"}),
    ):
        assert refused(response) == (429, "RATE_LIMITED")
        assert response["Retry-After"] == "3600"
    assert Session.objects.filter(kind="implicit").count() == 2
    assert Job.objects.get().state == "queued"

    assert worker.post(claim, {"worker_id": "two"}).status_code == 200


def test_the_control_of_an_absent_job_is_refused_for_ever_under_its_key(ops):
    stop = {"action": "STOP", "expected_task_revision": 1, "reason": "why"}
    path, same = f"/v1/jobs/{TASK['task_id']}/control", key()
    first = ops.post(path, stop, Idempotency_Key=same)
    ops.post("/v1/jobs", TASK)

    again = ops.post(path, stop, Idempotency_Key=same)

    assert refused(first) == (404, "NOT_FOUND")
    assert (again.status_code, again.content) == (404, first.content)
    assert again["Idempotent-Replayed"] == "true"
    assert Job.objects.get().state == "queued"
