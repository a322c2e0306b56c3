"""Requests that go on from what a provider keeps go to that provider, and to no other one."""

from collections.abc import Callable

from fencepost_worker.gateway.origins import RESPONSES_MAX, Origin, Origins
from fencepost_worker.testing import StandInProvider
from tests.worker.gateway.conftest import Table

MODELS = (
    {"position": 1, "provider": "openai", "model": "large", "api": "openai"},
    {"position": 2, "provider": "azure", "model": "mini", "api": "openai"},
)
RESPONSES = "/v1/responses"
#: The id of the stand-in's answers.
MADE = "resp_stand-in"


def seat_of(table: Callable[..., Table], provider: StandInProvider) -> Table:
    azure = {"api": "openai", "base_url": provider.base_url_openai, "api_key_file": "key"}
    seat = table(models=MODELS, providers={"azure": azure})
    seat.books.models = MODELS
    return seat


def test_a_response_is_gone_on_from_at_who_made_it(
    table: Callable[..., Table], provider: StandInProvider
) -> None:
    seat = seat_of(table, provider)
    for streamed in (False, True):
        first = {"model": "mini", "input": "one", "stream": streamed}
        assert seat.ask(RESPONSES, json=first).is_success
        further = {"model": "large", "input": "two", "previous_response_id": MADE}
        assert seat.ask(RESPONSES, json=further).is_success

    asked = [call.asked for call in seat.books.calls]
    assert [each["wanted_model"] for each in asked] == ["mini", "azure/mini"] * 2
    assert "content=at_provider" in asked[1]["requirements"]
    assert [r.json["model"] for r in seat.provider.requests] == ["mini"] * 4


def test_what_is_routed_elsewhere_is_not_sent_and_ends_at_no_cost(
    table: Callable[..., Table], provider: StandInProvider
) -> None:
    seat = seat_of(table, provider)
    assert seat.ask(RESPONSES, json={"model": "mini", "input": "one"}).is_success
    seat.books.models = MODELS[:1]

    answer = seat.ask(
        RESPONSES, json={"model": "mini", "input": "two", "previous_response_id": MADE}
    )

    assert (answer.status_code, answer.json()["error"]["code"]) == (
        403,
        "STATE_AT_ANOTHER_PROVIDER",
    )
    assert len(seat.provider.requests) == 1
    assert seat.books.settled(2)[1]["cost_basis"] == "none"


def test_a_response_of_unknown_making_stays_with_the_wanted_models(
    table: Callable[..., Table], provider: StandInProvider
) -> None:
    seat = seat_of(table, provider)
    further = {"model": "large", "input": "two", "previous_response_id": "resp_of_yesterday"}
    assert seat.ask(RESPONSES, json=further).is_success

    [call] = seat.books.calls
    assert call.asked["wanted_model"] == "large"
    assert "content=at_provider" in call.asked["requirements"]


def test_another_model_of_the_maker_may_go_on() -> None:
    origin = Origin("azure", "mini")
    models = [*MODELS, {"provider": "azure", "model": "maxi"}]

    assert origin.wanted("maxi", models) == "azure/maxi"
    assert origin.wanted("large", models) == origin.wanted(None, models) == "azure/mini"


def test_the_newest_responses_are_remembered() -> None:
    origins = Origins()
    for number in range(RESPONSES_MAX + 1):
        origins.note(f"resp_{number}", Origin("openai", "large"))
    origins.note("", Origin("openai", "large"))
    origins.note("x" * 201, Origin("openai", "large"))

    assert origins.of("resp_0") is origins.of("") is origins.of("x" * 201) is None
    assert origins.of(f"resp_{RESPONSES_MAX}") == Origin("openai", "large")
