"""Prefixes of task ids that a submitter owns: nobody else queues a task under one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import DatabaseError, IntegrityError, transaction

from agents.models import Submitter, TaskPrefix
from agents.transitions.principals import configure_submitter
from governance.core.errors import InvalidArgument, NotFound
from governance.core.models import AuditEvent, Fact
from jobs.models import Job
from tests.client import Api, refused
from tests.console import act_url, confirm
from tests.jobs.test_intake import envelope
from tests.world import TEST

pytestmark = pytest.mark.django_db


@pytest.fixture
def ops(submitter_token: str) -> Api:
    return Api(submitter_token)


@pytest.fixture
def other(issue: Callable[..., str]) -> Api:
    return Api(issue(submitter="other", scopes=["submit", "read"]))


def own(*prefixes: str, name: str = "ops", **how: Any) -> Submitter:
    return configure_submitter(name=name, add=prefixes, **TEST, **how)


def queue(api: Api, task_id: str) -> Any:
    return api.post("/v1/jobs", envelope(task_id=task_id))


def test_only_its_owner_queues_tasks_under_a_prefix(ops: Api, other: Api) -> None:
    own("ops-")

    assert refused(queue(other, "ops-1")) == (403, "TASK_ID_RESERVED")
    assert not Job.objects.exists()
    assert not Fact.objects.exists()
    assert queue(ops, "ops-1").status_code == 201
    assert queue(other, "op-1").status_code == 201
    # Whether there is such a task is told to nobody else.
    assert refused(queue(other, "ops-1")) == (403, "TASK_ID_RESERVED")


def test_in_a_batch_each_task_is_judged_by_itself(ops: Api, other: Api) -> None:
    own("ops-")
    tasks = [envelope(task_id=task_id) for task_id in ("ops-1", "mine-1", "ops-2")]

    first, second, third = other.post("/v1/jobs/batch", {"tasks": tasks}).json()["results"]

    assert (first["status"], first["reason"]) == (403, "TASK_ID_RESERVED")
    assert (third["status"], third["reason"]) == (403, "TASK_ID_RESERVED")
    assert second["status"] == 201
    assert list(Job.objects.values_list("task_id", flat=True)) == ["mine-1"]


def test_jobs_that_exist_stay_their_submitters(ops: Api, other: Api) -> None:
    task = envelope(task_id="ops-1")
    assert other.post("/v1/jobs", task).status_code == 201

    own("ops-")

    assert other.post("/v1/jobs", task).json()["outcome"] == "already_queued"
    assert other.get("/v1/jobs/ops-1").status_code == 200
    assert refused(ops.post("/v1/jobs", task)) == (409, "TASK_ID_TAKEN")
    assert refused(queue(other, "ops-2")) == (403, "TASK_ID_RESERVED")


def test_a_prefix_that_is_given_up_is_everybodys(ops: Api, other: Api) -> None:
    row = own("ops-", "run.")
    configure_submitter(name="ops", remove=["ops-"], **TEST)

    assert queue(other, "ops-1").status_code == 201
    assert refused(queue(other, "run.1")) == (403, "TASK_ID_RESERVED")
    events = AuditEvent.objects.filter(subject=row.audit_subject, action="submitter.configured")
    assert events.count() == 2


@pytest.mark.parametrize("prefix", ["", "a-", "abc", "ab c", "a\u202eb-", f"{'a' * 99}-", "abc\n-"])
def test_what_is_no_prefix_is_refused_by_the_move_and_by_the_database(
    ops: Api, prefix: str
) -> None:
    with pytest.raises(InvalidArgument) as fault:
        own(prefix)
    assert [one.pointer for one in fault.value.errors] == ["/task_id_prefix"]

    row = Submitter.objects.get(name="ops")
    with pytest.raises(DatabaseError, match=r"ends_a_word|too long"), transaction.atomic():
        TaskPrefix.objects.create(submitter=row, prefix=prefix, created_at=row.created_at)
    assert not TaskPrefix.objects.exists()
    assert not AuditEvent.objects.filter(action="submitter.configured").exists()


@pytest.mark.parametrize("prefix", ["ops-", "ops-eu-", "op.", "a:b/"])
def test_every_end_of_a_word_will_do(ops: Api, prefix: str) -> None:
    own(prefix)

    assert [row.prefix for row in TaskPrefix.objects.all()] == [prefix]


@pytest.mark.parametrize("second", ["ops-", "ops-eu-", "ops-eu-west:"])
@pytest.mark.parametrize("name", ["ops", "other"])
def test_no_prefix_contains_another(ops: Api, other: Api, name: str, second: str) -> None:
    own("ops-eu-") if second == "ops-" else own("ops-")
    first = TaskPrefix.objects.get()

    if (name, second) != ("ops", "ops-") or first.prefix != second:
        with pytest.raises(InvalidArgument):
            own(second, name=name)
    row = Submitter.objects.get(name=name)
    with pytest.raises(IntegrityError, match="contains another"), transaction.atomic():
        TaskPrefix.objects.create(submitter=row, prefix=second, created_at=row.created_at)
    assert TaskPrefix.objects.get() == first


def test_a_prefix_is_never_changed(ops: Api) -> None:
    own("ops-")

    with pytest.raises(IntegrityError, match="is not changed"), transaction.atomic():
        TaskPrefix.objects.update(prefix="other-")


def test_what_would_change_nothing_or_nobody_is_refused(ops: Api) -> None:
    own("ops-")

    with pytest.raises(InvalidArgument, match=r"Nothing would change\."):
        own("ops-")
    with pytest.raises(InvalidArgument, match="is no prefix of this submitter"):
        configure_submitter(name="ops", remove=["run-"], **TEST)
    with pytest.raises(NotFound):
        own("run-", name="nobody")


def test_the_command_gives_and_takes(ops: Api, capsys: pytest.CaptureFixture[str]) -> None:
    why = ("--reason", "for a test", "--actor", "user:anna")
    call_command(
        "configure_submitter", "ops", "--task-id-prefix", "ops-", "--task-id-prefix", "run.", *why
    )
    assert "task_id_prefixes: ['ops-', 'run.']" in capsys.readouterr().out

    call_command("configure_submitter", "ops", "--remove-task-id-prefix", "ops-", *why)
    assert [row.prefix for row in TaskPrefix.objects.all()] == ["run."]
    for wrong in ([], ["--task-id-prefix", "x"], ["--remove-task-id-prefix", "ops-"]):
        with pytest.raises(CommandError):
            call_command("configure_submitter", "ops", *wrong, *why)


def test_the_console_gives_and_takes(ops: Api, as_: Any) -> None:
    client = as_("governor")

    confirm(client, "agents.submitter", "own_prefix", "ops", task_id_prefix="ops-")
    assert TaskPrefix.objects.get().submitter.name == "ops"
    refusal = confirm(client, "agents.submitter", "own_prefix", "ops", task_id_prefix="ops-1-")
    assert refusal.status_code == 422
    assert "is a prefix of ops already" in refusal.content.decode()
    confirm(client, "agents.submitter", "disown_prefix", "ops", task_id_prefix="ops-")
    assert not TaskPrefix.objects.exists()
    page = as_("operator").get(act_url("agents.submitter", "own_prefix"), {"key": "ops"})
    assert page.status_code == 403
