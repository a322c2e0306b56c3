"""Random lives of calls against overlapping budgets: the books agree after every step."""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from unittest.mock import patch

from django.db import transaction
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from governance.core import sql
from governance.core.errors import InvalidArgument, ModelReservationStateInvalid
from governance.money import ledger, limiting, scopes
from governance.money.limits import LimitHold
from governance.money.models import BudgetWindow, Reservation, Resolution, RouteDecision
from governance.money.pricing import Usage
from governance.money.scopes import scopes_of_model
from tests.money import LARGE_CALL, TEST, another_request, cap, catalogue_of_two

ACTOR = "agent:hermes"
TOKENS = st.integers(0, 3000)


class Books(RuleBasedStateMachine):
    """Calls are reserved and ended in every way; the model is what is open and what has ended."""

    @initialize()
    def open_the_books(self):
        # Each example is a savepoint of the test's transaction.
        self.savepoint = transaction.savepoint()
        catalogue_of_two()
        with patch.dict(scopes._known, clear=True):
            self.set_budgets()
        self.open, self.ended, self.asked = [], {}, []

    def set_budgets(self):
        cap(str(LARGE_CALL * 6))
        cap(str(LARGE_CALL * 3), scope="agent", key="*")
        cap(str(LARGE_CALL * 2), scope="job_type", key="rewrite", window="day")
        cap(str(LARGE_CALL * 3), scope="submitter", key="*", window="week")
        cap(str(LARGE_CALL * 4), scope="label", key="team=*", window="hour")
        cap(str(LARGE_CALL * 2), scope="label", key="team=search")
        cap(str(LARGE_CALL * 2), scope="model", key="local/large", window="month")
        cap(str(LARGE_CALL * 5), scope="provider", key="*", window="day")
        limiting.set_limit(scope="label", key="team=*", open_calls=2, **TEST)
        limiting.set_limit(scope="model", key="*", tokens_per_minute=10**9, open_calls=3, **TEST)

    def teardown(self):
        if hasattr(self, "savepoint"):
            transaction.savepoint_rollback(self.savepoint)

    @rule(
        agent=st.sampled_from(["hermes", "openclaw"]),
        job_type=st.sampled_from(["rewrite", "content_prep"]),
        tokens=st.integers(1, 2000),
        started=st.booleans(),
        submitter=st.sampled_from(["", "shop", "desk"]),
        labels=st.sampled_from([(), ("team=search",), ("team=ads", "tier=gold")]),
    )
    def reserve(self, agent, job_type, tokens, started, submitter, labels):
        asked = another_request(
            agent=agent,
            job_type=job_type,
            max_output_tokens=tokens,
            submitter=submitter,
            labels=labels,
        )
        routed = ledger.reserve(request=asked, started=started)
        if routed.reservation is not None:
            self.open.append(routed)
            self.asked.append((routed, asked))

    @precondition(lambda self: self.open)
    @rule(data=st.data())
    def start(self, data):
        routed = data.draw(st.sampled_from(self.open))
        started = ledger.mark_in_doubt(external_request_ids=[routed.decision.external_request_id])
        sql.pipeline(started)

    @precondition(lambda self: self.open)
    @rule(
        data=st.data(),
        ended_as=st.sampled_from(["settled", "released", "failed"]),
        usage=st.none() | st.builds(Usage, TOKENS, TOKENS),
        basis=st.sampled_from([None, "none", "estimate", "usage"]),
    )
    def end(self, data, ended_as, usage, basis):
        routed = data.draw(st.sampled_from(self.open))
        of = routed.reservation.reservation_id
        state = Reservation.objects.get(pk=of).state
        try:
            end = ledger.End(reservation_id=of, ended_as=ended_as, usage=usage, cost_basis=basis)
        except InvalidArgument:
            return
        try:
            answer = ledger.resolve(end=end, actor=ACTOR)
        except ModelReservationStateInvalid:
            assert (ended_as, state) == ("released", "in_doubt")
            return
        assert answer.outcome == "recorded"
        self.open.remove(routed)
        self.ended[of] = end, answer.resolution.cost

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def end_again(self, data):
        of = data.draw(st.sampled_from(sorted(self.ended)))
        end, cost = self.ended[of]
        again = ledger.resolve(end=end, actor="agent:other")
        assert (again.outcome, again.resolution.cost) == ("already_recorded", cost)

    @precondition(lambda self: self.ended)
    @rule(data=st.data())
    def end_otherwise(self, data):
        of = data.draw(st.sampled_from(sorted(self.ended)))
        end, _ = self.ended[of]
        other = ledger.End(
            reservation_id=of, ended_as="failed", error_code="other", cost_basis="none"
        )
        if other.content_sha256 == end.content_sha256:
            return
        try:
            ledger.resolve(end=other, actor=ACTOR)
        except ModelReservationStateInvalid:
            return
        raise AssertionError("a second, different end was recorded")

    @invariant()
    def the_books_agree_with_their_rows(self):
        if hasattr(self, "open"):
            assert list(ledger.verify()) == []

    @invariant()
    def every_budget_counts_the_calls_of_its_scope(self):
        """By another way than `verify`: from the decisions, not from the holds."""
        if not hasattr(self, "open"):
            return
        used = Counter()
        for routed, request in self.asked:
            of = routed.reservation.reservation_id
            _, cost = self.ended.get(of, (None, routed.reservation.amount))
            for each in request.scopes + scopes_of_model(f"{routed.provider}/{routed.model}"):
                used[each.scope, each.key] += cost
        for window in BudgetWindow.objects.select_related("budget"):
            key = window.counted_for or window.budget.key
            assert window.held + window.spent == used[window.budget.scope, key]

    @invariant()
    def limits_hold_what_is_open_and_no_more(self):
        if not hasattr(self, "open"):
            return
        of = {routed.reservation.reservation_id: routed for routed in self.open}
        labels = {r.reservation.reservation_id: asked.labels for r, asked in self.asked}
        expected = Counter()
        for reservation_id, routed in of.items():
            expected[f"{routed.provider}/{routed.model}"] += 1
            expected.update(label for label in labels[reservation_id] if label.startswith("team="))
        found = Counter(LimitHold.objects.values_list("meter__counted_for", flat=True))
        assert found == expected
        assert all(count <= (3 if "/" in key else 2) for key, count in found.items())

    @invariant()
    def what_is_open_and_ended_is_what_was_done(self):
        if not hasattr(self, "open"):
            return
        still_open = Reservation.objects.filter(state__in=["held", "in_doubt"])
        assert still_open.count() == len(self.open)
        assert dict(Resolution.objects.values_list("reservation_id", "cost")) == {
            of: cost for of, (_, cost) in self.ended.items()
        }
        issued = RouteDecision.objects.filter(decision="issued").count()
        assert issued == len(self.open) + len(self.ended)

    @invariant()
    def only_an_overrun_passes_a_cap(self):
        overrun = sum(
            (
                max(end.cost - end.reservation.amount, Decimal(0))
                for end in Resolution.objects.filter(overrun=True).select_related("reservation")
            ),
            Decimal(0),
        )
        for window in BudgetWindow.objects.select_related("budget"):
            assert window.held + window.spent <= window.budget.cap + overrun


class TestBooks(TestCase, Books.TestCase):
    settings = settings(
        max_examples=12,
        stateful_step_count=20,
        deadline=None,
        suppress_health_check=list(HealthCheck),
    )
