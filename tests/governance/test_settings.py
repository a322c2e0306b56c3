import logging
import re
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection


@pytest.mark.django_db
def test_every_connection_bounds_its_waits_and_speaks_utc():
    with connection.cursor() as cursor:
        cursor.execute(
            "SELECT current_setting('lock_timeout'), current_setting('statement_timeout'),"
            " current_setting('idle_in_transaction_session_timeout'), current_setting('TimeZone')"
        )
        assert cursor.fetchone() == ("2s", "15s", "15s", "UTC")


@pytest.mark.django_db(transaction=True)
def test_a_second_connection_sees_what_was_committed(on_other_connection):
    from django.contrib.auth.models import User

    User.objects.create_user("anna")
    assert on_other_connection(User.objects.count) == 1


READERS = (
    "governance/settings.py",
    "governance/gunicorn_conf.py",
    "governance/local/embedded.py",
    "governance/local/folder.py",
)
READ = re.compile(r"""(?:env\.\w+|environ\.\w+|environ)[(\[]\s*"([A-Z][A-Z0-9_]+)\"""")


def test_every_variable_that_is_read_is_on_the_page_of_settings_and_no_other():
    root = Path(settings.BASE_DIR)
    sources = [root / name for name in READERS]
    read = {name for path in sources for name in READ.findall(path.read_text(encoding="utf-8"))}
    page = (root / "docs/reference/settings.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    listed = {name for row in rows for name in re.findall(r"`([A-Z0-9_]+)`", row)}

    # The worker reads each of its options so, by a rule.
    assert listed - {"PORT", "PYTHON", "FENCEPOST_TOKEN"} == read


def test_every_link_between_pages_leads_somewhere():
    root = Path(settings.BASE_DIR)
    pages = [*root.glob("*.md"), *(root / "docs").rglob("*.md")]
    dead = [
        f"{page.relative_to(root)}: {target}"
        for page in pages
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8"))
        if "://" not in target and not (page.parent / target).exists()
    ]

    assert dead == []


def test_a_foreign_host_is_one_line_of_the_log_without_a_traceback(client, caplog):
    with caplog.at_level(logging.ERROR, logger="django.security.DisallowedHost"):
        answer = client.get("/v1/jobs", headers={"host": "foreign.example"})

    assert answer.status_code == 400
    assert [(record.name, record.exc_info) for record in caplog.records] == [
        ("django.security.DisallowedHost", None)
    ]


def test_the_root_leads_to_the_console(client):
    answer = client.get("/")

    assert (answer.status_code, answer["Location"]) == (302, "/admin/")
