"""What is held is honest: no less than the bytes of a request, and an output that has a limit."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from governance.core.errors import InvalidArgument
from governance.money import catalogue, ledger
from governance.money.models import Resolution
from governance.money.pricing import RateSet
from tests.money import TEST, another_request, cap, price, request, reserved, resolve

pytestmark = pytest.mark.django_db

#: At 1 USD per million of input and 2 of output.
MODEL = ("local", "stand-in")
MILLION = 1_000_000


def a_model(**limits: int) -> None:
    catalogue.set_model(provider=MODEL[0], name=MODEL[1], **limits, **TEST)
    price(MODEL, input_rate="1", output_rate="2")
    catalogue.set_policy(models=[MODEL], **TEST)


def held(**asked: Any) -> tuple[int, int]:
    """Return the tokens of input and output that a request is held at."""
    asked = {"estimated_input_tokens": 0, "max_output_tokens": 0} | asked
    decision = reserved(**asked).decision
    assert list(ledger.verify()) == []
    return decision.estimated_input_tokens, decision.max_output_tokens


@pytest.mark.parametrize(
    ("asked", "tokens"),
    [
        ({"estimated_input_tokens": 50, "max_output_tokens": 7}, (50, 7)),
        ({"estimated_input_tokens": 50, "request_bytes": 301, "max_output_tokens": 7}, (101, 7)),
        ({"estimated_input_tokens": 500, "request_bytes": 301, "max_output_tokens": 7}, (500, 7)),
        ({"request_bytes": 301}, (101, 4096)),
        # More bytes than a context of tokens is still one context.
        ({"request_bytes": 10**6, "max_output_tokens": 7}, (100_000, 7)),
        ({"estimated_input_tokens": 99_000}, (99_000, 1000)),
        ({"request_bytes": 0}, (100_000, 4096)),
        ({"request_bytes": 300, "requirements": ("images=2",)}, (100 + 2 * 4784, 4096)),
        ({"request_bytes": 3, "requirements": ("pages=1", "audio_seconds=9")}, (8073, 4096)),
        ({"estimated_input_tokens": 9, "requirements": ("images=1",)}, (4784, 4096)),
        ({"request_bytes": 3, "requirements": ("images=99999",)}, (100_000, 4096)),
        ({"requirements": ("images=1",)}, (100_000, 4096)),
        ({"request_bytes": 9, "requirements": ("content=by_reference",)}, (100_000, 4096)),
        ({}, (100_000, 4096)),
    ],
)
def test_what_is_held(asked: dict[str, int], tokens: tuple[int, int]) -> None:
    a_model(context_tokens_max=100_000, output_tokens_max=4096)
    assert held(**asked) == tokens


def test_an_output_without_any_limit_is_held_at_the_default() -> None:
    a_model()
    assert held(estimated_input_tokens=1) == (1, 16_384)


@pytest.mark.parametrize(("of_policy", "tokens"), [(100, 100), (9000, 4096)])
def test_an_output_without_a_limit_is_held_at_the_policys(of_policy: int, tokens: int) -> None:
    a_model(output_tokens_max=4096)
    catalogue.set_policy(models=[MODEL], max_output_tokens=of_policy, **TEST)
    assert held(estimated_input_tokens=1) == (1, tokens)
    assert held(estimated_input_tokens=1, max_output_tokens=700) == (1, 700)


@pytest.mark.parametrize("tokens", [0, -1, 10**9 + 1, True])
def test_a_policy_holds_some_output(tokens: int) -> None:
    a_model()
    with pytest.raises(InvalidArgument) as refusal:
        catalogue.set_policy(models=[MODEL], max_output_tokens=tokens, **TEST)
    assert [fault.pointer for fault in refusal.value.errors] == ["/max_output_tokens"]


@pytest.mark.parametrize(
    "requirements",
    [
        ("images=few",),
        ("images=-1",),
        ("images=\u0663",),
        ("pages=1", "pages=2"),
        ("audio_seconds=100000",),
        ("content=somewhere",),
    ],
)
def test_contents_are_counted(requirements: tuple[str, ...]) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        request(requirements=requirements)
    assert [fault.pointer for fault in refusal.value.errors] == ["/requirements"]


def test_content_by_reference_is_refused_where_the_context_is_not_known() -> None:
    a_model()
    asked = another_request(request_bytes=9, requirements=("content=by_reference",))
    refusal = ledger.reserve(request=asked).refusal
    assert refusal is not None and refusal.reason == "MODEL_NOT_ALLOWED"
    assert "context_tokens_max" in refusal.detail


def test_a_model_without_output_is_held_at_none() -> None:
    catalogue.set_model(provider=MODEL[0], name=MODEL[1], **TEST)
    rates = [RateSet(above_input_tokens=0, input=Decimal(1), output=None)]
    catalogue.set_price(provider=MODEL[0], name=MODEL[1], rates=rates, **TEST)
    catalogue.set_policy(models=[MODEL], **TEST)
    assert held(estimated_input_tokens=9) == (9, 0)


def test_input_that_nobody_knows_is_refused_where_the_context_is_not_known() -> None:
    a_model()
    refusal = ledger.reserve(
        request=another_request(estimated_input_tokens=0, max_output_tokens=7)
    ).refusal
    assert refusal is not None and refusal.reason == "MODEL_NOT_ALLOWED"
    assert "state request_bytes" in refusal.detail


def test_nothing_that_is_declared_passes_every_cap() -> None:
    a_model(context_tokens_max=100_000, output_tokens_max=4096)
    cap("0.01")
    declared = {"estimated_input_tokens": 0, "max_output_tokens": 0}
    refusal = ledger.reserve(request=another_request(**declared)).refusal
    assert refusal is not None and refusal.reason == "BUDGET_EXHAUSTED"


@pytest.mark.parametrize("end", ["settled", "failed"])
def test_an_unknown_call_is_booked_by_its_bytes_and_its_limit(end: str) -> None:
    a_model(context_tokens_max=100_000)
    routed = reserved(estimated_input_tokens=90_000, request_bytes=3 * 1000, max_output_tokens=500)
    assert routed.reservation is not None
    resolve(end, reservation_id=routed.reservation.reservation_id, actor="agent:hermes")
    ended = Resolution.objects.get()
    assert ended.cost == Decimal(1000 + 2 * 500) / MILLION
    assert (ended.cost_basis, ended.flags) == ("estimate", ["usage_missing"])
    assert list(ledger.verify()) == []


def test_an_unknown_call_is_booked_with_what_it_contains() -> None:
    a_model(context_tokens_max=100_000)
    asked = {"estimated_input_tokens": 90_000, "max_output_tokens": 1, "request_bytes": 3}
    routed = reserved(requirements=("images=1",), **asked)
    assert routed.reservation is not None
    resolve("failed", reservation_id=routed.reservation.reservation_id, actor="agent:hermes")
    assert Resolution.objects.get().cost == Decimal(1 + 4784 + 2) / MILLION
    assert list(ledger.verify()) == []


def test_a_request_without_bytes_is_the_same_as_before_there_were_any() -> None:
    asked = request()
    assert asked.content_sha256 == request(request_bytes=None).content_sha256
    assert asked.content_sha256 != request(request_bytes=1).content_sha256
    assert asked.content_sha256 == BEFORE


#: As it was computed by the release before.
BEFORE = "ac4b4126d9ce6028917607b5d255ceb71446900fd8cc301b016cf8e8e75cf7ca"
