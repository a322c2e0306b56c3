"""Decisions, reservations and their one end, as rows and counters."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest
from django.db import DatabaseError, IntegrityError, connection, transaction
from uuid_utils.compat import uuid7

from governance.core import clock, sql
from governance.core.errors import (
    DEFER_SECONDS,
    BindingMismatch,
    BudgetExhausted,
    InvalidArgument,
    ModelNotAllowed,
    ModelReservationStateInvalid,
    ModelUnpriced,
    NotFound,
    RouteContentMismatch,
)
from governance.core.models import AuditEvent
from governance.money import catalogue, ledger
from governance.money.models import (
    BudgetWindow,
    Reservation,
    ReservationHold,
    Resolution,
    RouteDecision,
)
from governance.money.pricing import RateSet, Usage
from tests.money import (
    CALL_TOKENS,
    LARGE,
    LARGE_CALL,
    SMALL,
    SMALL_CALL,
    TEST,
    another_request,
    cap,
    catalogue_of_two,
    price,
    request,
    reserved,
    resolve,
)

pytestmark = pytest.mark.django_db
ACTOR = "agent:hermes"


@pytest.fixture(autouse=True)
def _catalogue(db):
    catalogue_of_two()


def counters(**window):
    return [(w.held, w.spent) for w in BudgetWindow.objects.filter(**window).order_by("id")]


def assert_books_agree():
    assert list(ledger.verify()) == []


# --- Decide and reserve


def test_the_first_allowed_model_is_issued_and_its_upper_bound_held():
    cap("1")

    routed = ledger.reserve(request=request())

    assert (routed.provider, routed.model) == LARGE
    assert routed.refusal is None
    assert routed.reservation.state == "held"
    assert routed.reservation.amount == LARGE_CALL
    assert counters() == [(LARGE_CALL, 0)]
    assert routed.event() == {
        "action": "route.issued",
        "after": {
            "route_request_id": routed.decision.route_request_id,
            "decision": "issued",
            "decision_id": str(routed.decision.decision_id),
            "reason": None,
            "provider": "local",
            "model": "large",
            "price_version": routed.decision.price.version,
            "position": 1,
            "policy_id": routed.decision.policy_id,
            "estimated_input_tokens": CALL_TOKENS,
            "max_output_tokens": CALL_TOKENS,
            "content_sha256": routed.decision.content_sha256,
            "task_id": routed.decision.task_id,
            "agent": "hermes",
            "job_type": routed.decision.job_type,
            "risk_tier": "low",
            "runtime": routed.decision.runtime,
            "price_id": routed.decision.price_id,
            "request_bytes": None,
            "requirements": [],
            "decided_at": routed.decision.decided_at.isoformat(timespec="microseconds"),
            "reservation": {
                "reservation_id": str(routed.reservation.reservation_id),
                "state": "held",
                "amount": "0.03",
                "currency": "USD",
            },
        },
    }
    assert_books_agree()


def test_every_applicable_budget_holds_the_call():
    for scope, key in [
        ("global", ""),
        ("agent", "hermes"),
        ("agent", "*"),
        ("job_type", "content_prep"),
        ("job", "task-1"),
    ]:
        cap("1", scope=scope, key=key)
    for scope, key in [("agent", "openclaw"), ("job_type", "rewrite"), ("job", "task-2")]:
        cap("0", scope=scope, key=key)
    cap("0", scope="agent", key="hermes", window="day", enabled=False)

    ledger.reserve(request=request())

    # A budget that is disabled refuses nothing, and goes on counting.
    assert counters(held__gt=0) == [(LARGE_CALL, 0)] * 6


def test_a_budget_for_each_counts_them_apart():
    cap("0.03", scope="job", key="*")

    first = ledger.reserve(request=request(task_id="task-1"))
    second = ledger.reserve(request=request(task_id="task-2"))

    assert first.decision.decision == second.decision.decision == "issued"
    assert counters(counted_for="task-1") == counters(counted_for="task-2") == [(LARGE_CALL, 0)]


def test_a_cheaper_allowed_model_is_taken_where_the_first_does_not_fit():
    cap("0.02")

    routed = ledger.reserve(request=request())

    assert routed.model == "small"
    assert routed.decision.position == 2
    assert [line["outcome"] for line in routed.decision.considered] == ["over_budget", "chosen"]
    assert counters() == [(SMALL_CALL, 0)]


def test_all_budgets_hold_the_call_or_none():
    cap("1")
    cap("0.001", scope="agent", key="hermes")

    routed = ledger.reserve(request=request())

    assert isinstance(routed.refusal, BudgetExhausted)
    assert counters() == [(0, 0), (0, 0)]
    assert not Reservation.objects.exists()
    assert not ReservationHold.objects.exists()
    assert_books_agree()


def test_a_refusal_that_is_asked_for_again_is_one_row():
    cap("0")

    first = ledger.reserve(request=request())
    again = ledger.reserve(request=request())

    assert first.event() == again.event()
    assert (first.replayed, again.replayed) == (False, True)
    assert again.decision.reason == "BUDGET_EXHAUSTED"
    assert RouteDecision.objects.count() == 1


def test_a_refused_request_is_decided_again_once_there_is_room():
    cap("0")
    ledger.reserve(request=request())
    cap("1")

    issued = ledger.reserve(request=request())
    again = ledger.reserve(request=request())

    assert issued.decision.decision == "issued"
    assert not issued.replayed
    assert again.replayed
    assert again.reservation.reservation_id == issued.reservation.reservation_id
    assert sorted(RouteDecision.objects.values_list("decision", flat=True)) == ["issued", "refused"]
    assert_books_agree()


def test_a_refusal_for_another_reason_is_another_row():
    cap("0")
    ledger.reserve(request=request())
    catalogue.set_policy(models=[], **TEST)

    for _ in range(2):
        assert ledger.reserve(request=request()).decision.reason == "MODEL_NOT_ALLOWED"

    reasons = RouteDecision.objects.order_by("decided_at").values_list("reason", flat=True)
    assert list(reasons) == ["BUDGET_EXHAUSTED", "MODEL_NOT_ALLOWED"]


def test_a_refused_request_may_ask_for_less():
    cap(str(SMALL_CALL / 2))
    ledger.reserve(request=request())

    less = ledger.reserve(request=request(estimated_input_tokens=1, max_output_tokens=1))

    assert less.decision.decision == "issued"
    assert RouteDecision.objects.count() == 2


def test_the_database_issues_a_request_once():
    issued = ledger.reserve(request=request()).decision

    issued.decision_id = uuid7()
    with pytest.raises(IntegrityError), transaction.atomic():
        issued.save(force_insert=True)


def test_after_a_refusal_the_next_call_is_decided_anew():
    cap("0")
    ledger.reserve(request=request())
    cap("1")

    assert ledger.reserve(request=request(call=2)).decision.decision == "issued"


def test_a_cap_of_none_is_no_cap_and_a_cap_of_zero_is_nothing():
    cap(None)
    assert ledger.reserve(request=another_request()).decision.decision == "issued"

    cap("0")
    assert ledger.reserve(request=another_request()).decision.reason == "BUDGET_EXHAUSTED"


def test_a_free_model_fits_a_cap_of_zero():
    cap("0")
    price(SMALL, input_rate="0", output_rate="0")

    assert reserved().reservation.amount == 0


def test_exactly_the_cap_is_allowed():
    cap("0.03")

    assert reserved().model == "large"
    assert ledger.reserve(request=another_request()).decision.decision == "refused"


def test_an_exhausted_window_says_when_it_ends():
    cap("0", window="day")

    refusal = ledger.reserve(request=request()).refusal

    assert 0 < refusal.after_seconds <= 24 * 3600 + 1
    assert refusal.current["budgets"] == [{"scope": "global", "window": "day"}] * 2


def test_a_refusal_for_want_of_room_says_which_budget_is_full_and_what_holds_it():
    cap("100")
    cap("0.0225", scope="agent", key="*", window="month")
    spent = reserved()
    resolve("settled", reservation_id=spent.reservation.reservation_id, usage=Usage(0, 1),
            actor=ACTOR)  # fmt: skip
    held = [reserved(estimated_input_tokens=998, max_output_tokens=1) for _ in range(2)]
    reserved(agent="openclaw")

    refusal = ledger.reserve(request=request()).refusal

    assert refusal.reason == "BUDGET_EXHAUSTED"
    assert refusal.current["budget"] == {
        "scope": "agent",
        "key": "hermes",
        "window": "month",
        "cap": "0.0225",
        "spent": "0.000002",
        "held": "0.02",
        "currency": "USD",
    }
    assert refusal.current["largest_holds"] == [
        {
            "reservation_id": str(each.reservation.reservation_id),
            "task_id": each.decision.task_id,
            "amount": "0.01",
        }
        for each in held
    ]


def test_of_what_holds_a_full_budget_five_are_told_the_largest_first():
    cap(str(LARGE_CALL))
    for n in range(1, 8):
        reserved(estimated_input_tokens=n * 10 - 2, max_output_tokens=1)

    told = ledger.reserve(request=request(max_output_tokens=10**6)).refusal.current

    assert [hold["amount"] for hold in told["largest_holds"]] == [
        f"0.000{n}" for n in range(7, 2, -1)
    ]


def test_a_refusal_by_policy_tells_of_no_budget():
    cap("0")

    refusal = ledger.reserve(request=request(requirements=("telepathy",))).refusal

    assert refusal.current == {}


def test_a_budget_without_window_cannot_say_when_there_is_room_and_says_a_default():
    cap("0")

    refusal = ledger.reserve(request=request()).refusal
    assert (refusal.retry, refusal.after_seconds) == ("defer", DEFER_SECONDS)


def test_windows_of_a_day_and_of_a_month_are_counted_side_by_side():
    cap("1", window="day")
    cap("1", window="month")
    now = clock.now()

    ledger.reserve(request=request())

    for window in BudgetWindow.objects.all():
        assert window.starts_at <= now < window.ends_at
        assert window.held == LARGE_CALL


def test_yesterdays_window_does_not_count_today():
    budget = cap("0.03", window="day")
    ledger.reserve(request=request())
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE governance_budgetwindow SET starts_at = starts_at - interval '1 day',"
            " ends_at = ends_at - interval '1 day'"
        )
        cursor.execute("SET session_replication_role = origin")

    assert reserved().model == "large"
    assert counters(budget=budget) == [(LARGE_CALL, 0), (LARGE_CALL, 0)]


def test_without_a_policy_nothing_is_allowed():
    catalogue.retire_policy(**TEST)

    routed = ledger.reserve(request=request())

    assert isinstance(routed.refusal, ModelNotAllowed)
    assert routed.event()["after"]["reservation"] is None


def test_an_empty_policy_allows_nothing():
    catalogue.set_policy(agent="hermes", models=[], **TEST)

    assert ledger.reserve(request=request()).decision.reason == "MODEL_NOT_ALLOWED"


@pytest.mark.parametrize(
    "scope",
    [
        {"agent": "hermes"},
        {"job_type": "content_prep"},
        {"risk_tier": "low"},
        {"agent": "hermes", "job_type": "content_prep", "risk_tier": "low"},
    ],
)
def test_the_policy_that_names_more_applies(scope):
    catalogue.set_policy(models=[SMALL], **scope, **TEST)

    assert ledger.reserve(request=request()).model == "small"


def test_a_policy_for_other_work_does_not_apply():
    for scope in ({"agent": "openclaw"}, {"job_type": "rewrite"}, {"risk_tier": "high"}):
        catalogue.set_policy(models=[SMALL], **scope, **TEST)

    assert ledger.reserve(request=request()).model == "large"


def test_an_unpriced_model_is_refused_not_free():
    catalogue.set_model(provider="local", name="new", **TEST)
    catalogue.set_policy(models=[("local", "new")], **TEST)

    routed = ledger.reserve(request=request())

    assert isinstance(routed.refusal, ModelUnpriced)
    assert routed.decision.considered[0]["outcome"] == "unpriced"


def test_an_ended_price_is_no_price():
    catalogue.set_policy(models=[SMALL], **TEST)
    routed = reserved()
    catalogue.end_price(price_id=routed.decision.price_id, **TEST)

    assert ledger.reserve(request=another_request()).decision.reason == "MODEL_UNPRICED"


def test_a_disabled_model_is_passed_over():
    catalogue.set_model(provider="local", name="large", enabled=False, **TEST)

    assert ledger.reserve(request=request()).model == "small"


@pytest.mark.parametrize(
    ("over", "outcome"),
    [
        ({"requirements": ("vision",)}, "incapable"),
        ({"estimated_input_tokens": 5000}, "too_large"),
        ({"max_output_tokens": 3000}, "too_large"),
    ],
)
def test_a_model_that_cannot_serve_the_request_is_passed_over(over, outcome):
    catalogue.set_model(
        provider="local",
        name="small",
        capabilities=["tools"],
        context_tokens_max=5500,
        output_tokens_max=2000,
        **TEST,
    )
    catalogue.set_policy(models=[SMALL], **TEST)

    routed = ledger.reserve(request=request(**over))

    assert isinstance(routed.refusal, ModelNotAllowed)
    assert routed.decision.considered[0]["outcome"] == outcome
    assert ledger.reserve(request=another_request(requirements=("tools",))).model == "small"


def test_the_same_request_is_answered_with_the_stored_decision():
    cap("1")

    first = ledger.reserve(request=request())
    again = ledger.reserve(request=request(fencing_token=99))

    assert again.replayed
    assert again.event() == first.event()
    assert counters() == [(LARGE_CALL, 0)]


def test_the_same_request_with_other_content_is_refused():
    cap("1")
    ledger.reserve(request=request())

    with pytest.raises(RouteContentMismatch):
        ledger.reserve(request=request(max_output_tokens=2))

    assert counters() == [(LARGE_CALL, 0)]
    assert RouteDecision.objects.count() == 1


def test_calls_of_an_attempt_run_beside_each_other_under_numbers_in_order():
    first = ledger.reserve(request=request())

    with pytest.raises(ModelReservationStateInvalid) as refused:
        ledger.reserve(request=request(call=3))

    assert refused.value.current == {"next_call": 2}
    second = ledger.reserve(request=request(call=2))
    assert second.decision.call == 2
    assert second.reservation.reservation_id != first.reservation.reservation_id
    assert RouteDecision.objects.count() == 2


def test_as_many_calls_are_open_as_the_job_type_allows():
    bound = {"open_calls_max": 2}
    first = ledger.reserve(request=request(**bound))
    ledger.reserve(request=request(call=2, **bound))

    with pytest.raises(ModelReservationStateInvalid) as refused:
        ledger.reserve(request=request(call=3, **bound))

    assert refused.value.current == {"open_calls": 2, "open_calls_max": 2}
    assert RouteDecision.objects.count() == 2
    resolve("released", reservation_id=first.reservation.reservation_id, actor=ACTOR)
    assert ledger.reserve(request=request(call=3, **bound)).decision.decision == "issued"


def test_a_call_that_is_open_is_asked_for_again_whatever_else_is_open():
    bound = {"open_calls_max": 1}
    first = ledger.reserve(request=request(**bound))

    again = ledger.reserve(request=request(**bound))

    assert again.reservation.reservation_id == first.reservation.reservation_id


def test_two_calls_at_once_that_ask_alike_share_no_reservation():
    ledger.reserve(request=request(request_sha256="ab" * 32))

    with pytest.raises(RouteContentMismatch):
        ledger.reserve(request=request(request_sha256="cd" * 32))

    assert ledger.reserve(request=request(request_sha256="ab" * 32)).replayed


def test_a_fallback_is_a_decision_of_its_own_for_a_model_that_did_not_fail():
    first = ledger.reserve(request=request())
    resolve(
        "failed", reservation_id=first.reservation.reservation_id, cost_basis="none", actor=ACTOR
    )

    second = ledger.reserve(request=request(call=2))

    assert (first.model, second.model) == ("large", "small")
    assert second.reservation.amount == SMALL_CALL
    assert second.decision.considered[0]["outcome"] == "failed_before"


def test_the_next_attempt_may_use_the_model_that_failed():
    first = ledger.reserve(request=request())
    resolve(
        "failed", reservation_id=first.reservation.reservation_id, cost_basis="none", actor=ACTOR
    )

    assert ledger.reserve(request=request(attempt=2)).model == "large"


def test_a_foreign_route_request_id_is_refused():
    with pytest.raises(BindingMismatch):
        ledger.reserve(request=request(route_request_id="xr_" + "0" * 64 + ":model"))

    assert not RouteDecision.objects.exists()


@pytest.mark.parametrize(
    "over",
    [
        {"estimated_input_tokens": -1},
        {"max_output_tokens": True},
        {"max_output_tokens": 10**12},
        {"requirements": ("",)},
        {"requirements": tuple("abcdefghijklmnopqrstuvw")},
    ],
)
def test_a_malformed_request_is_refused(over):
    with pytest.raises(InvalidArgument):
        request(**over)


def test_a_soft_cap_warns_once_per_window_and_refuses_nothing():
    budget = cap("1", soft_cap=Decimal("0.03"))

    for _ in range(3):
        reserved()

    told = AuditEvent.objects.filter(subject=budget.audit_subject)
    assert told.filter(action="budget.soft_cap_reached").count() == 1


def test_a_lowered_cap_takes_effect_on_the_next_call():
    cap("1")
    reserved()
    cap("0.03")

    assert ledger.reserve(request=another_request()).decision.reason == "BUDGET_EXHAUSTED"


def test_the_decision_keeps_the_price_of_its_time():
    routed = reserved()
    price(LARGE, input_rate="1000", output_rate="1000")

    ended = resolve(
        "settled",
        reservation_id=routed.reservation.reservation_id,
        usage=Usage(1000, 1000),
        actor=ACTOR,
    )

    assert ended.resolution.cost == LARGE_CALL
    assert_books_agree()


# --- End


def test_settling_moves_what_was_held_to_what_was_spent():
    cap("1")
    cap("1", scope="agent", key="hermes", window="day")
    routed = reserved()

    ended = resolve(
        "settled",
        reservation_id=routed.reservation.reservation_id,
        usage=Usage(500, 100, 200, 50),
        provider_response_id="resp-1",
        actor=ACTOR,
    )

    assert ended.outcome == "recorded"
    assert ended.event() == {
        "action": "reservation.settled",
        "after": {
            "state": "settled",
            "actual": "0.007",
            "overrun": False,
            "usage_missing": False,
            "usage_odd": False,
            "disputed": False,
            "reservation_id": str(routed.reservation.reservation_id),
            "cost_basis": "usage",
            "provider_response_id": "resp-1",
            "error_code": "",
            "content_sha256": ended.resolution.content_sha256,
            "resolved_by": ACTOR,
            "reason": "",
            "resolved_at": ended.resolution.resolved_at.isoformat(timespec="microseconds"),
            "usage": {
                "input_tokens": 500,
                "cached_input_tokens": 200,
                "output_tokens": 100,
                "reasoning_tokens": 50,
                "cache_write_tokens": 0,
                "cache_write_1h_tokens": 0,
                "input_audio_tokens": 0,
                "cached_audio_tokens": 0,
                "output_audio_tokens": 0,
                "searches": 0,
                "service_tier": None,
                "processing": None,
                "speed": None,
            },
        },
    }
    assert counters() == [(0, Decimal("0.007"))] * 2
    assert Reservation.objects.get().state == "settled"
    assert_books_agree()


def test_missing_usage_costs_the_estimate_and_is_flagged():
    cap("1")
    routed = reserved()

    ended = resolve(
        "settled", reservation_id=routed.reservation.reservation_id, usage=None, actor=ACTOR
    )

    assert ended.resolution.cost == LARGE_CALL
    assert ended.resolution.usage_missing
    assert ended.resolution.cost_basis == "estimate"
    assert counters() == [(0, LARGE_CALL)]
    assert_books_agree()


def test_what_was_seen_of_a_call_that_nobody_counted_costs_that_and_is_an_estimate():
    cap("1")
    held = reserved().reservation
    end = {"reservation_id": held.reservation_id, "usage": Usage(300, 20), "actor": ACTOR}

    ended = resolve("settled", cost_basis="estimate", **end)

    row = ended.resolution
    assert (row.cost_basis, row.usage_missing, row.usage_odd) == ("estimate", True, False)
    assert (row.input_tokens, row.output_tokens, row.usage_sent) == (300, 20, None)
    assert 0 < row.cost < held.amount
    assert counters() == [(0, row.cost)]
    assert_books_agree()
    assert resolve("settled", cost_basis="estimate", **end).outcome == "already_recorded"
    with pytest.raises(ModelReservationStateInvalid):
        resolve("settled", **end)


def test_an_overrun_is_recorded_in_full_flagged_and_blocks_the_next():
    budget = cap("0.05")
    routed = reserved()

    ended = resolve(
        "settled",
        reservation_id=routed.reservation.reservation_id,
        usage=Usage(1000, 10_000),
        actor=ACTOR,
    )

    assert ended.resolution.overrun
    assert counters() == [(0, Decimal("0.21"))]
    assert ledger.reserve(request=another_request()).decision.reason == "BUDGET_EXHAUSTED"
    events = AuditEvent.objects.filter(subject=budget.audit_subject, action="budget.overrun")
    assert events.count() == 1
    assert_books_agree()


def test_a_call_that_was_never_started_is_released_at_no_cost():
    cap("1")
    routed = reserved()

    ended = resolve("released", reservation_id=routed.reservation.reservation_id, actor=ACTOR)

    assert (ended.resolution.cost, ended.resolution.cost_basis) == (0, "none")
    assert counters() == [(0, 0)]
    assert_books_agree()


def test_a_call_in_doubt_is_not_released():
    cap("1")
    routed = reserved()
    started = ledger.mark_in_doubt(external_request_ids=[routed.decision.external_request_id])
    [[row]] = sql.pipeline(started)
    assert row["reservation_id"] == routed.reservation.reservation_id

    with pytest.raises(ModelReservationStateInvalid):
        resolve("released", reservation_id=routed.reservation.reservation_id, actor=ACTOR)

    assert Reservation.objects.get().state == "in_doubt"
    assert counters() == [(LARGE_CALL, 0)]
    assert not Resolution.objects.exists()


def test_a_later_call_of_a_started_execution_is_in_doubt_from_its_beginning():
    routed = ledger.reserve(request=request(), started=True)

    assert routed.reservation.state == "in_doubt"


@pytest.mark.parametrize(
    ("end", "cost", "basis", "missing"),
    [
        ({"cost_basis": "none"}, "0", "none", False),
        ({"cost_basis": "estimate"}, "0.03", "estimate", True),
        ({}, "0.03", "estimate", True),
        ({"usage": Usage(100, 0)}, "0.001", "usage", False),
    ],
)
def test_a_failed_call_states_what_it_cost(end, cost, basis, missing):
    cap("1")
    routed = reserved()

    ended = resolve(
        "failed",
        reservation_id=routed.reservation.reservation_id,
        error_code="429",
        actor=ACTOR,
        **end,
    )

    assert ended.resolution.cost == Decimal(cost)
    assert (ended.resolution.cost_basis, ended.resolution.usage_missing) == (basis, missing)
    assert counters() == [(0, Decimal(cost))]
    assert_books_agree()


@pytest.mark.parametrize(
    "end",
    [
        {"ended_as": "failed", "cost_basis": "none", "usage": Usage(1, 1)},
        {"ended_as": "failed", "cost_basis": "usage"},
        {"ended_as": "failed", "cost_basis": "guess"},
        {"ended_as": "settled", "cost_basis": "none"},
        {"ended_as": "released", "usage": Usage(1, 1)},
        {"ended_as": "released", "cost_basis": "estimate"},
    ],
)
def test_an_end_that_contradicts_itself_is_refused(end):
    with pytest.raises(InvalidArgument):
        ledger.End(reservation_id=uuid7(), **end)


def test_the_same_end_again_is_the_stored_answer():
    cap("1")
    routed = reserved()
    end = {
        "reservation_id": routed.reservation.reservation_id,
        "usage": Usage(10, 10),
        "provider_response_id": "r",
        "actor": ACTOR,
    }

    first = resolve("settled", **end)
    again = resolve("settled", **end)

    assert again.outcome == "already_recorded"
    assert again.resolution.cost == first.resolution.cost
    assert counters() == [(0, first.resolution.cost)]
    assert Resolution.objects.count() == 1


@pytest.mark.parametrize(
    "other",
    [
        lambda of: resolve("settled", reservation_id=of, usage=Usage(10, 11), actor=ACTOR),
        lambda of: resolve("settled", reservation_id=of, usage=None, actor=ACTOR),
        lambda of: resolve("released", reservation_id=of, actor=ACTOR),
        lambda of: resolve("failed", reservation_id=of, actor=ACTOR),
        lambda of: resolve("failed", reservation_id=of, cost_basis="none", reason="x", actor=ACTOR),
    ],
)
def test_another_end_is_refused_and_changes_nothing(other):
    cap("1")
    routed = reserved()
    resolve(
        "settled",
        reservation_id=routed.reservation.reservation_id,
        usage=Usage(10, 10),
        actor=ACTOR,
    )
    before = counters(), Resolution.objects.values().get(), AuditEvent.objects.count()

    with pytest.raises(ModelReservationStateInvalid) as refused:
        other(routed.reservation.reservation_id)

    assert refused.value.current == {"state": "settled"}
    assert (counters(), Resolution.objects.values().get(), AuditEvent.objects.count()) == before


def test_an_unknown_reservation_is_not_found():
    with pytest.raises(NotFound):
        resolve("settled", reservation_id=uuid7(), usage=None, actor=ACTOR)


def test_a_reservation_of_another_execution_is_not_ended():
    cap("1")
    mine, other = reserved(), reserved()
    end = ledger.End(
        reservation_id=other.reservation.reservation_id,
        external_request_id=mine.decision.external_request_id,
        ended_as="released",
    )

    with pytest.raises(BindingMismatch):
        ledger.resolve(end=end, actor=ACTOR)

    assert not Resolution.objects.exists()
    assert counters() == [(2 * LARGE_CALL, 0)]


@pytest.mark.parametrize(
    ("end", "cost"),
    [
        ({"ended_as": "settled", "usage": Usage(1000, 0)}, "0.01"),
        ({"ended_as": "settled"}, "0.03"),
        ({"ended_as": "failed", "cost_basis": "none"}, "0"),
    ],
)
def test_a_call_in_doubt_ends_by_what_a_person_found_out(end, cost):
    cap("1")
    routed = ledger.reserve(request=another_request(), started=True)

    ended = resolve(
        **end,
        reservation_id=routed.reservation.reservation_id,
        actor="user:anna",
        reason="provider's log",
    )

    assert (ended.resolution.ended_as, ended.resolution.cost) == (end["ended_as"], Decimal(cost))
    assert (ended.resolution.resolved_by, ended.resolution.reason) == (
        "user:anna",
        "provider's log",
    )
    assert counters() == [(0, Decimal(cost))]
    assert_books_agree()


def test_an_attempt_that_ends_releases_what_was_never_started():
    cap("1")
    mine = reserved()
    other = reserved()
    doubtful = ledger.reserve(request=another_request(), started=True)
    attempts = [(each.decision.job_id, 1) for each in (mine, doubtful)]

    ended = ledger.end_open(attempts=attempts, actor="system:sweeper", reason="attempt ended")

    assert [each.reservation.reservation_id for each in ended] == [mine.reservation.reservation_id]
    assert dict(Reservation.objects.values_list("reservation_id", "state")) == {
        mine.reservation.reservation_id: "released",
        other.reservation.reservation_id: "held",
        doubtful.reservation.reservation_id: "in_doubt",
    }
    assert ledger.end_open(attempts=attempts, actor="system:sweeper", reason="again") == []
    assert_books_agree()


def test_a_set_of_ends_is_answered_in_order_and_one_bad_one_spoils_none():
    cap("1")
    one, two = reserved(), reserved()
    ends = [
        ledger.End(reservation_id=two.reservation.reservation_id, ended_as="settled"),
        ledger.End(reservation_id=uuid7(), ended_as="released"),
        ledger.End(reservation_id=one.reservation.reservation_id, ended_as="released"),
        ledger.End(reservation_id=two.reservation.reservation_id, ended_as="settled"),
        ledger.End(reservation_id=two.reservation.reservation_id, ended_as="released"),
    ]

    answers = ledger.resolve_all(ends=ends, actor=ACTOR)

    assert [getattr(answer, "outcome", None) or answer.reason for answer in answers] == [
        "recorded",
        "NOT_FOUND",
        "recorded",
        "already_recorded",
        "MODEL_RESERVATION_STATE_INVALID",
    ]
    assert counters() == [(0, LARGE_CALL)]
    assert_books_agree()


def test_an_end_posts_to_the_window_in_which_it_was_held():
    cap("1", window="day")
    routed = reserved()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(
            "UPDATE governance_budgetwindow SET starts_at = starts_at - interval '1 day',"
            " ends_at = ends_at - interval '1 day'"
        )
        cursor.execute("SET session_replication_role = origin")

    resolve("settled", reservation_id=routed.reservation.reservation_id, usage=None, actor=ACTOR)

    assert counters() == [(0, LARGE_CALL)]


# --- The database refuses


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE governance_reservation SET state = 'held'",
        "UPDATE governance_reservation SET state = 'settled'",
        "UPDATE governance_reservation SET state = 'in_doubt'",
        "UPDATE governance_reservation SET amount = 0",
        "DELETE FROM governance_reservation",
        "UPDATE governance_resolution SET cost = 0",
        "DELETE FROM governance_resolution",
        "TRUNCATE governance_resolution",
        "UPDATE governance_routedecision SET reason = ''",
        "DELETE FROM governance_routedecision",
        "TRUNCATE governance_reservation CASCADE",
        "DELETE FROM governance_reservationhold",
        "UPDATE governance_budgetwindow SET starts_at = now()",
        "DELETE FROM governance_budgetwindow",
        "UPDATE governance_price SET input_rate = 0",
        "DELETE FROM governance_price",
        "UPDATE governance_routepolicymodel SET position = 7",
        "UPDATE governance_routepolicy SET agent = 'other'",
        "UPDATE governance_budget SET scope = 'agent', key = 'x'",
    ],
)
def test_the_database_refuses_to_rewrite_the_books(statement):
    cap("1")
    routed = reserved()
    resolve(
        "failed", reservation_id=routed.reservation.reservation_id, cost_basis="none", actor=ACTOR
    )

    with pytest.raises(DatabaseError), transaction.atomic(), connection.cursor() as cursor:
        cursor.execute(statement)

    assert Reservation.objects.get().state == "failed"


def test_a_reservation_does_not_end_without_its_resolution():
    reserved()

    with pytest.raises(DatabaseError), transaction.atomic():
        Reservation.objects.update(state="settled")

    assert Reservation.objects.get().state == "held"


def test_the_database_does_not_release_what_is_in_doubt():
    routed = ledger.reserve(request=request(), started=True)
    resolution = {
        "reservation": routed.reservation,
        "ended_as": "released",
        "cost": 0,
        "cost_basis": "none",
        "overrun": False,
        "usage_missing": False,
        "resolved_at": clock.now(),
    }

    with pytest.raises(DatabaseError), transaction.atomic():
        Resolution.objects.create(**resolution)
        Reservation.objects.update(state="released")

    assert Reservation.objects.get().state == "in_doubt"


def test_counters_never_go_below_zero():
    cap("1")
    reserved()

    with pytest.raises(DatabaseError), transaction.atomic():
        BudgetWindow.objects.update(held=-1)


# --- Read


def test_a_dry_run_says_what_would_be_decided_and_writes_nothing():
    cap("0.02")
    asked = {
        "agent": "hermes",
        "job_type": "content_prep",
        "risk_tier": "low",
        "estimated_input_tokens": 1000,
        "max_output_tokens": 1000,
    }

    answer = ledger.dry_run(**asked)

    assert (answer["decision"], answer["model"], answer["amount"]) == ("issued", "small", "0.003")
    assert [line["outcome"] for line in answer["considered"]] == ["over_budget", "chosen"]
    assert not RouteDecision.objects.exists()
    assert counters() == [(0, 0)]
    assert ledger.dry_run(**asked | {"requirements": ["vision"]})["reason"] == "MODEL_NOT_ALLOWED"


def test_budget_bars_show_what_is_held_and_spent():
    cap("0.06", soft_cap=Decimal("0.05"))
    cap(None, scope="job", key="*", window="day")
    cap("0", scope="agent", key="openclaw")
    first, second = reserved(), reserved()
    resolve("settled", reservation_id=first.reservation.reservation_id, usage=None, actor=ACTOR)

    bars = ledger.budget_bars()

    assert [(bar.scope, bar.held, bar.spent, bar.percent, bar.level) for bar in bars[:2]] == [
        ("global", LARGE_CALL, LARGE_CALL, 100, "full"),
        ("agent", 0, 0, 100, "full"),
    ]
    assert {(bar.key, bar.held, bar.spent, bar.percent, bar.level) for bar in bars[2:]} == {
        (first.decision.task_id, 0, LARGE_CALL, None, "ok"),
        (second.decision.task_id, LARGE_CALL, 0, None, "ok"),
    }


def test_the_money_of_a_job_is_its_decisions_in_order(django_assert_num_queries):
    first = ledger.reserve(request=request())
    resolve(
        "failed", reservation_id=first.reservation.reservation_id, cost_basis="none", actor=ACTOR
    )
    ledger.reserve(request=request(call=2))
    ledger.reserve(request=request(attempt=2))
    reserved()

    with django_assert_num_queries(1):
        found = [
            (d.attempt, d.call, d.model.name, d.reservation.state)
            for d in ledger.money_of_job(job_id=first.decision.job_id)
        ]

    assert found == [
        (1, 1, "large", "failed"),
        (1, 2, "small", "held"),
        (2, 1, "large", "held"),
    ]


def test_a_reservation_takes_three_round_trips_and_an_end_two(django_assert_num_queries):
    cap("1")
    asked = another_request()

    with transaction.atomic():
        with django_assert_num_queries(3):
            routed = ledger.reserve(request=asked)
        with django_assert_num_queries(2):
            resolve(
                "settled",
                reservation_id=routed.reservation.reservation_id,
                usage=Usage(1, 1),
                actor=ACTOR,
            )


TAMPERED = [
    ("UPDATE governance_budgetwindow SET held = held + 1", "budget_window.held"),
    ("UPDATE governance_budgetwindow SET spent = spent + 1", "budget_window.spent"),
    ("UPDATE governance_reservation SET state = 'held' WHERE state = 'settled'",
     "reservation.state"),
    ("UPDATE governance_reservation SET state = 'failed' WHERE state = 'held'",
     "reservation.state"),
    ("UPDATE governance_reservation SET amount = 1 WHERE state = 'held'", "reservation.amount"),
    ("UPDATE governance_resolution SET cost = 1", "resolution.cost"),
    ("DELETE FROM governance_reservationhold; DELETE FROM governance_reservation"
     " WHERE state = 'held'", "decision.reservation"),
]  # fmt: skip


@pytest.mark.parametrize(("statement", "check"), TAMPERED)
def test_verification_finds_what_was_tampered_with(statement, check):
    cap("1")
    settled = reserved()
    resolve(
        "settled", reservation_id=settled.reservation.reservation_id, usage=Usage(1, 1), actor=ACTOR
    )
    reserved()
    assert_books_agree()
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")

    found = {difference.check for difference in ledger.verify()}

    assert check in found


def test_attempt_seven_gets_a_new_reservation_and_the_failed_one_stays_as_it_was():
    cap("1")
    sixth = ledger.reserve(request=request(attempt=6))
    resolve(
        "failed",
        reservation_id=sixth.reservation.reservation_id,
        cost_basis="none",
        error_code="overloaded",
        actor=ACTOR,
    )
    before = Reservation.objects.values().get(), Resolution.objects.values().get()

    seventh = ledger.reserve(request=request(attempt=7))
    resolve(
        "settled",
        reservation_id=seventh.reservation.reservation_id,
        usage=Usage(1000, 1000),
        actor=ACTOR,
    )

    old = {"reservation_id": sixth.reservation.reservation_id}
    assert seventh.decision.external_request_id != sixth.decision.external_request_id
    assert (
        Reservation.objects.values().get(**old),
        Resolution.objects.values().get(**old),
    ) == before
    assert before[0]["state"] == "failed"
    assert counters() == [(0, LARGE_CALL)]
    assert_books_agree()


def test_higher_rates_of_large_inputs_bound_the_estimate():
    rates = [RateSet(0, Decimal(1), Decimal(1)), RateSet(500, Decimal(5), Decimal(5))]
    catalogue.set_price(provider="local", name="large", rates=rates, **TEST)

    assert reserved().reservation.amount == Decimal("0.01")
    assert reserved(estimated_input_tokens=500).reservation.amount == Decimal("0.0015")
    assert_books_agree()


def test_windows_end_after_they_start():
    cap("1", window="day")
    reserved()

    window = BudgetWindow.objects.get()

    assert window.ends_at - window.starts_at == timedelta(days=1)
