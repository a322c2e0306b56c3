"""What lists of jobs are narrowed by over the API, and that indexes serve it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any
from urllib.parse import quote, urlencode

import pytest

from agents.entry import Entry
from agents.principals import Principal
from governance.core import clock
from governance.core.clock import instant
from jobs import transitions
from jobs.models import Job
from tests import plans
from tests.client import Api, refused
from tests.work import ANNA

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]


@pytest.fixture
def listed(submitter_token: str) -> Callable[..., list[str]]:
    """List the names of the jobs that a query finds: `listed(label=["env:prod"])`."""

    def call(**query: Any) -> list[str]:
        page = Api(submitter_token).get(f"/v1/jobs?{urlencode(query, doseq=True)}")
        assert page.status_code == 200, page.content
        return [job["task_id"] for job in page.json()["results"]]

    return call


# --- what is found -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wanted", "found"),
    [
        (["env:prod"], ["both", "prod"]),
        (["env:prod", "team:a"], ["both"]),
        (["team:a", "env:prod"], ["both"]),
        (["env:prod", "env:prod"], ["both", "prod"]),
        (["env:pro"], []),
        (["url:http://a.example"], ["other"]),
        (["note:"], ["other"]),
        (["prod:env"], []),
    ],
)
def test_labels_have_all_to_match(
    make_job: MakeJob, listed: Any, wanted: list[str], found: list[str]
) -> None:
    make_job(task_id="prod", labels={"env": "prod", "team": "b"})
    make_job(task_id="both", labels={"env": "prod", "team": "a"})
    make_job(task_id="other", labels={"env": "test", "url": "http://a.example", "note": ""})
    make_job(task_id="bare", labels=["env:prod"])

    assert listed(label=wanted) == found


def test_pages_of_a_list_keep_its_repeated_parameter(
    make_job: MakeJob, submitter_token: str
) -> None:
    for _ in range(3):
        make_job(labels={"env": "prod", "team": "a"})
    make_job(labels={"env": "prod"})
    api, seen = Api(submitter_token), []
    path = "/v1/jobs?label=env:prod&label=team:a&page_size=1"
    while path:
        page = api.get(path).json()
        seen += [job["task_id"] for job in page["results"]]
        path = page["next"]
    assert seen == ["task-3", "task-2", "task-1"]


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("report", ["two", "one"]),
        ("REPORT august", ["two"]),
        ("august report", ["two"]),
        ("repor", []),
        ("the", ["one"]),
        ("Zürich", ["one"]),
    ],
)
def test_a_title_is_found_by_its_words(
    make_job: MakeJob, listed: Any, words: str, found: list[str]
) -> None:
    make_job(task_id="one", title="The report on Zürich")
    make_job(task_id="two", title="Report: August")
    make_job(task_id="three", title="Something else")

    assert listed(title=words) == found


def test_a_list_is_narrowed_by_source(make_job: MakeJob, listed: Any) -> None:
    make_job(source="manual")
    make_job(source="discord")
    assert listed(source="discord") == ["task-2"]
    assert listed(source="none") == []


def test_a_list_is_narrowed_by_the_worker_of_the_last_attempt(
    make_job: MakeJob, listed: Any, hermes: Principal
) -> None:
    for _ in range(3):
        make_job()
    for task_id, worker in (("task-1", "w1"), ("task-2", "w2"), ("task-3", "w1")):
        transitions.claim(entry=Entry(hermes, worker), task_id=task_id, owner="hermes")
    # Given back by one, and taken by another.
    transitions.fail(
        entry=Entry(hermes, "w1"), task_id="task-3", attempt=1, fencing_token=1,
        error_message="It broke.", error_code="BROKE", retryable=True,
    )  # fmt: skip
    assert listed(worker_id="w1") == ["task-3", "task-1"]
    Job.objects.filter(task_id="task-3").update(available_at=clock.now() - timedelta(seconds=1))
    transitions.claim(entry=Entry(hermes, "w2"), task_id="task-3", owner="hermes")

    assert listed(worker_id="w1") == ["task-1"]
    assert listed(worker_id="w2") == ["task-3", "task-2"]


def test_a_list_is_narrowed_by_when_jobs_ended(make_job: MakeJob, listed: Any) -> None:
    for _ in range(3):
        make_job()
    transitions.stop(task_id="task-1", **ANNA)
    transitions.stop(task_id="task-2", **ANNA)
    at = Job.objects.get(task_id="task-2").finished_at
    assert at is not None

    assert listed(finished_after="2000-01-01T00:00:00Z") == ["task-2", "task-1"]
    assert listed(finished_after=instant(at)) == ["task-2"]
    assert listed(finished_after=instant(at + timedelta(microseconds=1))) == []


def test_a_list_is_narrowed_by_the_last_change_of_the_revision(
    make_job: MakeJob, listed: Any, hermes: Principal, submitter_token: str
) -> None:
    for _ in range(3):
        make_job()
    made = Job.objects.get(task_id="task-3")
    assert made.last_changed_at == made.created_at
    # A change that leaves the state as it is.
    transitions.pause(task_id="task-1", **ANNA)
    paused = Job.objects.get(task_id="task-1")
    assert paused.updated_at is not None and paused.updated_at > paused.state_since
    assert listed(updated_after=instant(paused.updated_at)) == ["task-1"]
    assert listed(updated_after=instant(made.created_at)) == ["task-3", "task-1"]

    transitions.claim(entry=Entry(hermes, "w1"), task_id="task-2", owner="hermes")
    claimed = Job.objects.get(task_id="task-2")
    assert claimed.updated_at == claimed.state_since
    told = Api(submitter_token).get("/v1/jobs/task-2").json()
    assert told["updated_at"] == instant(claimed.updated_at)
    # What raises no revision is no change.
    transitions.claim(entry=Entry(hermes, "w1"), task_id="task-2", owner="hermes")
    assert Job.objects.get(task_id="task-2").updated_at == claimed.updated_at


def test_filters_narrow_together_and_show_nobody_elses(
    make_job: MakeJob, listed: Any, issue: Any
) -> None:
    make_job(labels={"env": "prod"}, title="Report one", source="discord")
    make_job(labels={"env": "prod"}, title="Report two", source="manual")
    assert listed(label="env:prod", title="report", source="discord") == ["task-1"]

    stranger = Api(issue(submitter="stranger"))
    for query in (
        "label=env:prod",
        "title=report",
        "source=manual",
        "updated_after=2000-01-01T00Z",
    ):
        assert stranger.get(f"/v1/jobs?{query}").json()["results"] == []


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "name"),
    [
        ("label=", "label"),
        ("label=env", "label"),
        ("label=:prod", "label"),
        ("label=env:prod&label=", "label"),
        ("label=env:prod&label=env:test", "label"),
        ("label=env:a%00b", "label"),
        ("&".join(f"label=k{n}:v" for n in range(65)), "label"),
        ("title=", "title"),
        ("title=%21%21", "title"),
        (f"title={quote('a' * 201)}", "title"),
        ("title=a%00b", "title"),
        ("source=", "source"),
        ("worker_id=", "worker_id"),
        ("finished_after=yesterday", "finished_after"),
        ("finished_after=", "finished_after"),
        ("updated_after=9999-12-31T23:59:59-05:00", "updated_after"),
        ("updated_after=1", "updated_after"),
        ("source=manual&source=discord", "source"),
        ("title=a&title=b", "title"),
    ],
)
def test_a_value_that_is_not_valid_is_named(submitter_token: str, query: str, name: str) -> None:
    answer = Api(submitter_token).get(f"/v1/jobs?{query}")
    assert refused(answer) == (400, "INVALID_ARGUMENT")
    assert {fault["pointer"] for fault in answer.json()["errors"]} == {f"/{name}"}


# --- what it costs -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("query", "index"),
    [
        ("label=env:prod", "task_labels_idx"),
        ("label=env:prod&label=team:a", "task_labels_idx"),
        ("title=report", "task_title_idx"),
        ("source=manual", "task_by_source_idx"),
        ("worker_id=w1", "attempt_by_worker_idx"),
        ("finished_after=2000-01-01T00:00:00Z", "job_finished_idx"),
        ("updated_after=2000-01-01T00:00:00Z", "job_updated_idx"),
    ],
)
def test_an_index_serves_each_filter(
    make_job: MakeJob, submitter_token: str, query: str, index: str
) -> None:
    make_job()
    with plans.sent() as statements:
        Api(submitter_token).get(f"/v1/jobs?{query}")
    [statement] = [s for s in statements if "ORDER BY" in s[0] and '"jobs_job"' in s[0]]
    # Of one row any plan is as good; what is asked is whether the index fits the condition.
    text = statement[0].replace('"jobs_job"."submitted_by" = %s', "%s <> ''")
    # Nor whether a walk in the order of the page would do as well.
    text = text.partition(" ORDER BY ")[0]

    plan = plans.plan_of((text, statement[1]), disabled=("seqscan",))

    assert index in {node.get("Index Name") for node in plans.nodes(plan)}
