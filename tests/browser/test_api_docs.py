"""The browsable API description works from our own files alone, under the policy of every page."""

from __future__ import annotations

from typing import Any

import pytest

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]


def test_the_api_description_can_be_browsed_without_a_policy_violation(live_server, page: Any):
    complaints: list[str] = []
    elsewhere: list[str] = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on(
        "request",
        lambda request: (
            None
            if request.url.startswith((live_server.url, "data:"))
            else elsewhere.append(request.url)
        ),
    )

    page.goto(f"{live_server.url}/docs/")
    page.get_by_text("/v1/claims", exact=True).click()
    page.get_by_text("wait_seconds").first.wait_for()

    assert elsewhere == []
    assert [text for text in complaints if "Content Security Policy" in text] == []
