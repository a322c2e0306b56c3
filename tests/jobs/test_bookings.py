"""Random lives of governed jobs: every budget is the sum of its rows, and nothing used is free.

Any order of claim, start, route, resolve, result, complete, expiry, supersession and finding; the
model of the test is only what was reported, by attempt.
"""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from agents.principals import identify
from agents.transitions import credentials, principals
from governance.core.errors import DomainError
from governance.money import catalogue, ledger
from governance.money.models import BudgetWindow, Reservation, Resolution
from governance.money.pricing import Usage
from governance.money.uses import UnreservedUse
from jobs import executions, transitions
from jobs.models import Execution, Job, JobType, Lease
from jobs.transitions.sweeping import end_if_due
from tests import installed
from tests.jobs.governed import TEST, Governed, price_a_model

COUNTS = st.integers(0, 3000)
USAGE = st.none() | st.fixed_dictionaries({"input_tokens": COUNTS, "output_tokens": COUNTS})
ODD = st.sampled_from(
    ["many", [1], {"input_tokens": -1}, {"input_tokens": 5, "cached_input_tokens": 900}]
)


def a_job() -> Job:
    principals.register_submitter(name="ops", **TEST)
    token = credentials.create(submitter="ops", scopes=["submit"], **TEST).token
    envelope = {
        "task_id": "task-1",
        "source": "manual",
        "title": "A task of a test",
        "goal": "Show that the books are right.",
        "task_type": "content_prep",
        "risk_tier": "low",
        "priority": "normal",
        "inputs": {},
        "output_required": False,
        "review_required": False,
        "execution_approval_required": False,
        "rollback_required": False,
    }
    [outcome] = transitions.intake(principal=identify(token=token), envelopes=[envelope])
    assert not isinstance(outcome, Exception)
    return Job.objects.get()


def is_usage(usage: Any) -> bool:
    return isinstance(usage, dict) and usage.keys() == {"input_tokens", "output_tokens"}


class Bookings(RuleBasedStateMachine):
    """One job whose worker does and says anything; refusals are answers like others."""

    @initialize(effects=st.sampled_from(["model_only", "external"]))
    def begin(self, effects: str) -> None:
        # Each example is a savepoint of the test's transaction.
        self.savepoint = transaction.savepoint()
        installed.put()
        price_a_model()
        for scope, key, window in (
            ("agent", "*", "day"),
            ("job_type", "content_prep", "month"),
            ("job", "*", "none"),
        ):
            catalogue.set_budget(scope=scope, key=key, window=window, cap=Decimal(5), **TEST)
        JobType.objects.filter(name="content_prep").update(
            effects=effects, max_attempts=50, max_attempts_ceiling=50
        )
        self.job = a_job()
        self.worker = Governed(identify(token=credentials.create(agent="hermes", **TEST).token))
        #: By execution, or by execution and call: the most that was reported of each count.
        self.of_all: dict[str, dict[str, int]] = {}
        self.of_calls: dict[tuple[str, UUID], dict[str, int]] = {}

    def teardown(self) -> None:
        if hasattr(self, "savepoint"):
            transaction.savepoint_rollback(self.savepoint)

    def attempt(self, move: Any) -> Any:
        """Do one move as a request does: all of it or nothing."""
        self.taken_back = False
        try:
            with transaction.atomic():
                return move()
        except DomainError as refusal:
            self.taken_back = True
            return refusal

    def note(self, where: dict[Any, dict[str, int]], key: Any, usage: Any) -> None:
        if is_usage(usage):
            before = where.setdefault(key, dict.fromkeys(usage, 0))
            where[key] = {name: max(before[name], count) for name, count in usage.items()}

    @precondition(lambda self: not Lease.objects.exists())
    @rule(then=st.sampled_from(["nothing", "route", "start", "route and start"]))
    def claim(self, then: str) -> None:
        Job.objects.filter(pk=self.job.pk).update(available_at=self.job.created_at)
        claimed = self.attempt(lambda: self.worker.claim(self.job))
        if isinstance(claimed, DomainError):
            return
        if "route" in then:
            self.route(call=1, tokens=100, size=None)
        if "start" in then:
            self.start(reserved="route" in then)

    def running(self) -> bool:
        self.job.refresh_from_db()
        return self.job.attempt > 0

    @precondition(lambda self: self.running())
    @rule(call=st.integers(1, 4), tokens=st.integers(0, 2000), size=st.none() | st.just(900))
    def route(self, call: int, tokens: int, size: int | None) -> None:
        asked = {"estimated_input_tokens": 100, "max_output_tokens": tokens, "request_bytes": size}
        self.attempt(lambda: self.worker.route(self.job, call=call, **asked))

    @precondition(lambda self: self.running())
    @rule(reserved=st.booleans())
    def start(self, reserved: bool) -> None:
        external = self.worker.binding(self.job).external_request_id
        held = Reservation.objects.filter(external_request_id=external, state="held").first()
        of = held.pk if held is not None and reserved else None
        permit = self.attempt(lambda: self.worker.permit(self.job, of))
        if not isinstance(permit, DomainError):
            self.attempt(lambda: self.worker.start(self.job, permit.permit_id))

    @precondition(lambda self: Reservation.objects.exists())
    @rule(data=st.data(), end=st.sampled_from(["settled", "released", "failed"]), usage=USAGE | ODD)
    def resolve(self, data: Any, end: str, usage: Any) -> None:
        binding = self.worker.binding(self.job)
        mine = Reservation.objects.filter(external_request_id=binding.external_request_id)
        if not mine.exists():
            return
        held = data.draw(st.sampled_from(list(mine.order_by("reserved_at"))))
        self.attempt(
            lambda: executions.resolve_reservation(
                entry=self.worker.entry,
                binding=binding,
                reservation_id=held.pk,
                end=end,
                usage=usage,
            )
        )
        self.note(self.of_calls, (held.external_request_id, held.pk), usage)

    @precondition(lambda self: Execution.objects.exists())
    @rule(
        data=st.data(),
        outcome=st.sampled_from(["succeeded", "failed", "not_started"]),
        usage=USAGE | ODD,
    )
    def result(self, data: Any, outcome: str, usage: Any) -> None:
        execution = data.draw(st.sampled_from(list(Execution.objects.order_by("-pk")[:2])))
        self.attempt(lambda: self.worker.result(execution, outcome, usage=usage))
        # A refusal that is answered has booked what was reported.
        if not self.taken_back:
            self.note(self.of_all, execution.external_request_id, usage)

    @precondition(lambda self: self.running())
    @rule()
    def complete(self) -> None:
        binding = self.worker.binding(self.job)
        done = {
            "task_id": self.job.task_id,
            "attempt": binding.attempt,
            "fencing_token": binding.fencing_token,
            "result": {},
            "needs_review": True,
        }
        transitions.complete(entry=self.worker.entry, completions=[done])
        self.job.refresh_from_db()
        if self.job.state == "review_required":
            transitions.review(
                task_id=self.job.task_id, verdict="needs_rework", actor="user:anna", reason="More."
            )

    @precondition(lambda self: Lease.objects.exists())
    @rule(by=st.sampled_from(["expiry", "supersession"]))
    def lose(self, by: str) -> None:
        lease = Lease.objects.get()
        if by == "expiry":
            Lease.objects.update(expires_at=lease.granted_at - timedelta(seconds=1))
        else:
            self.worker.activate()
        end_if_due(task_id=self.job.task_id)

    @precondition(lambda self: Execution.objects.filter(state="unknown").exists())
    @rule(verdict=st.sampled_from(["happened", "not_happened", "undetermined"]), usage=USAGE)
    def reconcile(self, verdict: str, usage: Any) -> None:
        execution = Execution.objects.filter(state="unknown").order_by("pk").first()
        assert execution is not None
        answer = self.attempt(
            lambda: executions.reconcile(
                external_request_id=execution.external_request_id,
                verdict=verdict,
                usage=usage,
                result={"ok": True},
                **TEST,
            )
        )
        if not isinstance(answer, DomainError) and verdict != "undetermined":
            self.note(self.of_all, execution.external_request_id, usage)

    @invariant()
    def the_books_agree_with_their_rows(self) -> None:
        if not hasattr(self, "job"):
            return
        assert list(ledger.verify()) == []
        open_now = Reservation.objects.filter(state__in=Reservation.OPEN)
        held = sum((row.amount for row in open_now), Decimal(0))
        cost = [*Resolution.objects.all(), *UnreservedUse.objects.exclude(cost=None)]
        spent = sum((row.cost for row in cost if row.cost is not None), Decimal(0))
        # Whoever counts the one job of the one agent counts all of it.
        for window in BudgetWindow.objects.all():
            assert (window.held, window.spent) == (held, spent)

    @invariant()
    def what_was_reported_is_booked(self) -> None:
        for external, counts in getattr(self, "of_all", {}).items():
            still_open = Reservation.objects.filter(
                external_request_id=external, state__in=Reservation.OPEN
            )
            if not still_open.exists():
                usage = Usage(**counts)
                assert ledger.excess_of(external_request_id=external, usage=usage) is None

    @invariant()
    def nothing_is_booked_twice(self) -> None:
        if not hasattr(self, "of_all"):
            return
        for external in {*self.of_all, *(key for key, _ in self.of_calls)}:
            said = [counts for (key, _), counts in self.of_calls.items() if key == external]
            said.append(self.of_all.get(external, {}))
            rows = [
                *UnreservedUse.objects.filter(external_request_id=external, usage_odd=False),
                *Resolution.objects.filter(
                    reservation__external_request_id=external, usage_odd=False
                ),
            ]
            for name in ("input_tokens", "output_tokens"):
                counted = sum(getattr(row, name) or 0 for row in rows)
                assert counted <= sum(counts.get(name, 0) for counts in said)


class TestBookings(TestCase, Bookings.TestCase):
    settings = settings(
        max_examples=8,
        stateful_step_count=25,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
