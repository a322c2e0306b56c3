"""Work for which no budget has room: passed over at no cost to anybody, given out once there is."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from django.db.models import F
from django.urls import reverse

from agents.entry import Entry
from governance.core import clock
from governance.core.clock import instant
from governance.core.errors import BudgetExhausted
from governance.money import catalogue, room
from governance.money.models import Budget, BudgetWindow, LanguageModel
from governance.money.notes import NoRoom
from governance.web.gauges import gauges
from jobs import transitions, wakeups
from jobs.models import Job, JobType
from jobs.transitions.claims import CLAIMABLE
from tests import plans
from tests.client import Api
from tests.jobs.governed import MODEL, RATES, TEST, Governed, use_a_model
from tests.jobs.test_deferrals import defer_governed, resolve
from tests.work import make_available

pytestmark = pytest.mark.django_db

#: What a call of these tests is held at: 1000 tokens in at 1, 1000 out at 2 USD per million.
CALL = Decimal("0.003")
MANY = 1000


@pytest.fixture
def cap(governed: Governed) -> Callable[..., Budget]:
    """Set a budget: `cap("agent", "hermes", Decimal(0))`."""

    def make(
        scope: str = "agent", key: str = "hermes", amount: Decimal | None = None, **over: Any
    ) -> Budget:
        window = over.pop("window", "day")
        return catalogue.set_budget(scope=scope, key=key, window=window, cap=amount, **TEST)

    return make


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Collect the agents whose workers are woken."""
    found: list[int] = []
    monkeypatch.setattr(wakeups, "announce", found.append)
    return found


def refuse(governed: Governed, job: Job) -> Any:
    """Claim, ask for a route that is refused, and defer."""
    governed.claim(job)
    assert isinstance(governed.route(job).refusal, BudgetExhausted)
    return defer_governed(governed, job)


def notes() -> list[tuple[str, str]]:
    return list(NoRoom.objects.order_by("scope", "key").values_list("scope", "key"))


def next_of(entry: Entry, limit: int = 1, **over: Any) -> list[str]:
    claimed = transitions.claim_next(entry=entry, limit=limit, **over)
    return [answer.job.task_id for answer in claimed]


class TestADeferralForWantOfRoom:
    @pytest.mark.parametrize(
        ("scope", "key", "counted_for"),
        [
            ("global", "", ""),
            ("agent", "hermes", "hermes"),
            ("agent", "*", "hermes"),
            ("job_type", "content_prep", "content_prep"),
            ("job", "task-1", "task-1"),
            ("job", "*", "task-1"),
        ],
    )
    def test_notes_the_scope_until_its_window_ends(
        self, governed: Governed, make_job: Any, cap: Any, scope: str, key: str, counted_for: str
    ) -> None:
        budget = cap(scope, key, Decimal(0))
        job = make_job(task_id="task-1")

        answer = refuse(governed, job)

        note = NoRoom.objects.get()
        assert answer.cause == "confirmed"
        assert (note.scope, note.key, note.budget) == (scope, counted_for, budget)
        assert note.until == BudgetWindow.objects.get(budget=budget).ends_at
        assert (note.amount, note.reason) == (CALL, "BUDGET_EXHAUSTED")
        assert next_of(governed.entry) == []

    def test_notes_it_for_a_while_where_the_window_has_no_end(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal(0), window="none")

        refuse(governed, make_job())

        note = NoRoom.objects.get()
        assert note.until - note.noted_at == timedelta(seconds=room.WITHOUT_END_SECONDS)

    def test_leaves_the_job_itself_claimable_as_soon_as_there_is_room(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal(0))
        job = make_job(max_attempts=1)

        refuse(governed, job)

        assert job.available_at == job.state_since
        assert (job.attempts_left, job.unconfirmed_deferrals) == (1, 0)
        cap("agent", "hermes", Decimal(1))
        assert next_of(governed.entry) == [job.task_id]

    def test_notes_every_scope_that_has_none(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal(0))
        cap("job_type", "content_prep", Decimal(0), window="month")

        refuse(governed, make_job())

        assert notes() == [("agent", "hermes"), ("job_type", "content_prep")]

    def test_keeps_of_two_windows_of_a_scope_the_one_that_ends_last(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal(0))
        cap("agent", "hermes", Decimal(0), window="month")
        cap("agent", "hermes", Decimal(0), window="none")

        refuse(governed, make_job())

        ends = BudgetWindow.objects.exclude(ends_at=None).values_list("ends_at", flat=True)
        assert NoRoom.objects.get().until >= max(ends)

    def test_notes_nothing_where_room_was_made_meanwhile(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal(0))
        job = make_job()
        governed.claim(job)
        governed.route(job)
        cap("agent", "hermes", Decimal(1))

        answer = defer_governed(governed, job)

        assert (answer.cause, notes()) == ("confirmed", [])
        assert job.available_at - job.state_since == timedelta(seconds=1)

    def test_for_another_cause_waits_as_long_as_its_worker_says(
        self, governed: Governed, make_job: Any
    ) -> None:
        LanguageModel.objects.update(enabled=False)
        job = make_job()
        governed.claim(job)
        governed.route(job)

        answer = defer_governed(governed, job)

        assert (answer.cause, notes()) == ("confirmed", [])
        assert job.available_at - job.state_since == timedelta(seconds=600)

    def test_that_is_repeated_notes_nothing_again(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal(0))
        job = make_job()
        refuse(governed, job)
        NoRoom.objects.all().delete()

        assert defer_governed(governed, job).outcome == "already_recorded"
        assert notes() == []


class TestOneCallThatIsTooDear:
    """A call of 0.003 under a cap of 0.002, of which nothing is used."""

    def test_keeps_its_own_job_back_and_no_other(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal("0.002"))
        dear, other = make_job(), make_job()

        refuse(governed, dear)

        assert notes() == [("job", dear.task_id)]
        assert next_of(governed.entry, limit=5) == [other.task_id]

    def test_is_given_out_again_when_the_cap_is_raised(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal("0.002"))
        dear = make_job()
        refuse(governed, dear)

        cap("agent", "hermes", Decimal(1))

        assert next_of(governed.entry) == [dear.task_id]

    def test_of_many_jobs_says_for_a_while_that_the_scope_has_no_room(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        cap("agent", "hermes", Decimal("0.002"))
        jobs = [make_job() for _ in range(room.JOBS_MAX + 2)]

        for job in jobs[:-1]:
            assert ("agent", "hermes") not in notes()
            refuse(governed, job)

        note = NoRoom.objects.get(scope="agent")
        assert note.until - note.noted_at == timedelta(seconds=room.BELIEVED_SECONDS)
        assert next_of(governed.entry) == []
        NoRoom.objects.filter(scope="agent").update(
            noted_at=F("noted_at") - timedelta(hours=1), until=F("until") - timedelta(hours=1)
        )
        assert next_of(governed.entry) == [jobs[-1].task_id]


class TestWhatHasNoRoom:
    @pytest.fixture
    def full(self, governed: Governed, make_job: Any, cap: Any) -> Job:
        cap("agent", "hermes", Decimal(0))
        job: Job = make_job()
        refuse(governed, job)
        return job

    @pytest.mark.usefixtures("full")
    def test_stops_no_type_that_uses_no_model(self, governed: Governed, make_job: Any) -> None:
        make_job(priority="high")
        fine = [make_job(task_type="healthcheck", priority=each) for each in ("low", "normal")]

        assert next_of(governed.entry, limit=5) == [fine[1].task_id, fine[0].task_id]

    @pytest.mark.usefixtures("full")
    def test_stops_no_other_agent(self, stranger: Entry, make_job: Any) -> None:
        use_a_model("classification")
        other = make_job(task_type="classification")

        assert next_of(stranger) == [other.task_id]

    def test_stops_its_own_job_of_a_type_that_need_not_use_a_model(
        self, governed: Governed, make_job: Any, cap: Any
    ) -> None:
        JobType.objects.update(model_use="allowed")
        cap("agent", "hermes", Decimal(0))
        job, other = make_job(), make_job()

        refuse(governed, job)

        assert notes() == [("agent", "hermes"), ("job", job.task_id)]
        assert next_of(governed.entry, limit=5) == [other.task_id]

    def test_is_no_refusal_of_a_claim_by_id(self, governed: Governed, full: Job) -> None:
        assert governed.claim(full).outcome == "claimed"

    @pytest.mark.usefixtures("full")
    def test_is_passed_over_with_types_too(self, governed: Governed, make_job: Any) -> None:
        fine = make_job(task_type="healthcheck")
        make_job(task_type="artifact_production")

        found = next_of(governed.entry, limit=5, task_types=["content_prep", "healthcheck"])

        assert found == [fine.task_id]

    @pytest.mark.usefixtures("full")
    def test_ends_with_its_time(self, governed: Governed, full: Job, woken: list[int]) -> None:
        past = clock.now() - timedelta(seconds=1)
        NoRoom.objects.update(noted_at=past - timedelta(days=1), until=past)

        assert room.drop_ended() == 1
        assert notes() == []
        assert next_of(governed.entry) == [full.task_id]

    @pytest.mark.usefixtures("full")
    def test_does_not_end_before_it(self) -> None:
        assert room.drop_ended() == 0
        assert notes() == [("agent", "hermes")]

    def test_is_over_by_its_time_also_where_nobody_sweeps(
        self, governed: Governed, full: Job
    ) -> None:
        past = clock.now() - timedelta(seconds=1)
        NoRoom.objects.update(noted_at=past - timedelta(days=1), until=past)

        assert next_of(governed.entry) == [full.task_id]

    @pytest.mark.usefixtures("full")
    def test_is_walked_past_by_the_index_of_types(self, governed: Governed, make_job: Any) -> None:
        for number in range(20):
            make_job(task_id=f"t-{number}", priority=("low", "normal", "high")[number % 3])
        params = {
            "agent_id": governed.principal.id,
            "types": None,
            "limit": 10,
            "with_inputs": True,
        }

        plan = plans.plan_of((CLAIMABLE.by_type, params), disabled=("seqscan", "bitmapscan"))

        picked = list(plans.nodes(plans.subplan(plan, "CTE picked")))
        walks = [node for node in picked if node.get("Index Name") == "job_claim_type_idx"]
        for named in ("agent_id", "job_type_id", "priority", "GREATEST"):
            assert any(named in walk["Index Cond"] for walk in walks)
        assert "job_claim_idx" not in {node.get("Index Name") for node in picked}


class TestRoomIsMade:
    @pytest.fixture
    def full(self, governed: Governed, make_job: Any, cap: Any) -> Job:
        """A job that was refused, under a cap that one call fills."""
        cap("agent", "hermes", CALL)
        self.held = make_job()
        governed.claim(self.held)
        self.routed = governed.route(self.held)
        job: Job = make_job()
        refuse(governed, job)
        assert notes() == [("agent", "hermes")]
        assert next_of(governed.entry) == []
        return job

    @pytest.fixture
    def wakes(
        self, woken: list[int], django_capture_on_commit_callbacks: Any, governed: Governed
    ) -> Callable[..., bool]:
        """Do something, and tell whether the agent's workers were woken for it."""

        def did(do: Callable[[], Any]) -> bool:
            del woken[:]
            with django_capture_on_commit_callbacks(execute=True):
                do()
            return governed.principal.id in woken

        return did

    @pytest.mark.parametrize("amount", [Decimal(1), None])
    def test_by_a_cap_that_is_raised_or_taken_away(
        self, governed: Governed, full: Job, cap: Any, wakes: Any, amount: Decimal | None
    ) -> None:
        assert wakes(lambda: cap("agent", "hermes", amount))
        assert next_of(governed.entry) == [full.task_id]

    def test_by_a_budget_that_is_disabled(self, governed: Governed, full: Job, wakes: Any) -> None:
        budget = Budget.objects.get(scope="agent")

        assert wakes(lambda: catalogue.disable_budget(budget_id=budget.pk, **TEST))
        assert next_of(governed.entry) == [full.task_id]

    @pytest.mark.parametrize("end", ["released", "failed"])
    def test_by_a_hold_that_ends_without_a_cost(
        self, governed: Governed, full: Job, wakes: Any, end: str
    ) -> None:
        said = {"cost_basis": "none"} if end == "failed" else {}

        assert wakes(lambda: resolve(governed, self.held, self.routed, end, **said))
        assert next_of(governed.entry) == [full.task_id]

    def test_not_by_one_that_leaves_too_little(
        self, governed: Governed, full: Job, woken: list[int]
    ) -> None:
        used = {"input_tokens": 500, "output_tokens": 100}

        resolve(governed, self.held, self.routed, "settled", usage=used)

        assert notes() == [("agent", "hermes")]
        assert next_of(governed.entry) == []

    def test_not_by_another_budget(self, governed: Governed, full: Job, cap: Any) -> None:
        cap("agent", "openclaw", Decimal(1))

        assert notes() == [("agent", "hermes")]

    @pytest.mark.parametrize("what", ["policy", "price", "model"])
    def test_by_other_models_or_prices(
        self, governed: Governed, full: Job, wakes: Any, what: str
    ) -> None:
        def change() -> None:
            if what == "policy":
                catalogue.set_policy(models=[MODEL], **TEST)
            elif what == "price":
                catalogue.set_price(provider=MODEL[0], name=MODEL[1], rates=[RATES], **TEST)
            else:
                pk = LanguageModel.objects.get().pk
                catalogue.switch_model(model_id=pk, enabled=False, **TEST)

        assert wakes(change)
        assert next_of(governed.entry) == [full.task_id]


def test_a_thousand_jobs_over_an_empty_budget_are_a_thousand_jobs_when_the_cap_is_raised(
    governed: Governed,
    make_job: Any,
    cap: Any,
    woken: list[int],
    django_capture_on_commit_callbacks: Any,
) -> None:
    cap("agent", "hermes", Decimal(0))
    first = make_job(max_attempts=1)
    for _ in range(MANY - 1):
        make_job(max_attempts=1)
    refuse(governed, first)
    looks = [next_of(governed.entry, limit=100) for _ in range(5)]
    untouched = Job.objects.filter(
        state="queued", attempt=F("deferrals"), unconfirmed_deferrals=0
    ).count()
    del woken[:]

    with django_capture_on_commit_callbacks(execute=True):
        cap("agent", "hermes", Decimal(100))

    assert looks == [[]] * 5
    assert untouched == MANY
    assert woken == [governed.principal.id]
    assert len(next_of(governed.entry, limit=100)) == 100
    assert Job.objects.filter(state="queued").count() == MANY - 100


def test_two_workers_get_different_jobs_past_what_has_no_room(
    governed: Governed, make_job: Any, cap: Any, other_worker: Entry
) -> None:
    cap("agent", "hermes", Decimal(0))
    refuse(governed, make_job())
    fine = [make_job(task_type="healthcheck").task_id for _ in range(3)]

    assert [next_of(governed.entry), next_of(other_worker, limit=5)] == [fine[:1], fine[1:]]


def test_the_settlement_of_an_execution_makes_room_too(
    governed: Governed, make_job: Any, cap: Any
) -> None:
    cap("agent", "hermes", CALL)
    job = make_job()
    execution = governed.begin(job)
    refuse(governed, make_job())
    used = {"input_tokens": 0, "output_tokens": 0}
    assert notes() == [("agent", "hermes")]

    governed.result(execution, usage=used)

    assert notes() == []


def test_a_job_whose_time_has_not_come_stays_where_it_is(
    governed: Governed, make_job: Any, cap: Any
) -> None:
    cap("agent", "hermes", Decimal(0))
    refuse(governed, make_job())
    later = make_job(task_type="healthcheck")
    Job.objects.filter(pk=later.pk).update(available_at=clock.now() + timedelta(hours=1))

    assert next_of(governed.entry) == []
    make_available(later)
    assert next_of(governed.entry) == [later.task_id]


class TestWhereItIsShown:
    @pytest.fixture
    def full(self, governed: Governed, make_job: Any, cap: Any) -> NoRoom:
        cap("agent", "hermes", Decimal(0))
        refuse(governed, make_job())
        return NoRoom.objects.get()

    def test_in_the_status_of_the_agent(self, full: NoRoom, hermes_token: str) -> None:
        status = Api(hermes_token).get("/v1/agents/hermes/status").json()

        assert status["no_room"] == [
            {
                "scope": "agent",
                "key": "hermes",
                "reason": "BUDGET_EXHAUSTED",
                "until": instant(full.until),
                "budget_id": full.budget_id,
                "budget": "agent hermes per day",
                "limit_id": None,
                "limit": None,
            }
        ]

    def test_not_once_it_is_over(self, full: NoRoom, hermes_token: str, cap: Any) -> None:
        cap("agent", "hermes", None)

        assert Api(hermes_token).get("/v1/agents/hermes/status").json()["no_room"] == []

    @pytest.mark.parametrize("page", ["admin:index", "admin:console_inbox"])
    def test_on_the_overview_and_in_the_inbox_with_the_act_that_clears_it(
        self, full: NoRoom, as_: Any, page: str
    ) -> None:
        seen = as_("governor").get(reverse(page)).content.decode()

        assert "no room until" in seen
        assert reverse("admin:governance_budget_change", args=(full.budget_id,)) in seen

    @pytest.mark.usefixtures("full")
    def test_as_a_metric(self) -> None:
        [family] = [each for each in gauges() if each.name == "fencepost_no_room"]

        [sample] = family.samples
        assert sample.labels == {"scope": "agent", "key": "hermes"}
        assert 0 < sample.value <= timedelta(days=1).total_seconds()
