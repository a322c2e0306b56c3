"""What every request passes."""

from __future__ import annotations

import pytest
import structlog
from django.http import HttpResponse
from django.test import RequestFactory

from governance.web.middleware import RequestIdentity, client_address


@pytest.fixture
def request_of(rf: RequestFactory):
    def make(**meta: str):
        return rf.get("/v1/jobs", **({"REMOTE_ADDR": "10.0.0.1"} | meta))

    return make


def test_an_address_that_the_caller_writes_counts_for_nothing(request_of, settings):
    settings.BEHIND_PROXY = False

    assert client_address(request_of(HTTP_X_FORWARDED_FOR="192.0.2.7")) == "10.0.0.1"


@pytest.mark.parametrize(
    ("told", "address"),
    [
        ("192.0.2.7", "192.0.2.7"),
        ("203.0.113.9, 192.0.2.7", "192.0.2.7"),
        ("203.0.113.9,", "10.0.0.1"),
        ("", "10.0.0.1"),
    ],
)
def test_behind_a_proxy_the_address_is_what_the_proxy_saw(request_of, settings, told, address):
    settings.BEHIND_PROXY = True

    assert client_address(request_of(HTTP_X_FORWARDED_FOR=told)) == address


def test_log_lines_of_a_request_name_its_address(request_of):
    seen = {}

    def view(request):
        seen.update(structlog.contextvars.get_contextvars())
        return HttpResponse()

    with structlog.contextvars.bound_contextvars():
        RequestIdentity(view)(request_of())
        structlog.contextvars.unbind_contextvars("ip")

    assert seen["ip"] == "10.0.0.1"
