"""Tests that drive the system's Chromium; nothing is downloaded."""

from __future__ import annotations

import os
from typing import Any

import pytest

# Playwright's loop runs in the test's thread, which Django would take for asynchronous code.
os.environ.setdefault("DJANGO_ALLOW_ASYNC_UNSAFE", "true")


@pytest.fixture(scope="session")
def browser_type_launch_args(browser_type_launch_args: dict[str, Any]) -> dict[str, Any]:
    return browser_type_launch_args | {
        "executable_path": "/usr/bin/chromium",
        "args": ["--no-sandbox"],
    }
