"""What people see of deferrals, how many of them a job type allows, and processes of before."""

from __future__ import annotations

from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.urls import reverse

from agents.entry import Entry
from governance.core.errors import InvalidArgument
from jobs import transitions
from jobs.models import JobType
from jobs.transitions import TypeSettings
from tests.console import confirm
from tests.work import ANNA, make_available

pytestmark = pytest.mark.django_db


class TestTheConsole:
    def test_says_until_when_a_job_waits_and_what_does_not_count(
        self, as_: Any, running: Any, worker: Entry
    ) -> None:
        held = running(max_attempts=2)
        said = {"reason": "No quota.", "retry_after_seconds": 600}
        transitions.defer(entry=worker, **held.binding, **said)
        held.job.refresh_from_db()
        client = as_("viewer")
        words = f"waits until {held.job.available_at:%Y-%m-%d %H:%M:%SZ}"
        job_page = reverse("admin:jobs_job_change", args=(held.job.pk,))
        pages = [
            reverse("admin:jobs_job_changelist"),
            job_page,
            reverse("admin:jobs_job_live", args=(held.job.pk,)),
        ]

        shown = [client.get(page).content.decode() for page in pages]

        assert [words in page for page in shown] == [True] * 3
        assert ["1 of 2, 1 not counted" in page for page in shown] == [True] * 3
        assert "(unconfirmed, not counted)" in shown[1]
        make_available(held.job)
        assert not any("waits until" in client.get(page).content.decode() for page in pages)

    def test_shows_and_sets_how_many_deferrals_a_type_allows(self, as_: Any) -> None:
        client = as_("governor")
        confirm(client, "jobs.jobtype", "configure", "content_prep", max_deferrals="0")

        row = JobType.objects.get(name="content_prep")
        page = client.get(reverse("admin:jobs_jobtype_change", args=(row.pk,))).content.decode()

        assert row.max_deferrals == 0
        assert "max deferrals" in page.lower()


def test_a_command_sets_how_many_deferrals_a_type_allows(world: None) -> None:
    call_command(
        "configure_job_type",
        "content_prep",
        max_deferrals=50,
        actor="command:anna",
        reason="its provider is often full",
    )

    assert JobType.objects.get(name="content_prep").max_deferrals == 50


@pytest.mark.parametrize("number", [-1, 1001])
def test_a_type_allows_no_other_number_of_deferrals(world: None, number: int) -> None:
    with pytest.raises(InvalidArgument) as refusal:
        transitions.configure_job_type(
            name="content_prep", settings=TypeSettings(max_deferrals=number), **ANNA
        )

    assert [fault.pointer for fault in refusal.value.errors] == ["/max_deferrals"]


class TestAtAnUpgrade:
    def test_a_process_of_before_makes_jobs_and_types_without_the_new_columns(
        self, make_job: Any
    ) -> None:
        job = make_job()
        new = {
            "jobs_job": ("deferrals", "unconfirmed_deferrals"),
            "jobs_jobtype": ("max_deferrals",),
        }
        with connection.cursor() as cursor:
            for table, columns in new.items():
                cursor.execute(
                    "SELECT column_name, column_default FROM information_schema.columns"
                    " WHERE table_name = %s AND column_name = ANY(%s)",
                    [table, list(columns)],
                )
                defaults = dict(cursor.fetchall())
                assert set(defaults) == set(columns)
                assert None not in defaults.values()
        assert (job.deferrals, job.unconfirmed_deferrals) == (0, 0)
