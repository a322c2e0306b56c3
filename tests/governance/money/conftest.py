from __future__ import annotations

import pytest

from tests.money import any_name  # noqa: F401


@pytest.fixture(autouse=True)
def _of_the_ground_alone(any_name: None) -> None:  # noqa: F811
    """The ground knows no agents: what it does with their names is tested with the apps above."""
