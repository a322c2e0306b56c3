"""Which model a program gets: the one that it wants, over its API, and another one on a failure."""

from __future__ import annotations

from typing import Any

import pytest

from governance.core.errors import BindingMismatch, InvalidArgument, ModelReservationStateInvalid
from governance.money import catalogue, ledger
from governance.money.models import LanguageModel, RouteDecision
from tests.money import SMALL, TEST, cap, catalogue_of_two, price, request, reserved, resolve

pytestmark = pytest.mark.django_db

#: At 1 and 2 USD per million, like `small`; after `large` and `small` in the policy.
CLAUDE = ("anthropic", "claude")


@pytest.fixture(autouse=True)
def models() -> None:
    catalogue_of_two()
    catalogue.set_model(provider=CLAUDE[0], name=CLAUDE[1], **TEST)
    price(CLAUDE, input_rate="1", output_rate="2")
    catalogue.set_policy(models=[("local", "large"), SMALL, CLAUDE], **TEST)


def taken(**asked: Any) -> tuple[str, str]:
    routed = reserved(**asked)
    assert list(ledger.verify()) == []
    return routed.provider, routed.model


def refusal(**asked: Any) -> Any:
    found = ledger.reserve(request=request(**asked)).refusal
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("asked", "model"),
    [
        ({}, "large"),
        ({"wanted_model": "small"}, "small"),
        ({"wanted_model": "local/small"}, "small"),
        ({"wanted_model": "claude"}, "claude"),
        ({"wanted_model": "gpt-unheard-of"}, "large"),
        ({"wanted_model": "sm"}, "large"),
        ({"api": "openai"}, "large"),
        ({"api": "anthropic"}, "claude"),
        ({"api": "anthropic", "wanted_model": "small"}, "claude"),
    ],
)
def test_what_is_wanted_is_taken_where_the_api_and_the_policy_let_it(
    asked: dict[str, str], model: str
) -> None:
    assert taken(**asked)[1] == model


def test_what_is_wanted_and_has_no_room_gives_way_to_the_first_that_has() -> None:
    cap("0.02")
    assert taken(wanted_model="large") == SMALL


def test_a_disabled_model_is_not_taken_because_it_is_wanted() -> None:
    model = LanguageModel.objects.get(name="small")
    catalogue.switch_model(model_id=model.pk, enabled=False, **TEST)
    assert taken(wanted_model="small") == ("local", "large")


def test_a_policy_without_a_model_of_the_api_refuses_and_says_so() -> None:
    catalogue.set_policy(models=[SMALL], **TEST)
    found = refusal(api="anthropic")
    assert (found.reason, found.retry) == ("MODEL_NOT_ALLOWED", "stop")
    assert "API" in found.detail
    assert RouteDecision.objects.get().considered[0]["outcome"] == "other_api"


def test_a_policy_whose_models_of_the_api_are_turned_off_is_waited_for() -> None:
    model = LanguageModel.objects.get(name="claude")
    catalogue.switch_model(model_id=model.pk, enabled=False, **TEST)
    assert refusal(api="anthropic").retry == "defer"


def test_an_unknown_api_is_refused() -> None:
    with pytest.raises(InvalidArgument) as refused:
        request(api="gemini")
    assert [fault.pointer for fault in refused.value.errors] == ["/api"]


# --- the API of a model ----------------------------------------------------------------------


def api_of(name: str) -> str:
    return LanguageModel.objects.get(name=name).api


def test_a_model_has_the_api_of_its_provider_until_somebody_says_another() -> None:
    assert (api_of("small"), api_of("claude")) == ("openai", "anthropic")
    catalogue.set_model(provider="local", name="small", api="anthropic", **TEST)
    assert api_of("small") == "anthropic"
    catalogue.set_model(provider="local", name="small", context_tokens_max=9, **TEST)
    assert api_of("small") == "anthropic"


def test_a_model_has_no_other_api() -> None:
    with pytest.raises(InvalidArgument) as refused:
        catalogue.set_model(provider="local", name="small", api="grpc", **TEST)
    assert [fault.pointer for fault in refused.value.errors] == ["/api"]


# --- fallback --------------------------------------------------------------------------------


def call(number: int, **asked: Any) -> ledger.Routed:
    return ledger.reserve(request=request(call=number, **asked))


def failed(routed: ledger.Routed) -> str:
    """End a call as failed, and return the id that its fallback names."""
    assert routed.reservation is not None
    resolve("failed", reservation_id=routed.reservation.reservation_id, actor="agent:hermes")
    return routed.decision.route_request_id


def test_a_fallback_leaves_out_the_models_that_failed_in_its_chain() -> None:
    first = failed(call(1, api="openai"))
    second = call(2, api="openai", fallback_of=first)
    third = call(3, api="openai", fallback_of=failed(second))

    assert (second.model, second.decision.fallback_of) == ("small", 1)
    assert third.refusal is not None and third.refusal.reason == "MODEL_NOT_ALLOWED"
    assert [line["outcome"] for line in third.decision.considered] == [
        "failed_before",
        "failed_before",
        "other_api",
    ]


def test_a_call_of_its_own_takes_a_model_that_failed_in_another() -> None:
    failed(call(1, api="openai"))
    assert call(2, api="openai").model == "large"


def test_a_fallback_leaves_out_nothing_that_failed_beside_its_chain() -> None:
    first = failed(call(1, api="openai"))
    failed(call(2, api="openai", wanted_model="small"))
    assert call(3, api="openai", fallback_of=first).model == "small"


def test_a_fallback_of_an_older_worker_leaves_out_all_that_failed() -> None:
    failed(call(1))
    assert call(2).model == "small"


@pytest.mark.parametrize("end", [None, "settled", "released"])
def test_only_a_failed_call_is_fallen_back_from(end: str | None) -> None:
    first = call(1)
    if end and first.reservation is not None:
        resolve(end, reservation_id=first.reservation.reservation_id, actor="agent:hermes")
    with pytest.raises(ModelReservationStateInvalid):
        call(2, fallback_of=first.decision.route_request_id)
    assert RouteDecision.objects.count() == 1


def test_a_fallback_of_another_attempt_is_refused() -> None:
    failed(call(1))
    of_another = request(attempt=2).route_request_id
    with pytest.raises(BindingMismatch):
        call(2, fallback_of=of_another)


@pytest.mark.parametrize("name", ["wanted_model", "api", "fallback_of"])
def test_what_is_asked_for_makes_the_request(name: str) -> None:
    asked = request(**{name: "anthropic"})
    assert asked.content_sha256 != request().content_sha256


KEPT = ("content=at_provider",)


@pytest.fixture
def known_contexts() -> None:
    LanguageModel.objects.update(context_tokens_max=1_000_000, output_tokens_max=100_000)


@pytest.mark.usefixtures("known_contexts")
@pytest.mark.parametrize(
    ("asked", "model"),
    [
        ({"wanted_model": "claude"}, "claude"),
        ({"wanted_model": "small"}, "small"),
        # One provider has all that may be called over this API.
        ({"wanted_model": "gpt-unheard-of", "api": "anthropic"}, "claude"),
        ({"api": "openai"}, "large"),
    ],
)
def test_what_a_provider_keeps_is_gone_on_from_there(asked: dict[str, Any], model: str) -> None:
    assert taken(requirements=KEPT, **asked)[1] == model


@pytest.mark.usefixtures("known_contexts")
def test_what_a_provider_keeps_gives_way_to_no_other_provider() -> None:
    cap("0.0000001")
    found = refusal(wanted_model="claude", requirements=KEPT)
    assert found.reason == "BUDGET_EXHAUSTED"
    outcomes = {
        each["provider"]: each["outcome"] for each in RouteDecision.objects.get().considered
    }
    assert outcomes == {"local": "other_provider", "anthropic": "over_budget"}


@pytest.mark.usefixtures("known_contexts")
def test_nobody_knows_whose_it_is_where_the_wanted_model_is_not_allowed() -> None:
    found = refusal(wanted_model="gpt-unheard-of", requirements=KEPT)
    assert (found.reason, found.retry) == ("MODEL_NOT_ALLOWED", "stop")
    assert "keeps" in found.detail


def test_what_a_provider_keeps_is_of_unknown_size() -> None:
    assert "context_tokens_max" in refusal(wanted_model="claude", requirements=KEPT).detail
