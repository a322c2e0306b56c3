"""The page of money in a real browser: without a script, light and dark, and on a narrow screen."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from tests.money import cap, catalogue_of_two
from tests.spent import spend_for_weeks

ADDRESS = "governance/spendhour/money/"


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_needs_no_script_and_no_sideways_scrolling(
    console: str, page_of: Callable[..., Page], scheme: str
) -> None:
    catalogue_of_two()
    cap("2", scope="agent", key="hermes", window="month")
    spend_for_weeks(days=12)
    narrow: dict[str, Any] = {"width": 390, "height": 844}
    page = page_of("viewer", viewport=narrow, color_scheme=scheme, java_script_enabled=False)

    page.goto(console + ADDRESS)

    if folder := os.environ.get("FENCEPOST_SCREENSHOTS"):
        page.screenshot(path=Path(folder) / f"money-narrow-{scheme}.png", full_page=True)
    expect(page.get_by_role("img").first).to_be_visible()
    # Nothing of it is wider than the screen; tables scroll by themselves.
    for place in page.locator(".page.money > *").all():
        box = place.bounding_box()
        assert box is not None
        assert box["x"] + box["width"] <= narrow["width"]
    page.locator(".days a").first.click()
    expect(page.get_by_role("link", name="call").first).to_be_visible()
