from __future__ import annotations

import pytest
from django.db import connection

from governance import checks


def ids(found):
    return [message.id for message in found]


def test_a_public_address_without_tls_is_refused(settings):
    settings.PUBLIC_URL = "http://fencepost.example"
    assert ids(checks.nobody_is_reached_in_the_clear(None)) == ["governance.E002"]
    for harmless in ("https://fencepost.example", "http://127.0.0.1:8000", "http://localhost"):
        settings.PUBLIC_URL = harmless
        assert checks.nobody_is_reached_in_the_clear(None) == []


def test_a_transaction_around_each_request_is_refused(settings, monkeypatch):
    assert checks.each_move_is_its_own_transaction(None) == []
    monkeypatch.setitem(settings.DATABASES["default"], "ATOMIC_REQUESTS", True)
    assert ids(checks.each_move_is_its_own_transaction(None)) == ["governance.E001"]


@pytest.mark.django_db
def test_a_dropped_trigger_is_refused():
    assert checks.every_trigger_is_in_force(None, databases=["default"]) == []
    with connection.cursor() as cursor:
        cursor.execute("DROP TRIGGER jobs_job_guard ON jobs_job")
    found = checks.every_trigger_is_in_force(None, databases=["default"])
    assert ids(found) == ["governance.E003"]
    assert "jobs_job_guard" in found[0].msg


@pytest.mark.django_db
def test_a_database_that_stopped_within_the_first_release_is_refused_with_what_to_do():
    assert checks.no_app_stopped_within_replaced_migrations(None, databases=["default"]) == []
    with connection.cursor() as cursor:
        cursor.execute(
            "DELETE FROM django_migrations WHERE app = 'agents' AND name <> '0001_initial'"
        )
    [found] = checks.no_app_stopped_within_replaced_migrations(None, databases=["default"])
    assert found.id == "governance.E005"
    assert "stopped at agents.0001_initial" in found.msg
    assert "version 0.1.0" in found.hint
