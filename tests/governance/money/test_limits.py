"""Limits of requests, tokens and open calls: judged, metered, corrected, set."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.db import DatabaseError, IntegrityError, transaction

from governance.core.errors import InvalidArgument, InvalidTransition, NotFound
from governance.core.models import AuditEvent
from governance.money import catalogue, ledger, limiting, metering, proofs
from governance.money.limits import Limit, LimitHold, LimitMeter
from governance.money.models import RouteDecision
from governance.money.pricing import Usage
from tests.money import (
    LARGE,
    TEST,
    another_request,
    any_name,  # noqa: F401
    cap,
    catalogue_of_two,
    request,
    reserved,
    resolve,
)

pytestmark = pytest.mark.django_db

#: Tokens that a call of these tests is held at.
CALL_TOKENS = 2000
MINUTE = timedelta(minutes=1)
MINE = {"submitter": "shop", "labels": ("team=search", "tier=gold")}
COUNTING = [
    ("global", "", ""),
    ("agent", "hermes", ""),
    ("agent", "*", "hermes"),
    ("job_type", "content_prep", ""),
    ("submitter", "shop", ""),
    ("submitter", "*", "shop"),
    ("label", "team=search", ""),
    ("label", "team=*", "team=search"),
    ("model", "local/large", ""),
    ("model", "*", "local/large"),
    ("provider", "local", ""),
]
BOUNDS = [
    ({"requests_per_minute": 1}, "requests_per_minute", 60),
    ({"tokens_per_minute": CALL_TOKENS}, "tokens_per_minute", 60),
    ({"open_calls": 1}, "open_calls", metering.OPEN_WAIT_SECONDS),
]


@pytest.fixture(autouse=True)
def _catalogue(db: None, any_name: None, monkeypatch: pytest.MonkeyPatch) -> None:  # noqa: F811
    # For the meters the clock stands still: at the beginning of the test's transaction.
    for name in ("READ_METERS", "OPEN_METERS", "METERS_OF_OPEN"):
        still = getattr(metering, name).replace("clock_timestamp()", "now()")
        monkeypatch.setattr(metering, name, still)
    catalogue_of_two()
    catalogue.set_policy(models=[LARGE], **TEST)


def limit(scope: str = "global", key: str = "", **bounds: Any) -> Limit:
    return limiting.set_limit(scope=scope, key=key, **bounds, **TEST)


def ask(**over: Any) -> ledger.Routed:
    return ledger.reserve(request=another_request(**MINE | over))


def settle(routed: ledger.Routed, **over: Any) -> None:
    assert routed.reservation is not None
    of = routed.reservation.reservation_id
    resolve("settled", reservation_id=of, actor="agent:hermes", **over)


def back(by: timedelta) -> None:
    """Let so much time pass for the meters."""
    for meter in LimitMeter.objects.all():
        LimitMeter.objects.filter(pk=meter.pk).update(
            requests_until=meter.requests_until - by, tokens_until=meter.tokens_until - by
        )


# --- Judged -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "key", "counted_for"), COUNTING)
@pytest.mark.parametrize(("bounds", "name", "seconds"), BOUNDS)
def test_a_call_over_a_limit_of_its_scope_is_refused_with_its_wait(
    scope: str, key: str, counted_for: str, bounds: Any, name: str, seconds: int
) -> None:
    limit(scope, key, **bounds)
    assert ask().refusal is None

    refusal = ask().refusal

    assert refusal is not None
    assert (refusal.reason, refusal.status, refusal.retry) == ("RATE_LIMITED", 429, "defer")
    told = refusal.current["limit"]
    assert told.pop("used") == bounds[name]
    assert told == {
        "scope": scope, "key": counted_for or key, "limit": name, "max": bounds[name],
    }  # fmt: skip
    assert refusal.after_seconds == seconds
    assert [meter.counted_for for meter in LimitMeter.objects.all()] == [counted_for]


@pytest.mark.parametrize(
    ("scope", "key"),
    [("agent", "openclaw"), ("label", "team=ads"), ("model", "local/small"), ("label", "x=*")],
)
def test_a_limit_counts_no_call_of_another_scope(scope: str, key: str) -> None:
    limit(scope, key, requests_per_minute=1)

    assert [ask().refusal for _ in range(2)] == [None, None]


@pytest.mark.parametrize(("bounds", "name", "seconds"), BOUNDS[:2])
def test_there_is_room_again_after_the_wait_and_not_before(
    bounds: Any, name: str, seconds: int
) -> None:
    limit(**bounds)
    ask()

    back(timedelta(seconds=30))
    refusal = ask().refusal
    assert refusal is not None and refusal.after_seconds == 30
    back(timedelta(seconds=30))
    assert ask().refusal is None


def test_a_minute_takes_its_rate_at_once_and_then_one_after_the_other() -> None:
    limit(requests_per_minute=3)

    assert [ask().refusal is None for _ in range(4)] == [True, True, True, False]
    back(timedelta(seconds=20))
    assert [ask().refusal is None for _ in range(2)] == [True, False]


def test_a_call_larger_than_a_minutes_tokens_is_let_through_alone_and_paid_off() -> None:
    limit(tokens_per_minute=CALL_TOKENS // 4)

    assert ask().refusal is None

    refusal = ask().refusal
    assert refusal is not None and refusal.after_seconds == 240
    back(timedelta(minutes=4))
    assert ask().refusal is None


def test_the_next_model_is_taken_where_one_is_limited() -> None:
    catalogue.set_policy(models=[LARGE, ("local", "small")], **TEST)
    budget = cap("1")
    limit("model", "local/large", requests_per_minute=1)

    routed = [ask() for _ in range(2)]

    assert [each.model for each in routed] == ["large", "small"]
    assert [line["outcome"] for line in routed[1].decision.considered] == ["over_limit", "chosen"]
    assert routed[1].decision.considered[0]["limits"][0]["limit"] == "requests_per_minute"
    held = sum(each.reservation.amount for each in routed if each.reservation)
    assert budget.windows.get().held == held
    assert list(ledger.verify()) == []


def test_the_wait_is_that_of_the_model_that_is_free_first() -> None:
    catalogue.set_policy(models=[LARGE, ("local", "small")], **TEST)
    limit("model", "local/large", requests_per_minute=1)
    limit("model", "local/small", requests_per_minute=2)
    for _ in range(3):
        assert ask().refusal is None

    refusal = ask().refusal

    assert refusal is not None and refusal.after_seconds == 30
    assert refusal.current["limit"]["key"] == "local/small"


def test_a_refusal_holds_nothing_anywhere() -> None:
    budget = cap("1")
    limit(requests_per_minute=1)
    ask()
    held, meter = budget.windows.get().held, LimitMeter.objects.get()

    ask()

    assert budget.windows.get().held == held
    assert LimitMeter.objects.get().requests_until == meter.requests_until
    assert LimitHold.objects.count() == 1


def test_a_refusal_is_one_row_and_uses_nothing_up() -> None:
    limit(requests_per_minute=1)
    ask()
    asked = request(task_id="task-9")

    for _ in range(3):
        assert ledger.reserve(request=asked).refusal is not None
    assert RouteDecision.objects.filter(task_id="task-9").count() == 1
    back(MINUTE)

    assert ledger.reserve(request=asked).refusal is None
    assert ledger.reserve(request=asked).replayed


def test_a_dry_run_judges_limits_and_meters_nothing() -> None:
    limit("label", "team=search", requests_per_minute=1)
    asked = {
        "agent": "hermes",
        "job_type": "content_prep",
        "risk_tier": "low",
        "estimated_input_tokens": 1000,
        "max_output_tokens": 1000,
        "labels": ["team=search"],
    }
    assert ledger.dry_run(**asked)["decision"] == "issued"
    ask()

    answer = ledger.dry_run(**asked)

    assert (answer["reason"], answer["considered"][0]["outcome"]) == ("RATE_LIMITED", "over_limit")


# --- At the end of a call ---------------------------------------------------------------------


@pytest.mark.parametrize("end", ["settled", "released", "failed"])
def test_an_end_frees_an_open_call(end: str) -> None:
    limit(open_calls=1)
    routed = ask()
    assert ask().refusal is not None and routed.reservation is not None

    resolve(end, reservation_id=routed.reservation.reservation_id, actor="agent:hermes")

    assert not LimitHold.objects.exists()
    assert ask().refusal is None


@pytest.mark.parametrize(
    ("usage", "tokens"),
    [(Usage(500, 500), 1000), (Usage(3000, 3000), 6000), (None, CALL_TOKENS)],
    ids=["fewer", "more", "unknown"],
)
def test_tokens_are_corrected_at_settlement(usage: Usage | None, tokens: int) -> None:
    limit(tokens_per_minute=60 * CALL_TOKENS)
    routed = ask()
    before = LimitMeter.objects.get().tokens_until

    settle(routed, usage=usage)

    corrected = LimitMeter.objects.get().tokens_until - before
    assert corrected == timedelta(seconds=(tokens - CALL_TOKENS) / CALL_TOKENS)


def test_what_was_never_started_gives_its_tokens_back() -> None:
    limit(tokens_per_minute=60 * CALL_TOKENS)
    routed = ask()
    before = LimitMeter.objects.get().tokens_until
    assert routed.reservation is not None

    resolve("released", reservation_id=routed.reservation.reservation_id, actor="agent:hermes")

    assert LimitMeter.objects.get().tokens_until - before == -timedelta(seconds=1)


def test_a_hold_that_outlives_its_call_is_found() -> None:
    limit(open_calls=2)
    routed = ask()
    meter = LimitMeter.objects.get()
    settle(routed)
    assert list(ledger.verify()) == [] and routed.reservation is not None

    LimitHold.objects.create(reservation=routed.reservation, meter=meter, tokens=0)

    assert [found.check for found in ledger.verify()] == ["limit_hold.open"]


# --- Set --------------------------------------------------------------------------------------


@pytest.mark.parametrize(("scope", "key", "counted_for"), [
    each for each in COUNTING if each[0] not in ("submitter", "label")
])  # fmt: skip
def test_a_new_limit_counts_what_is_open(scope: str, key: str, counted_for: str) -> None:
    routed = reserved()

    limit(scope, key, open_calls=1, tokens_per_minute=CALL_TOKENS * 60)

    refusal = ask().refusal
    assert refusal is not None and refusal.current["limit"]["limit"] == "open_calls"
    before = LimitMeter.objects.get(counted_for=counted_for).tokens_until
    settle(routed, usage=Usage(1, 1))
    # What was not metered is not corrected.
    assert LimitMeter.objects.get(counted_for=counted_for).tokens_until == before
    assert ask().refusal is None


def test_a_disabled_limit_lets_everything_through_and_counts_what_is_open_once_enabled() -> None:
    row = limit(open_calls=1)
    limiting.switch_limit(limit_id=row.pk, enabled=False, **TEST)
    assert [ask().refusal for _ in range(2)] == [None, None]

    limiting.switch_limit(limit_id=row.pk, enabled=True, **TEST)

    assert LimitHold.objects.count() == 2
    assert ask().refusal is not None


def test_only_the_bounds_that_are_given_change() -> None:
    row = limit(requests_per_minute=5, open_calls=2)

    changed = limiting.change_limit(
        limit_id=row.pk, bounds={"open_calls": None, "tokens_per_minute": 7}, **TEST
    )

    bounds = [getattr(changed, name) for name in Limit.BOUNDS]
    assert bounds == [5, 7, None]
    event = AuditEvent.objects.filter(subject=row.audit_subject).latest("seq")
    assert event.action == "limit.changed"
    assert list(proofs.verify()) == []


@pytest.mark.parametrize(
    "terms",
    [
        {"scope": "team", "open_calls": 1},
        {"scope": "global", "key": "x", "open_calls": 1},
        {"scope": "agent", "open_calls": 1},
        {"scope": "label", "key": "team", "open_calls": 1},
        {"scope": "model", "key": "local/huge", "open_calls": 1},
        {"scope": "global"},
        {"scope": "global", "open_calls": 0},
        {"scope": "global", "requests_per_minute": 10**7},
    ],
)
def test_a_malformed_limit_is_refused(terms: Any) -> None:
    with pytest.raises(InvalidArgument):
        limiting.set_limit(**terms, **TEST)

    assert not Limit.objects.exists()


def test_no_bound_may_be_left() -> None:
    row = limit(open_calls=1)

    with pytest.raises(InvalidArgument):
        limiting.change_limit(limit_id=row.pk, bounds={"open_calls": None}, **TEST)


def test_what_is_so_already_is_not_switched_and_what_is_not_there_not_found() -> None:
    row = limit(open_calls=1)

    with pytest.raises(InvalidTransition):
        limiting.switch_limit(limit_id=row.pk, enabled=True, **TEST)
    with pytest.raises(NotFound):
        limiting.switch_limit(limit_id=row.pk + 1, enabled=True, **TEST)


def test_a_limit_that_is_set_again_is_changed() -> None:
    row = limit(open_calls=1)

    assert limit(requests_per_minute=3).pk == row.pk
    row.refresh_from_db()
    assert (row.open_calls, row.requests_per_minute) == (None, 3)


def test_the_database_keeps_what_a_limit_is() -> None:
    row = limit(open_calls=1)

    with pytest.raises(IntegrityError, match="limit_bounds_something"), transaction.atomic():
        Limit.objects.create(scope="agent", key="hermes")
    with pytest.raises(DatabaseError, match="keeps its scope and key"), transaction.atomic():
        Limit.objects.filter(pk=row.pk).update(key="x", scope="agent")
    with pytest.raises(DatabaseError), transaction.atomic():
        Limit.objects.filter(pk=row.pk).delete()
