"""The pages where people sign in, with a real browser: readable, accessible, under the policy."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect

from tests.browser.test_console import AXE
from tests.e2e.test_sign_in import (  # noqa: F401
    PASSWORD,
    Issuer,
    code,
    console_environment,
    issuer,
    served,
)

pytestmark = pytest.mark.slow
LOOKS: dict[str, tuple[int, int, str]] = {
    "light": (1280, 900, "light"),
    "dark": (1280, 900, "dark"),
    "narrow": (390, 844, "light"),
}
#: What the browser says of a page that was refused; the page itself is what is looked at.
REFUSED = re.compile(
    r"Failed to load resource: the server responded with a status of (401|403|429)"
)


@pytest.fixture
def visit(browser: Browser, served: str) -> Iterator[Callable[[], Page]]:  # noqa: F811
    """`visit()`: a page of a new visitor. Fails at the end if any wrote an error."""
    errors: list[str] = []
    contexts = []

    def hear(message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"} and not REFUSED.match(message.text):
            errors.append(message.text)

    def make() -> Page:
        context = browser.new_context(base_url=served)
        context.set_default_timeout(20_000)
        contexts.append(context)
        page = context.new_page()
        page.on("console", hear)
        page.on("pageerror", lambda error: errors.append(str(error)))
        return page

    yield make
    for context in contexts:
        context.close()
    assert errors == []


@pytest.fixture
def look() -> Iterator[Callable[[Page, str], None]]:
    """`look(page, "name")`: keep pictures of the page as it stands; fail at the end for faults."""
    found: list[tuple[str, str, str, list[Any]]] = []
    out = Path(os.environ.get("FENCEPOST_SCREENSHOTS", "test-output/screenshots"))
    out.mkdir(parents=True, exist_ok=True)

    def at(page: Page, name: str) -> None:
        for look_name, (width, height, scheme) in LOOKS.items():
            page.set_viewport_size({"width": width, "height": height})
            page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            # Colours fade from one scheme to the other; what is judged is where they arrive.
            page.evaluate("Promise.all(document.getAnimations().map(a => a.finished))")
            page.screenshot(path=out / f"sign-in-{name}-{look_name}.png", full_page=True)
            result = Axe().run(page, options=AXE)
            found.extend(
                (look_name, name, rule["id"], [node["target"] for node in rule["nodes"]])
                for rule in result.response["violations"]
            )
            wide = page.evaluate("document.documentElement.scrollWidth")
            if wide > width:
                found.append((look_name, name, "wider than the screen", [wide]))

    yield at
    assert found == []


def sign_in(page: Page, name: str, password: str = PASSWORD) -> None:
    page.goto("/sign-in/?next=/admin/")
    page.get_by_label("Username").fill(name)
    page.get_by_label("Password").fill(password)
    page.get_by_role("button", name="Sign in", exact=True).click()


def test_a_second_factor_is_set_up_and_used(
    visit: Callable[[], Page], look: Callable[[Page, str], None]
) -> None:
    page = visit()
    page.goto("/admin/")
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    look(page, "start")
    sign_in(page, "anna", "not it")
    expect(page.locator(".errornote, .errorlist").first).to_be_visible()
    look(page, "wrong-password")

    sign_in(page, "anna")
    expect(page.get_by_label("Password")).to_be_visible()
    look(page, "again")
    page.get_by_label("Password").fill(PASSWORD)
    page.locator("form input[type=submit], form button[type=submit]").last.click()
    expect(page).to_have_url(re.compile("/second-factor/app/"))
    look(page, "enrol")
    secret = page.locator("input[value]").evaluate_all(
        "inputs => inputs.map(i => i.value).find(v => /^[A-Z2-7]{16,}$/.test(v))"
    )
    image = page.locator("#content img, main img").first
    assert image.evaluate("image => image.complete && image.naturalWidth > 0")
    page.locator("input[name=code]").fill(code(secret))
    page.locator("input[name=code]").press("Enter")
    expect(page).to_have_url(re.compile("/second-factor/codes/"))
    look(page, "codes")
    page.goto("/sign-in/second-factor/")
    look(page, "second-factor")
    page.goto("/admin/")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    later = visit()
    sign_in(later, "anna")
    expect(later).to_have_url(re.compile("/second-factor/code/"))
    look(later, "code")
    later.locator("input[name=code]").fill("000000")
    later.locator("input[name=code]").press("Enter")
    expect(later.locator(".errorlist, .errornote").first).to_be_visible()
    look(later, "wrong-code")
    later.locator("input[name=code]").fill(code(secret, 1))
    later.locator("input[name=code]").press("Enter")
    expect(later.get_by_role("heading", name="Overview")).to_be_visible()


def test_who_is_locked_out_is_told_so(
    visit: Callable[[], Page], look: Callable[[Page, str], None]
) -> None:
    page = visit()
    for _ in range(5):
        sign_in(page, "berta", "not it")
    look(page, "locked")
    expect(page.get_by_role("heading", name="Locked")).to_be_visible()
    expect(page.get_by_role("alert")).to_contain_text("Too many failed sign-ins")


def test_an_issuer_signs_in_and_its_refusals_are_told(
    issuer: Issuer,  # noqa: F811
    visit: Callable[[], Page],
    look: Callable[[Page, str], None],
) -> None:
    issuer.says(sub="20", preferred_username="nobody", roles={"fencepost": ["other"]})
    page = visit()
    page.goto("/sign-in/?next=/admin/")
    page.get_by_role("button", name="Sign in with").click()
    expect(page.get_by_role("heading", name="Not signed in")).to_be_visible()
    look(page, "refused")
    page.get_by_role("link", name="Sign in another way").click()
    expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
    for name in ("cancelled", "error"):
        page.goto(f"/sign-in/issuer/{name}/")
        look(page, name)
    page.goto("/sign-in/inactive/")
    look(page, "inactive")

    issuer.says(sub="21", preferred_username="greta", roles={"fencepost": ["platform"]})
    page.goto("/sign-in/?next=/admin/")
    page.get_by_role("button", name="Sign in with").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    expect(page.locator("#user-tools")).to_contain_text("greta")
