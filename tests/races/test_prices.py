"""Two sweepers that look at their installed price lists at once, in the middle of an upgrade."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from decimal import Decimal
from typing import Any

import pytest
from django.db import IntegrityError, transaction
from genai_prices import data_snapshot
from genai_prices.types import ClauseEquals, ModelInfo, ModelPrice, Provider

from governance.money import catalogue
from governance.money.models import LanguageModel, Price
from tests.money import TEST, beside, waits

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def listed(transactional_db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of one model, whose prices of version 1.8.0 are in use."""
    prices = ModelPrice(input_mtok=Decimal(1), output_mtok=Decimal(2))
    model = ModelInfo(id="thinker", match=ClauseEquals(equals="thinker"), prices=prices)
    provider = Provider(id="acme", name="Acme", api_pattern="-", models=[model])
    monkeypatch.setattr(
        data_snapshot, "_custom_snapshot", data_snapshot.DataSnapshot([provider], False)
    )
    catalogue.set_model(provider="acme", name="thinker", **TEST)
    install(monkeypatch, "1.8.0", "1.8.0")
    catalogue.sync_prices(**TEST)


def install(monkeypatch: pytest.MonkeyPatch, here: str, beside_it: str) -> None:
    """Let this process have one version of the list installed, and that beside it another."""

    def version(name: str) -> str:
        return here if threading.current_thread() is threading.main_thread() else beside_it

    monkeypatch.setattr(catalogue, "package_version", version)


def versions() -> list[str]:
    return list(Price.objects.order_by("pk").values_list("version", flat=True))


@contextmanager
def two_that_meet() -> Iterator[Future[Any]]:
    """A process takes its list, and has not committed; another one beside it waits."""
    with ExitStack() as stack, transaction.atomic():
        assert catalogue.take_newer_list(**TEST) is not None
        second = stack.enter_context(beside(catalogue.take_newer_list, **TEST))
        assert waits(second)
        yield second


def test_two_that_take_the_same_list_take_it_once(
    listed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "1.9.0", "1.9.0")

    with two_that_meet() as second:
        pass

    assert second.result().unchanged == ["acme/thinker"]
    assert versions() == ["genai-prices 1.8.0", "genai-prices 1.9.0"]


def test_an_older_list_is_not_taken_after_a_newer_one_that_came_meanwhile(
    listed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "1.10.0", "1.9.0")

    with two_that_meet() as second:
        pass

    assert second.result().priced == []
    assert versions() == ["genai-prices 1.8.0", "genai-prices 1.10.0"]


def test_control_without_the_lock_the_second_judges_the_list_of_before(
    listed: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(monkeypatch, "1.10.0", "1.9.0")
    monkeypatch.setattr(
        catalogue,
        "_locked_model",
        lambda provider, name: LanguageModel.objects.get(provider=provider, name=name),
    )

    with two_that_meet() as second:
        pass

    # Only the numbers of the model's audit chain stop it now, and that is an error, no answer.
    with pytest.raises(IntegrityError):
        second.result()
