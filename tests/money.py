"""A small catalogue, and requests for calls: what tests about money share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import wait as wait_for
from contextlib import contextmanager
from decimal import Decimal
from typing import Any
from uuid import UUID

import pytest
from django.db import connections
from uuid_utils.compat import uuid7

from governance.core import digests
from governance.money import catalogue, ledger, scopes
from governance.money.pricing import RateSet

#: How long a call must not have come back for it to count as waiting, and may take after that.
WAITING_SECONDS, SECONDS = 0.5, 20
TEST = {"actor": "user:test", "reason": "for a test"}
#: Per million tokens. The calls of `request` are held at 1000 in and 1000 out.
SMALL, LARGE = ("local", "small"), ("local", "large")
SMALL_CALL, LARGE_CALL = Decimal("0.003"), Decimal("0.03")
CALL_TOKENS = 1000


@pytest.fixture
def any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let budgets and policies name agents and job types that the database does not have."""
    monkeypatch.setattr(scopes, "_known", {})


def price(model: tuple[str, str], *, input_rate: str, output_rate: str, **more: Any) -> None:
    provider, name = model
    rates = [RateSet(0, Decimal(input_rate), Decimal(output_rate))]
    catalogue.set_price(provider=provider, name=name, rates=rates, **more, **TEST)


def catalogue_of_two() -> None:
    """Two priced models, `large` before `small`, allowed for every work."""
    for provider, name in (SMALL, LARGE):
        catalogue.set_model(provider=provider, name=name, capabilities=["tools"], **TEST)
    price(SMALL, input_rate="1", output_rate="2")
    price(LARGE, input_rate="10", output_rate="20")
    catalogue.set_policy(models=[LARGE, SMALL], **TEST)


def cap(amount: str | None, *, scope: str = "global", key: str = "", **more: Any) -> Any:
    more = {"window": "none", **more}
    value = None if amount is None else Decimal(amount)
    return catalogue.set_budget(scope=scope, key=key, cap=value, **more, **TEST)


def request(
    *, task_id: str = "task-1", attempt: int = 1, call: int = 1, **over: Any
) -> ledger.RouteRequest:
    """A request for a call of hermes; the same arguments name the same call."""
    job_id = over.pop("job_id", UUID("018f0000-0000-7000-8000-000000000001"))
    external = digests.external_request_id(
        task_id=task_id,
        job_id=job_id,
        execution_digest="ab" * 32,
        runtime="openai",
        attempt=attempt,
    )
    route = digests.route_request_id(external_request_id=external, call=call)
    asked = {
        "external_request_id": external,
        "route_request_id": route,
        "task_id": task_id,
        "job_id": job_id,
        "attempt": attempt,
        "fencing_token": attempt,
        "agent": "hermes",
        "job_type": "content_prep",
        "risk_tier": "low",
        "runtime": "openai",
        "estimated_input_tokens": CALL_TOKENS,
        "max_output_tokens": CALL_TOKENS,
    }
    return ledger.RouteRequest(**asked | over)


def another_request(**over: Any) -> ledger.RouteRequest:
    """A request for the first call of a job of its own."""
    job_id = uuid7()
    return request(task_id=f"task-{job_id}", job_id=job_id, **over)


def reserved(**over: Any) -> ledger.Routed:
    """A call of a job of its own that was given a model."""
    routed = ledger.reserve(request=another_request(**over))
    assert routed.reservation is not None, routed.decision.considered
    return routed


def resolve(ended_as: str, *, actor: str, **end: Any) -> ledger.Resolved:
    """End a reservation: `resolve("settled", reservation_id=..., usage=..., actor=...)`."""
    return ledger.resolve(end=ledger.End(ended_as=ended_as, **end), actor=actor)


@contextmanager
def beside(function: Callable[..., Any], *args: Any, **named: Any) -> Iterator[Future[Any]]:
    """Run a function on a connection of its own beside the block, which it does not outlive."""

    def run() -> Any:
        try:
            return function(*args, **named)
        finally:
            connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        future = pool.submit(run)
        yield future
        wait_for([future], timeout=SECONDS)


def waits(future: Future[Any]) -> bool:
    """Whether the call has not come back yet, for a lock that the test holds."""
    return not wait_for([future], timeout=WAITING_SECONDS).done
