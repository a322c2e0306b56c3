"""Complete prices in the books: what is held and settled by them, and usage that is odd."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import IntegrityError, connection, transaction
from genai_prices import data_snapshot
from genai_prices.types import (
    ClauseEquals,
    ConditionalPrice,
    ModelInfo,
    ModelPrice,
    PriceVariant,
    Provider,
    StartDateConstraint,
)

from governance.core import clock
from governance.core.errors import InvalidArgument, ModelReservationStateInvalid
from governance.core.models import AuditEvent
from governance.money import catalogue, ledger
from governance.money.models import LanguageModel, Price, PriceTier, Resolution
from governance.money.pricing import RateSet, Usage, read_usage
from tests.money import (
    LARGE,
    LARGE_CALL,
    SMALL,
    TEST,
    another_request,
    cap,
    catalogue_of_two,
    reserved,
    resolve,
)

pytestmark = pytest.mark.django_db
ACTOR = "agent:hermes"
PUBLISHED = ("acme", "thinker")
MILLION = 1_000_000


def assert_books_agree() -> None:
    assert list(ledger.verify()) == []


def settle(of: UUID, usage: Any, **more: Any) -> Resolution:
    usage = usage if isinstance(usage, Usage) else read_usage(usage)
    return resolve("settled", reservation_id=of, usage=usage, actor=ACTOR, **more).resolution


def listing(
    monkeypatch: pytest.MonkeyPatch,
    prices: ModelPrice | list[ConditionalPrice],
    *,
    version: str = "1.2.0",
    variants: list[PriceVariant] | None = None,
) -> None:
    """Let the installed list be of one model."""
    info = ModelInfo(
        id=PUBLISHED[1],
        match=ClauseEquals(equals=PUBLISHED[1]),
        prices=prices,
        price_variants=variants,
    )
    provider = Provider(id=PUBLISHED[0], name="Acme", api_pattern="-", models=[info])
    snapshot = data_snapshot.DataSnapshot([provider], from_auto_update=False)
    monkeypatch.setattr(data_snapshot, "_custom_snapshot", snapshot)
    monkeypatch.setattr(catalogue, "package_version", lambda name: version)


def rates(input_rate: str, output_rate: str = "0", **more: str) -> ModelPrice:
    named = {name: Decimal(rate) for name, rate in more.items()}
    return ModelPrice(input_mtok=Decimal(input_rate), output_mtok=Decimal(output_rate), **named)


def sync() -> None:
    catalogue.set_model(provider=PUBLISHED[0], name=PUBLISHED[1], **TEST)
    catalogue.sync_prices(**TEST)
    catalogue.set_policy(models=[PUBLISHED], **TEST)


def a_million(**over: Any) -> ledger.Routed:
    return reserved(estimated_input_tokens=MILLION, max_output_tokens=0, **over)


def the_reservation(routed: ledger.Routed) -> UUID:
    assert routed.reservation is not None
    return routed.reservation.reservation_id


def test_every_counter_is_kept_and_the_cost_of_each(monkeypatch: pytest.MonkeyPatch) -> None:
    listing(
        monkeypatch,
        rates(
            "1", "5", cache_read_mtok="0.1", cache_write_mtok="1.25", cache_write_1h_mtok="2",
            web_searches_kcount="10",
        ),
    )  # fmt: skip
    sync()
    cap("10")
    of = a_million(requirements=("tool=web_search", "searches=2"))
    assert of.reservation.amount == Decimal("2.10192")

    end = settle(
        the_reservation(of),
        {
            "input_tokens": 1000, "cached_input_tokens": 100, "cache_write_tokens": 600,
            "cache_write_1h_tokens": 200, "output_tokens": 10, "searches": 2,
        },
    )  # fmt: skip

    end.refresh_from_db()
    kept = (end.cache_write_tokens, end.cache_write_1h_tokens, end.searches)
    assert kept == (600, 200, 2)
    assert end.cost_split == {
        "input_tokens": "0.0003",
        "cached_input_tokens": "0.00001",
        "cache_write_tokens": "0.0005",
        "cache_write_1h_tokens": "0.0004",
        "output_tokens": "0.00005",
        "searches": "0.02",
    }
    assert (end.cost, end.cost_basis, end.flags) == (Decimal("0.02126"), "usage", [])
    assert_books_agree()


def test_a_settlement_takes_the_tier_that_the_answer_names(monkeypatch: pytest.MonkeyPatch) -> None:
    listing(
        monkeypatch,
        rates("2"),
        variants=[
            PriceVariant({"service_tier": "priority"}, rates("4")),
            PriceVariant({"service_tier": "flex"}, rates("1")),
        ],
    )
    sync()
    cap("100")
    first, second, asked = a_million(), a_million(), a_million(requirements=("service_tier=flex",))
    counts = {"input_tokens": MILLION, "output_tokens": 0}

    held = [each.reservation.amount for each in (first, second, asked)]
    costs = [
        settle(the_reservation(first), counts).cost,
        settle(the_reservation(second), counts | {"service_tier": "priority"}).cost,
        settle(the_reservation(asked), counts).cost,
    ]

    assert (held, costs) == ([4, 4, 1], [2, 4, 1])
    assert_books_agree()


def test_a_call_costs_what_it_did_when_it_was_reserved(monkeypatch: pytest.MonkeyPatch) -> None:
    """A price that begins tomorrow is in the row of today, and applies tomorrow alone."""
    tomorrow = (clock.now() + timedelta(days=1)).date()
    steps = [
        ConditionalPrice(prices=rates("2")),
        ConditionalPrice(StartDateConstraint(tomorrow), prices=rates("5")),
    ]
    listing(monkeypatch, steps)
    sync()
    today = a_million()
    now = clock.now() + timedelta(days=1)
    monkeypatch.setattr("governance.money.routes.READ_CLOCK", f"SELECT '{now}'::timestamptz AS now")

    later = a_million()

    assert (today.reservation.amount, later.reservation.amount) == (2, 5)
    counts = {"input_tokens": MILLION, "output_tokens": 0}
    assert settle(the_reservation(today), counts).cost == 2
    assert settle(the_reservation(later), counts).cost == 5
    assert_books_agree()


def test_rows_are_verified_by_the_price_of_their_time(monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, rates("2", "3"))
    sync()
    of = reserved()
    settle(the_reservation(of), Usage(900, 800))
    listing(monkeypatch, rates("7", "9"), version="1.3.0")
    catalogue.sync_prices(**TEST)
    settle(the_reservation(reserved()), Usage(900, 800))

    assert_books_agree()
    monkeypatch.setattr(data_snapshot, "get_snapshot", lambda: {}["no list is asked"])
    assert_books_agree()


THINKER = " WHERE document ->> 'model' = 'thinker'"
TAMPERED = [
    (
        "UPDATE governance_resolution SET cost_split = jsonb_build_object('input_tokens', '9')",
        "resolution.cost_split",
    ),
    ("UPDATE governance_resolution SET cache_write_tokens = 500", "resolution.cost"),
    (
        "UPDATE governance_price SET"
        " document = jsonb_set(document, '{prices,input_mtok}', '\"9\"')" + THINKER,
        "reservation.amount",
    ),
    (
        "UPDATE governance_price SET"
        " document = jsonb_set(document, '{prices,thoughts}', '\"9\"')" + THINKER,
        "price.document",
    ),
]


@pytest.mark.parametrize(("statement", "check"), TAMPERED)
def test_verification_finds_another_count_split_or_price(
    monkeypatch: pytest.MonkeyPatch, statement: str, check: str
) -> None:
    listing(monkeypatch, rates("2", "3", cache_write_mtok="4"))
    sync()
    settle(the_reservation(reserved()), Usage(900, 800))
    assert_books_agree()

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")

    assert check in {difference.check for difference in ledger.verify()}


ODD = [
    {"input_tokens": -1, "output_tokens": 5},
    {"input_tokens": "9", "output_tokens": 5},
    {"input_tokens": 5, "output_tokens": 5, "cached_input_tokens": 6},
    {"input_tokens": 10**10, "output_tokens": 1},
    {"output_tokens": 5},
    {"input_tokens": 5},
    {"input_tokens": 5, "output_tokens": 5, "thoughts": 8},
    ["5", 5],
    "many",
    {},
]


@pytest.mark.parametrize("sent", ODD)
def test_odd_usage_is_kept_flagged_and_settled_at_the_estimate(sent: Any) -> None:
    catalogue_of_two()
    cap("1")
    of = reserved()

    end = settle(the_reservation(of), sent)

    end.refresh_from_db()
    assert (end.cost, end.cost_basis) == (LARGE_CALL, "estimate")
    assert (end.flags, end.cost_split) == (["usage_missing", "usage_odd"], None)
    kept = end.usage_sent
    if sent == {"input_tokens": 5}:
        # It would be a usage of a model without output.
        assert (kept["input_tokens"], kept["output_stated"]) == (5, False)
    else:
        assert kept == sent
    assert_books_agree()


def test_the_same_odd_usage_again_is_the_stored_end_and_another_is_not() -> None:
    catalogue_of_two()
    of = the_reservation(reserved())
    odd = read_usage({"input_tokens": -1})
    end = {"reservation_id": of, "usage": odd, "actor": ACTOR}
    resolve("settled", **end)

    assert resolve("settled", **end).outcome == "already_recorded"
    with pytest.raises(ModelReservationStateInvalid):
        resolve("settled", **end | {"usage": read_usage({"input_tokens": -2})})
    assert Resolution.objects.count() == 1


def test_odd_usage_of_a_failed_call_is_not_free() -> None:
    catalogue_of_two()
    odd = read_usage({"input_tokens": -1})

    with pytest.raises(InvalidArgument):
        ledger.End(
            reservation_id=the_reservation(reserved()),
            ended_as="failed",
            usage=odd,
            cost_basis="none",
        )
    end = resolve("failed", reservation_id=the_reservation(reserved()), usage=odd, actor=ACTOR)
    assert end.resolution.cost == LARGE_CALL


def test_a_counter_without_a_rate_costs_the_estimate_and_no_less_than_what_has_one() -> None:
    catalogue_of_two()
    small, large = reserved(), reserved()

    ends = [
        settle(the_reservation(small), Usage(10, 10, searches=2)),
        settle(the_reservation(large), Usage(10_000, 10_000, searches=2)),
    ]

    assert [end.cost for end in ends] == [LARGE_CALL, 10 * LARGE_CALL]
    assert [end.cost_basis for end in ends] == ["estimate", "estimate"]
    assert [end.overrun for end in ends] == [False, True]
    assert all(end.usage_odd and end.searches == 2 for end in ends)
    assert_books_agree()


def test_a_request_whose_tool_has_no_rate_goes_to_the_next_model_or_is_refused() -> None:
    catalogue_of_two()
    base = RateSet(0, Decimal(1), Decimal(2))
    catalogue.set_price(
        provider=SMALL[0], name=SMALL[1], rates=[base], search_rate=Decimal(10), **TEST
    )

    searching = reserved(requirements=("tools", "tool=web_search", "searches=5"))
    refused = ledger.reserve(request=another_request(requirements=("tool=file_search",)))

    assert searching.model == SMALL[1]
    assert searching.decision.considered[0]["outcome"] == "unpriced"
    assert searching.reservation.amount == Decimal("0.003") + Decimal("0.05")
    assert refused.decision.reason == "MODEL_UNPRICED"
    assert reserved().model == LARGE[1]
    assert_books_agree()


def test_a_model_without_a_rate_for_output_is_for_input(monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, ModelPrice(input_mtok=Decimal(2)))
    sync()
    of = a_million()

    end = settle(the_reservation(of), {"input_tokens": 500_000})

    assert (of.reservation.amount, end.cost, end.flags) == (2, 1, [])
    assert Price.objects.get(model__name=PUBLISHED[1]).output_rate is None
    assert_books_agree()


def price_of_the_first_release(name: str = LARGE[1], **more: Any) -> Price:
    """Put in force what the first release would have: columns and tiers, and no document."""
    row = Price.objects.create(
        model=LanguageModel.objects.get(name=name),
        source="override",
        version="override of before",
        starts_at=clock.now(),
        input_rate=Decimal(3),
        cached_input_rate=Decimal("0.3"),
        output_rate=Decimal(15),
        call_rate=Decimal("0.001"),
        **more,
    )
    PriceTier.objects.create(
        price=row, above_input_tokens=500, input_rate=Decimal(6), output_rate=Decimal(20)
    )
    return row


def test_prices_of_the_first_release_go_on_and_their_rows_agree() -> None:
    catalogue_of_two()
    row = price_of_the_first_release()

    below, above = reserved(estimated_input_tokens=400), reserved()
    ends = [
        settle(the_reservation(below), Usage(400, 100, 200)),
        settle(the_reservation(above), Usage(1000, 100, 200, 50)),
    ]

    assert below.decision.price_id == row.pk
    assert below.reservation.amount == Decimal("0.0172")
    assert above.reservation.amount == Decimal("0.027")
    assert [end.cost for end in ends] == [Decimal("0.00316"), Decimal("0.009")]
    assert_books_agree()


def test_the_database_keeps_no_count_below_nothing_and_no_odd_usage_as_exact() -> None:
    catalogue_of_two()
    settle(the_reservation(reserved()), Usage(1, 1))
    row = Resolution.objects.values().get()
    for over in ({"searches": -1}, {"usage_odd": True}):
        of = the_reservation(reserved())
        with pytest.raises(IntegrityError), transaction.atomic():
            Resolution.objects.create(**row | {"reservation_id": of} | over)


def in_force() -> list[str]:
    return list(
        Price.objects.filter(model__name=PUBLISHED[1])
        .order_by("pk")
        .values_list("version", flat=True)
    )


def test_the_sweeper_takes_a_newer_list_and_never_an_older_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    by = {"actor": "system:sweeper", "reason": "newer"}
    listing(monkeypatch, rates("2"), version="1.9.0")
    catalogue.set_model(provider=PUBLISHED[0], name=PUBLISHED[1], **TEST)
    assert catalogue.take_newer_list(**by) is None
    catalogue.sync_prices(**TEST)
    assert catalogue.take_newer_list(**by) is None

    listing(monkeypatch, rates("1"), version="1.8.9")
    assert catalogue.take_newer_list(**by) is None
    listing(monkeypatch, rates("3"), version="1.10.0")
    taken = catalogue.take_newer_list(**by)

    assert taken is not None
    assert taken.priced == ["acme/thinker"]
    assert in_force() == ["genai-prices 1.9.0", "genai-prices 1.10.0"]
    event = AuditEvent.objects.filter(subject="model:acme/thinker").order_by("-seq").first()
    assert event is not None
    assert (event.actor, event.action) == ("system:sweeper", "model.priced")
    assert catalogue.take_newer_list(**by) is None


def test_a_list_that_an_earlier_release_kept_in_part_is_taken_whole(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listing(monkeypatch, rates("3", "15", cache_write_mtok="4"), version="1.0.0")
    catalogue.set_model(provider=PUBLISHED[0], name=PUBLISHED[1], **TEST)
    Price.objects.create(
        model=LanguageModel.objects.get(name=PUBLISHED[1]),
        source="genai-prices",
        version="genai-prices 1.0.0",
        starts_at=datetime(2026, 1, 1, tzinfo=UTC),
        input_rate=Decimal(3),
        output_rate=Decimal(15),
    )
    by = {"actor": "system:sweeper", "reason": "whole"}

    assert catalogue.take_newer_list(**by) is not None
    assert catalogue.take_newer_list(**by) is None

    row = Price.objects.filter(model__name=PUBLISHED[1]).latest("pk")
    assert row.document["prices"]["cache_write_mtok"] == "4"


def test_a_model_whose_calls_cost_what_nobody_counts_loses_its_published_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listing(monkeypatch, rates("2", "3"))
    sync()
    before = settle(the_reservation(reserved()), Usage(1, 1)).cost
    listing(monkeypatch, rates("2", "3", output_image_mtok="30"), version="1.2.1")

    report = catalogue.sync_prices(**TEST)
    again = catalogue.sync_prices(**TEST)

    assert report.unknown == again.unknown == ["acme/thinker"]
    refused = ledger.reserve(request=another_request())
    assert refused.decision.reason == "MODEL_UNPRICED"
    [ended] = AuditEvent.objects.filter(subject="model:acme/thinker", action="model.price_ended")
    assert "output_image_mtok" in ended.reason
    assert before == Decimal("0.000005")
    assert_books_agree()


def test_a_model_that_the_list_does_not_know_any_more_keeps_its_price(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    listing(monkeypatch, rates("2", "3"))
    sync()
    monkeypatch.setattr(data_snapshot, "_custom_snapshot", data_snapshot.DataSnapshot([], False))

    assert catalogue.sync_prices(**TEST).unknown == ["acme/thinker"]
    assert reserved().reservation is not None


def test_a_published_price_is_audited_by_its_digest(monkeypatch: pytest.MonkeyPatch) -> None:
    listing(monkeypatch, rates("2", "3"))
    sync()

    event = AuditEvent.objects.get(subject="model:acme/thinker", action="model.priced")
    after = json.loads(bytes(event.body))["after"]

    assert after["rates"] == [
        {"above_input_tokens": 0, "input_rate": "2.00", "output_rate": "3.00"}
    ]
    assert len(after["document_sha256"]) == 64


@pytest.mark.parametrize(
    "over",
    [
        {"cache_write_1h": Decimal(2)},
        {"output": None, "reasoning": Decimal(3)},
        {"cache_write": Decimal("NaN")},
    ],
)
def test_an_override_that_the_library_cannot_compute_by_is_refused(over: Any) -> None:
    catalogue_of_two()
    before = Price.objects.count()
    stated = {"above_input_tokens": 0, "input": Decimal(1), "output": Decimal(2)} | over

    with pytest.raises(InvalidArgument):
        catalogue.set_price(provider=LARGE[0], name=LARGE[1], rates=[RateSet(**stated)], **TEST)

    assert Price.objects.count() == before
