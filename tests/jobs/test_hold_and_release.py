"""Hold until, and release: the verb at all its faces."""

from __future__ import annotations

import json
from datetime import datetime, timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.urls import reverse
from uuid_utils.compat import uuid7

from agents.entry import Entry
from governance.console.models import BulkItem, BulkRun
from governance.core import clock
from governance.core.errors import InvalidArgument, InvalidTransition, RevisionMismatch
from governance.core.fields import INSTANT_MAX
from governance.core.models import AuditEvent
from jobs import transitions
from jobs.models import Job
from jobs.transitions import controls
from tests.client import Api
from tests.client import refused as told
from tests.console import act_url, confirm
from tests.evidence import actions, facts, refused
from tests.work import ANNA, pass_time


def later(**span: float) -> datetime:
    """Return an instant in the future, to the minute as a form gives it."""
    at = clock.now() + timedelta(**span or {"hours": 2})
    return at.replace(second=0, microsecond=0)


class TestHold:
    def test_keeps_a_queued_job_from_being_claimed(self, make_job: Any, worker: Entry) -> None:
        job, until = make_job(), later()

        outcome = controls.hold(task_id=job.task_id, until=until, **ANNA)

        job.refresh_from_db()
        assert (outcome.outcome, job.state, job.hold_until) == ("put_on_hold", "queued", until)
        assert job.revision == 2
        assert transitions.claim_next(entry=worker, limit=1) == []
        event = AuditEvent.objects.filter(subject=job.audit_subject).latest("seq")
        assert (event.action, event.actor) == ("job.put_on_hold", ANNA["actor"])
        assert json.loads(bytes(event.body))["details"]["hold_until"] == until.isoformat()
        assert facts(job)[-1][1].endswith("job.put_on_hold")

    def test_again_moves_the_end(self, make_job: Any) -> None:
        job, sooner = make_job(), later(hours=1)
        controls.hold(task_id=job.task_id, until=later(hours=5), **ANNA)

        controls.hold(task_id=job.task_id, until=sooner, **ANNA)

        job.refresh_from_db()
        assert job.hold_until == sooner

    @pytest.mark.parametrize("until", [timedelta(0), timedelta(seconds=-1), None])
    def test_ends_in_the_future(self, make_job: Any, until: timedelta | None) -> None:
        job = make_job()
        at = INSTANT_MAX if until is None else clock.now() + until

        with refused(InvalidArgument, job) as refusal:
            controls.hold(task_id=job.task_id, until=at, **ANNA)

        assert [fault.pointer for fault in refusal.value.errors] == ["/until"]

    def test_is_for_jobs_that_are_queued(self, running: Any, high_risk: Any, failed: Any) -> None:
        for job in (running().job, high_risk(), failed()):
            with refused(InvalidTransition, job):
                controls.hold(task_id=job.task_id, until=later(), **ANNA)

    def test_is_about_the_job_as_it_was_seen(self, make_job: Any) -> None:
        job = make_job()
        transitions.pause(task_id=job.task_id, **ANNA)

        with refused(RevisionMismatch, job):
            controls.hold(task_id=job.task_id, until=later(), expected_revision=1, **ANNA)

    def test_needs_a_reason(self, make_job: Any) -> None:
        job = make_job()

        with refused(InvalidArgument, job):
            controls.hold(task_id=job.task_id, until=later(), actor="user:anna", reason=" ")


class TestRelease:
    def test_lets_the_job_be_claimed_at_once(self, make_job: Any, worker: Entry) -> None:
        first, second = make_job(), make_job()
        controls.hold(task_id=first.task_id, until=later(), **ANNA)

        outcome = controls.release(task_id=first.task_id, **ANNA)

        first.refresh_from_db()
        assert (outcome.outcome, first.hold_until) == ("released", None)
        assert actions(first) == ["job.queued", "job.put_on_hold", "job.released"]
        claimed = transitions.claim_next(entry=worker, limit=2)
        assert [one.job.task_id for one in claimed] == [first.task_id, second.task_id]

    def test_needs_a_hold_that_is_in_force(self, make_job: Any) -> None:
        job = make_job()
        with refused(InvalidTransition, job) as caught:
            controls.release(task_id=job.task_id, **ANNA)
        assert caught.value.current == {"state": "queued", "revision": 1}

        controls.hold(task_id=job.task_id, until=later(), **ANNA)
        pass_time(job, "hold_until")

        with refused(InvalidTransition, job):
            controls.release(task_id=job.task_id, **ANNA)

    def test_is_for_jobs_that_are_queued(self, make_job: Any) -> None:
        job = make_job(execution_approval_required=True)
        transitions.approve(task_id=job.task_id, **ANNA)
        controls.hold(task_id=job.task_id, until=later(), **ANNA)
        transitions.withdraw_approval(task_id=job.task_id, **ANNA)

        with refused(InvalidTransition, job):
            controls.release(task_id=job.task_id, **ANNA)


class TestInTheConsole:
    def test_a_job_is_held_until_a_time_and_released(self, as_: Any, make_job: Any) -> None:
        job, until, client = make_job(), later(), as_("operator")

        confirm(client, "jobs.job", "hold", job.task_id, until=f"{until:%Y-%m-%dT%H:%M}")

        job.refresh_from_db()
        run = BulkRun.objects.get()
        assert (job.hold_until, run.fields) == (until, {"until": until.isoformat()})
        assert BulkItem.objects.get().detail == "put on hold, now queued"

        confirm(client, "jobs.job", "release", job.task_id)
        job.refresh_from_db()
        assert job.hold_until is None

    @pytest.mark.parametrize("until", ["", "soon", "9999-01-01T00:00"])
    def test_the_form_asks_for_an_instant(self, as_: Any, make_job: Any, until: str) -> None:
        page = confirm(as_("operator"), "jobs.job", "hold", make_job().task_id, until=until)

        assert page.status_code == 422
        assert BulkRun.objects.count() == 0

    def test_a_time_that_is_past_is_refused_with_words(self, as_: Any, make_job: Any) -> None:
        job = make_job()

        confirm(as_("operator"), "jobs.job", "hold", job.task_id, until="2020-01-01T00:00")

        assert BulkItem.objects.get().outcome == "failed"
        assert "A hold ends in the future." in BulkItem.objects.get().detail
        assert actions(job) == ["job.queued"]

    def test_what_is_not_on_hold_is_not_offered_a_release(
        self, as_: Any, make_job: Any, running: Any
    ) -> None:
        free, held, active = make_job(), make_job(), running().job
        controls.hold(task_id=held.task_id, until=later(), **ANNA)
        client = as_("operator")

        offered = []
        for job in (free, held, active):
            page = client.get(reverse("admin:jobs_job_change", args=(job.pk,))).content.decode()
            offered.append([name for name in ("hold", "release") if f"/act/{name}/" in page])

        assert offered == [["hold"], ["hold", "release"], []]

    def test_an_approver_holds_nothing(self, as_: Any, make_job: Any) -> None:
        url = act_url("jobs.job", "hold")

        assert as_("approver").get(url, {"key": make_job().task_id}).status_code == 403


class TestAtAShell:
    def test_jobs_are_held_and_released(self, make_job: Any) -> None:
        job, out = make_job(), StringIO()
        done = ("--reason", "as agreed", "--json")

        call_command(
            "act", "job.hold", job.task_id, "--until", "2100-12-24T06:00Z", *done, stdout=out
        )

        job.refresh_from_db()
        assert f"{job.hold_until}" == "2100-12-24 06:00:00+00:00"
        assert json.loads(out.getvalue())["outcome"] == "put_on_hold"
        call_command("act", "job.release", job.task_id, *done, stdout=out)
        job.refresh_from_db()
        assert job.hold_until is None

    def test_an_end_is_needed(self, make_job: Any) -> None:
        with pytest.raises(CommandError, match="--until"):
            call_command("act", "job.hold", make_job().task_id, "--reason", "so")


class TestOverTheApi:
    @pytest.fixture
    def control(self, submitter_token: str) -> Any:
        api = Api(submitter_token)

        def send(job: Job, action: str, revision: int = 1, **over: Any) -> Any:
            body = {"action": action, "expected_task_revision": revision, "reason": "so"} | over
            path = f"/v1/jobs/{job.task_id}/control"
            return api.post(path, body, idempotency_key=str(uuid7()))

        return send

    def test_a_submitter_holds_and_releases_its_own_job(self, make_job: Any, control: Any) -> None:
        job, until = make_job(), later()

        held = control(job, "HOLD", until=f"{until:%Y-%m-%dT%H:%M:%SZ}")
        released = control(job, "RELEASE", revision=2)

        assert (held.status_code, held.json()["outcome"]) == (200, "put_on_hold")
        assert held.json()["result_code"] == "APPLIED"
        assert held.json()["job"]["hold_until"] == f"{until:%Y-%m-%dT%H:%M:%S.%fZ}"
        assert released.json()["job"]["hold_until"] is None

    @pytest.mark.parametrize(
        ("action", "over"),
        [
            ("HOLD", {}),
            ("HOLD", {"until": "2100-01-01"}),
            ("HOLD", {"until": "2100-01-01T00:00:00"}),
            ("HOLD", {"until": "9999-12-31T23:59:59-05:00"}),
            ("HOLD", {"until": "2020-01-01T00:00:00Z"}),
            ("HOLD", {"until": None}),
            ("RELEASE", {"until": "2100-01-01T00:00:00Z"}),
            ("STOP", {"until": "2100-01-01T00:00:00Z"}),
        ],
    )
    def test_what_is_wrong_is_told_with_its_place(
        self, make_job: Any, control: Any, action: str, over: dict[str, Any]
    ) -> None:
        job = make_job()

        answer = control(job, action, **over)

        assert told(answer) == (400, "INVALID_ARGUMENT")
        assert [fault["pointer"] for fault in answer.json()["errors"]] == ["/until"]
        assert actions(job) == ["job.queued"]

    def test_a_job_that_has_moved_on_is_left_as_it_is(self, make_job: Any, control: Any) -> None:
        job = make_job()

        answer = control(job, "HOLD", revision=7, until="2100-01-01T00:00:00Z")

        assert told(answer) == (409, "REVISION_MISMATCH")
        assert actions(job) == ["job.queued"]
