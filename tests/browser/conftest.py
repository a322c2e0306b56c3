"""A browser that is signed in to a live console, and that refuses to see an error."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.contrib.auth.models import Group, User
from django.db import connections
from django.test import Client
from playwright.sync_api import Browser, ConsoleMessage, Page

from tests import installed

CHROMIUM = "/usr/bin/chromium"
#: The machine may be busy with other tests; a page that needs longer is broken.
PAGE_MS = 20_000


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = str(Path(__file__).parent)
    for item in items:
        if str(item.path).startswith(here):
            item.add_marker(pytest.mark.browser)
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture(scope="session")
def browser_type_launch_args() -> dict[str, Any]:
    return {"executable_path": CHROMIUM, "args": ["--no-sandbox"]}


@pytest.fixture(scope="session", autouse=True)
def _queries_beside_the_browser(django_db_setup: None, playwright: Any) -> Iterator[None]:
    """Playwright keeps an event loop in the test's thread, which Django takes for async code.

    For the rest of the run, since the loop outlives the tests, and the flush comes after them.
    Under the loop Django has connections of its own, which keep the database from being dropped.
    """
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "true"
    yield
    connections.close_all()


@pytest.fixture
def console(live_server: Any, settings: Any) -> str:
    """The address of a console over an installation."""
    settings.ALLOWED_HOSTS = ["*"]
    installed.put()
    return f"{live_server.url}/admin/"


@pytest.fixture
def page_of(console: str, browser: Browser) -> Iterator[Callable[..., Page]]:
    """`page_of("operator")`: a page signed in as a user of that group.

    At the end the test fails if any of its pages wrote an error to the browser's console: a
    violation of the Content-Security-Policy does, and so does a missing file.
    """
    errors: list[str] = []
    contexts = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            errors.append(message.text)

    def make(group: str, **context: Any) -> Page:
        user, _ = User.objects.get_or_create(username=group, defaults={"is_staff": True})
        user.groups.add(Group.objects.get(name=group))
        client = Client()
        client.force_login(user)
        cookie = client.cookies[settings.SESSION_COOKIE_NAME].value
        opened = browser.new_context(**context)
        opened.add_cookies(
            [{"name": settings.SESSION_COOKIE_NAME, "value": cookie, "url": console}]
        )
        opened.set_default_timeout(PAGE_MS)
        contexts.append(opened)
        page = opened.new_page()
        page.on("console", hear)
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.console_url = console  # type: ignore[attr-defined]
        return page

    yield make
    for context in contexts:
        context.close()
    assert errors == []
