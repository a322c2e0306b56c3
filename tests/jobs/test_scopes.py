"""Budgets of submitters, labels and models: what jobs count as, from intake to the queue."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.db.models import F

from agents.transitions import principals
from governance.core import sql
from governance.core.errors import BudgetExhausted, InvalidArgument
from governance.money import catalogue, ledger, room
from governance.money.models import Budget, BudgetWindow, Reservation
from governance.money.notes import NoRoom
from governance.money.scopes import scopes_of
from jobs import executions, transitions, wakeups
from jobs.models import Job, JobType
from jobs.scopes import READ_OF_JOB, of_job
from jobs.transitions.claims import CLAIMABLE
from tests import plans
from tests.jobs.governed import MODEL, RATES, TEST, Governed
from tests.jobs.test_deferrals import defer_governed

pytestmark = pytest.mark.django_db

MakeJob = Callable[..., Job]
CALL = Decimal("0.003")
LABELS = {"team": "search", "tier": "gold"}
USAGE, COST = {"input_tokens": 1_000_000, "output_tokens": 500_000}, Decimal(2)
OTHER = ("other", "stand-in")


def cap(scope: str, key: str, amount: Any = None, *, window: str = "day") -> Budget:
    value = None if amount is None else Decimal(amount)
    return catalogue.set_budget(scope=scope, key=key, window=window, cap=value, **TEST)


@contextmanager
def sql_as_replica() -> Iterator[None]:
    """Write past the triggers in the block."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL session_replication_role = replica")
        yield
        cursor.execute("SET LOCAL session_replication_role = origin")


def counters(budget: Budget) -> list[tuple[str, Decimal, Decimal]]:
    rows = BudgetWindow.objects.filter(budget=budget).order_by("counted_for")
    return [(row.counted_for, row.held, row.spent) for row in rows]


def settle(governed: Governed, job: Job, usage: Any = None) -> None:
    executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=Reservation.objects.get(job_id=job.job_id).reservation_id,
        end="settled",
        usage=usage,
    )


def refuse(governed: Governed, job: Job) -> Any:
    governed.claim(job)
    assert isinstance(governed.route(job).refusal, BudgetExhausted)
    return defer_governed(governed, job)


def notes() -> list[tuple[str, str]]:
    return list(NoRoom.objects.order_by("scope", "key").values_list("scope", "key"))


def next_of(governed: Governed, limit: int = 9) -> list[str]:
    claimed = transitions.claim_next(entry=governed.entry, limit=limit)
    return [answer.job.task_id for answer in claimed]


# --- What a job counts as ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("labels", "counted"),
    [
        (LABELS, {"team=search", "tier=gold"}),
        ({}, set()),
        (["urgent"], set()),
        ({"a=b": "c", "": "d"}, set()),
        ({"a": "b=c", "ä": "*", "e": ""}, {"a=b=c", "ä=*", "e="}),
    ],
)
def test_a_job_counts_as_its_submitter_and_its_labels(
    make_job: MakeJob, labels: Any, counted: set[str]
) -> None:
    job = make_job(labels=labels)

    found = of_job(job, job.task)

    assert found["submitter"] == "ops"
    assert set(found["labels"]) == counted


@pytest.mark.parametrize(
    "labels", [LABELS, {}, ["urgent"], {"a=b": "c", "": "d", "e": "f=g"}, {"ä": "*", "h": ""}]
)
@pytest.mark.parametrize("by", ["submitter:ops", "user:anna"])
def test_what_is_read_of_a_job_is_what_its_calls_say(
    make_job: MakeJob, labels: Any, by: str
) -> None:
    job = make_job(labels=labels)
    with sql_as_replica():
        Job.objects.filter(pk=job.pk).update(submitted_by=by)
    job.refresh_from_db()

    reading = READ_OF_JOB.format(job_id="%s")
    [rows] = sql.pipeline(sql.Statement(reading, (job.job_id, job.job_id)))

    said = scopes_of(agent="", job_type="", task_id="", **of_job(job, job.task))
    assert {(row["scope"], row["key"], row["every"]) for row in rows} == {
        tuple(each) for each in said if each.scope in ("submitter", "label")
    }


# --- Counted ----------------------------------------------------------------------------------

SCOPES = [
    ("submitter", "ops", ""),
    ("submitter", "*", "ops"),
    ("label", "team=search", ""),
    ("label", "team=*", "team=search"),
    ("model", "/".join(MODEL), ""),
    ("model", "*", "/".join(MODEL)),
    ("provider", MODEL[0], ""),
    ("provider", "*", MODEL[0]),
]


@pytest.mark.parametrize(("scope", "key", "counted_for"), SCOPES)
def test_a_budget_counts_a_call_of_its_scope(
    governed: Governed, make_job: MakeJob, scope: str, key: str, counted_for: str
) -> None:
    budget = cap(scope, key, 1)
    job = make_job(labels=LABELS)
    governed.claim(job)

    governed.route(job)

    assert counters(budget) == [(counted_for, CALL, 0)]
    settle(governed, job, {"input_tokens": 1000, "output_tokens": 0})
    assert counters(budget) == [(counted_for, 0, Decimal("0.001"))]
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(("scope", "key", "counted_for"), SCOPES)
def test_a_new_budget_counts_what_its_scope_has_seen(
    governed: Governed, make_job: MakeJob, scope: str, key: str, counted_for: str
) -> None:
    ended, still_open, plain = (
        make_job(labels=LABELS),
        make_job(labels=LABELS),
        make_job(labels={"team": "ads"}),
    )
    for job in (ended, still_open, plain):
        governed.claim(job)
        governed.route(job)
    settle(governed, ended, {"input_tokens": 1000, "output_tokens": 0})

    budget = cap(scope, key, 1, window="week")

    held = CALL if scope == "label" else CALL * 2
    found = [row for row in counters(budget) if row[0] != "team=ads"]
    assert found == [(counted_for, held, Decimal("0.001"))]
    settle(governed, still_open, {"input_tokens": 1000, "output_tokens": 0})
    assert (counted_for, held - CALL, Decimal("0.002")) in counters(budget)
    assert list(ledger.verify()) == []


def test_a_wrong_opening_of_a_label_is_found(governed: Governed, make_job: MakeJob) -> None:
    job = make_job(labels=LABELS)
    governed.claim(job)
    governed.route(job)
    settle(governed, job, USAGE)
    cap("label", "team=search")
    with sql_as_replica():
        sql.pipeline(
            sql.Statement("UPDATE governance_budgetopening SET spent = spent - 1 WHERE spent > 0")
        )
        BudgetWindow.objects.filter(budget__scope="label").update(spent=COST - 1)

    assert [found.check for found in ledger.verify()] == ["budget_opening.spent"]


@pytest.mark.parametrize(("scope", "key", "counted_for"), SCOPES)
@pytest.mark.parametrize("late", [False, True], ids=["budget before", "budget after"])
def test_what_was_not_reserved_is_counted_by_its_scope(
    governed: Governed, make_job: MakeJob, scope: str, key: str, counted_for: str, late: bool
) -> None:
    if not late:
        cap(scope, key)
    job = make_job(labels=LABELS)
    governed.claim(job)
    governed.start(job, governed.permit(job, None).permit_id)

    governed.result(job.executions.get(), usage=USAGE)

    assert counters(cap(scope, key)) == [(counted_for, 0, COST)]
    assert list(ledger.verify()) == []


@pytest.mark.parametrize(("scope", "key", "counted_for"), SCOPES)
@pytest.mark.parametrize("late", [False, True], ids=["budget before", "budget after"])
def test_a_correction_is_posted_by_scope(
    governed: Governed, make_job: MakeJob, scope: str, key: str, counted_for: str, late: bool
) -> None:
    if not late:
        cap(scope, key)
    job = make_job(labels=LABELS)
    governed.claim(job)
    governed.route(job)
    settle(governed, job, USAGE)
    budget = cap(scope, key)

    of = Reservation.objects.get().reservation_id
    ledger.adjust(reservation_id=of, amount=Decimal(-1), **TEST)

    assert counters(budget) == [(counted_for, 0, COST - 1)]
    assert list(ledger.verify()) == []


def test_a_route_again_is_the_same_whatever_the_scopes_are_read_of(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job(labels=LABELS)
    governed.claim(job)

    assert [governed.route(job).replayed for _ in range(2)] == [False, True]


# --- Named ------------------------------------------------------------------------------------


def test_a_submitter_must_be_there(world: None) -> None:
    with pytest.raises(InvalidArgument) as refused:
        cap("submitter", "nobody")
    assert [fault.detail for fault in refused.value.errors] == ["There is no submitter nobody."]

    principals.register_submitter(name="somebody", **TEST)
    assert cap("submitter", "somebody").key == "somebody"


@pytest.mark.usefixtures("governed", "submitter")
def test_the_command_takes_what_a_dry_run_is_of(capsys: pytest.CaptureFixture[str]) -> None:
    cap("submitter", "ops", 0)
    cap("label", "team=search", 0, window="hour")
    asked = [
        "dry_run_route", "--agent=hermes", "--job-type=content_prep", "--risk-tier=low",
        "--estimated-input-tokens=1000", "--max-output-tokens=1000",
    ]  # fmt: skip

    for more in ([], ["--submitter=ops"], ["--label=team=search"]):
        call_command(*asked, *more)

    said = [line for line in capsys.readouterr().out.splitlines() if not line.startswith(" ")]
    assert [line.split()[0] for line in said] == ["local/stand-in,", "refused:", "refused:"]


# --- In the queue -----------------------------------------------------------------------------


class TestNoRoom:
    @pytest.fixture
    def woken(self, monkeypatch: pytest.MonkeyPatch) -> list[int]:
        found: list[int] = []
        monkeypatch.setattr(wakeups, "announce", found.append)
        return found

    @pytest.mark.parametrize(
        ("key", "note"), [("team=search", "team=search"), ("team=*", "team=search")]
    )
    def test_of_a_label_stops_the_jobs_that_have_it(
        self, governed: Governed, make_job: MakeJob, key: str, note: str
    ) -> None:
        cap("label", key, 0)
        first, same = (make_job(labels=LABELS, priority="high") for _ in range(2))
        other, none, listed = (
            make_job(labels={"team": "ads"}),
            make_job(),
            make_job(labels=["team"]),
        )
        of_no_model = make_job(labels=LABELS, task_type="healthcheck")

        refuse(governed, first)

        assert notes() == [("label", note)]
        assert same.task_id not in next_of(governed) and Job.objects.get(pk=same.pk).attempt == 0
        assert {each.attempt for each in Job.objects.filter(
            pk__in=[other.pk, none.pk, listed.pk, of_no_model.pk]
        )} == {1}  # fmt: skip

    def test_of_a_submitter_stops_its_jobs(self, governed: Governed, make_job: MakeJob) -> None:
        cap("submitter", "ops", 0)
        first, same, other = make_job(), make_job(), make_job()
        with sql_as_replica():
            Job.objects.filter(pk=other.pk).update(submitted_by="submitter:another")

        refuse(governed, first)

        assert notes() == [("submitter", "ops")]
        assert next_of(governed) == [other.task_id]
        assert Job.objects.get(pk=same.pk).attempt == 0

    @pytest.mark.parametrize(("scope", "key"), [("submitter", "ops"), ("label", "team=search")])
    def test_ends_with_a_raised_cap_and_wakes(
        self,
        governed: Governed,
        make_job: MakeJob,
        woken: list[int],
        django_capture_on_commit_callbacks: Any,
        scope: str,
        key: str,
    ) -> None:
        cap(scope, key, 0)
        job = make_job(labels=LABELS)
        refuse(governed, job)
        assert next_of(governed) == []
        del woken[:]

        with django_capture_on_commit_callbacks(execute=True):
            cap(scope, key, 1)

        assert governed.principal.id in woken
        assert next_of(governed) == [job.task_id]

    @pytest.mark.usefixtures("governed")
    def test_of_labels_is_looked_for_only_where_there_is_a_note(
        self, governed: Governed, make_job: MakeJob
    ) -> None:
        for _ in range(3):
            make_job(labels=LABELS)
        params = {
            "agent_id": governed.principal.id,
            "types": None,
            "limit": 10,
            "with_inputs": True,
        }

        plan = plans.plan_of((CLAIMABLE.whole, params), disabled=("seqscan", "bitmapscan"))

        walks = [
            node
            for node in plans.nodes(plans.subplan(plan, "CTE picked"))
            if node.get("Index Name") == "job_claim_idx"
        ]
        assert len(walks) == 1 and "priority" in walks[0]["Index Cond"]


class TestNoRoomOfModels:
    """A job that may use one model, or one of two: nothing says which its calls will get."""

    @pytest.fixture
    def two(self, governed: Governed) -> None:
        catalogue.set_model(provider=OTHER[0], name=OTHER[1], **TEST)
        catalogue.set_price(provider=OTHER[0], name=OTHER[1], rates=[RATES], **TEST)
        catalogue.set_policy(models=[MODEL, OTHER], **TEST)

    def test_of_the_one_stops_the_job_until_the_window_ends_and_its_type_for_a_while(
        self, governed: Governed, make_job: MakeJob
    ) -> None:
        budget = cap("model", "/".join(MODEL), 0)
        job, other = make_job(), make_job()

        refuse(governed, job)

        assert notes() == [("job", job.task_id), ("job_type", "content_prep")]
        until = dict(NoRoom.objects.values_list("scope", "until"))
        assert until["job"] == BudgetWindow.objects.get(budget=budget).ends_at
        of_type = NoRoom.objects.get(scope="job_type")
        assert of_type.until <= of_type.noted_at + timedelta(seconds=room.BELIEVED_SECONDS)
        assert next_of(governed) == []
        cap("model", "/".join(MODEL), 1)
        assert sorted(next_of(governed)) == sorted([job.task_id, other.task_id])

    @pytest.mark.usefixtures("two")
    def test_of_both_is_believed_for_a_while(self, governed: Governed, make_job: MakeJob) -> None:
        cap("model", "/".join(MODEL), 0)
        cap("provider", OTHER[0], 0)
        job = make_job()

        refuse(governed, job)

        for note in NoRoom.objects.all():
            assert note.until <= note.noted_at + timedelta(seconds=room.BELIEVED_SECONDS)
        assert notes() == [("job", job.task_id), ("job_type", "content_prep")]

    @pytest.mark.usefixtures("two")
    def test_of_one_of_both_notes_nothing(self, governed: Governed, make_job: MakeJob) -> None:
        cap("model", "/".join(MODEL), 0)
        job = make_job()
        governed.claim(job)

        assert governed.route(job).provider == OTHER[0]

        assert notes() == []

    @pytest.mark.usefixtures("two")
    def test_that_was_made_meanwhile_notes_nothing(
        self, governed: Governed, make_job: MakeJob
    ) -> None:
        cap("model", "/".join(MODEL), 0)
        cap("provider", OTHER[0], 0)
        job = make_job()
        governed.claim(job)
        governed.route(job)
        cap("provider", OTHER[0], 1)

        defer_governed(governed, job)

        assert notes() == []

    def test_for_a_call_that_is_too_dear_stops_its_job_alone(
        self, governed: Governed, make_job: MakeJob
    ) -> None:
        cap("model", "/".join(MODEL), "0.002")
        dear, other = make_job(), make_job()

        refuse(governed, dear)

        assert notes() == [("job", dear.task_id)]
        assert next_of(governed) == [other.task_id]

    def test_of_many_dear_jobs_stops_their_type_for_a_while(
        self, governed: Governed, make_job: MakeJob
    ) -> None:
        cap("model", "/".join(MODEL), "0.002")
        jobs = [make_job() for _ in range(room.JOBS_MAX + 2)]
        for job in jobs[:-1]:
            assert ("job_type", "content_prep") not in notes()
            refuse(governed, job)

        assert next_of(governed) == []
        NoRoom.objects.filter(scope="job_type").update(
            noted_at=F("noted_at") - timedelta(hours=1), until=F("until") - timedelta(hours=1)
        )
        assert next_of(governed) == [jobs[-1].task_id]

    def test_of_a_type_that_need_not_use_a_model_stops_the_job(
        self, governed: Governed, make_job: MakeJob
    ) -> None:
        JobType.objects.update(model_use="allowed")
        cap("label", "team=search", 0)
        job, other = make_job(labels=LABELS), make_job(labels=LABELS)

        refuse(governed, job)

        assert notes() == [("job", job.task_id), ("label", "team=search")]
        assert next_of(governed) == [other.task_id]
