"""An operator at the console, for tests of its pages."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from django.contrib.auth.models import Group, User
from django.test import Client
from django.urls import reverse


@pytest.fixture
def as_(world: None) -> Callable[[str], Client]:
    """`as_("operator")`: a signed-in client of a user in that group."""

    def sign_in(group: str) -> Client:
        user, _ = User.objects.get_or_create(username=group, defaults={"is_staff": True})
        user.groups.add(Group.objects.get(name=group))
        client = Client()
        client.force_login(user)
        return client

    return sign_in


def act_url(model: str, name: str) -> str:
    """Return the page of an act: `act_url("jobs.job", "stop")`."""
    return reverse(f"admin:{model.replace('.', '_')}_act", args=(name,))


def confirm(client: Client, model: str, act: str, /, *keys: Any, **fields: Any) -> Any:
    """Open the confirmation page of an act on rows and send it."""
    url = act_url(model, act)
    page = client.get(url, {"key": [str(key) for key in keys]})
    assert page.status_code == 200
    return client.post(url, {"selection": token_in(page), "reason": "as agreed"} | fields)


def token_in(response: Any) -> str:
    """Return the signed selection that a page carries."""
    found = re.search(r'name="selection" value="([^"]+)"', response.content.decode())
    assert found is not None
    return found.group(1)
