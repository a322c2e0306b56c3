"""The console's pages of jobs: who may do what, and that nothing is done but what was confirmed."""

from __future__ import annotations

import csv
import html
import json
import re
import zipfile
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest
from django.contrib import admin
from django.contrib.auth.models import Permission, User
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from agents.entry import Entry
from agents.principals import Principal
from fencepost_worker import verify_evidence
from governance.console import runs, selections
from governance.console.models import BulkItem, BulkRun, SavedView
from governance.core import permissions, verbs
from governance.core.characters import unseen
from governance.core.errors import FieldFault, InvalidArgument
from governance.core.models import AuditEvent
from governance.evidence import envelopes
from jobs import transitions
from jobs.models import Approval, Job, RetryExtension
from jobs.operations import answers
from jobs.transitions import controls
from jobs.verbs.job import PAUSE
from tests import console
from tests.console import token_in
from tests.work import ANNA, pass_time

LIST = "admin:jobs_job_changelist"
QUERIES_MAX = 13
OVERVIEW_QUERIES_MAX = 31
#: One for each app's counts of what waits, and one for what waits of money.
INBOX_QUERIES_MAX = 17


@pytest.fixture
def delivered(make_job: Any, hermes: Principal, entry_of: Any) -> Callable[..., Job]:
    """A job with a recorded result."""

    def make(**over: Any) -> Job:
        job = make_job(**over)
        attempt = claim(job, hermes, entry_of(hermes))
        transitions.complete(
            entry=entry_of(hermes),
            completions=[
                {
                    "task_id": job.task_id,
                    "worker_id": "worker-1",
                    "attempt": attempt["attempt"],
                    "fencing_token": attempt["fencing_token"],
                    "result": {"words": 3, "api_key": "very secret"},
                    "needs_review": False,
                }
            ],
        )
        job.refresh_from_db()
        return job

    return make


@pytest.fixture
def failed(make_job: Any, hermes: Principal, entry_of: Any) -> Callable[..., Job]:
    """A job whose only attempt failed."""

    def make(**over: Any) -> Job:
        job = make_job(**({"max_attempts": 1} | over))
        attempt = claim(job, hermes, entry_of(hermes))
        transitions.fail(
            entry=entry_of(hermes),
            task_id=job.task_id,
            attempt=attempt["attempt"],
            fencing_token=attempt["fencing_token"],
            error_message="nonsense",
            error_code="BAD_OUTPUT",
            retryable=True,
        )
        job.refresh_from_db()
        return job

    return make


def claim(job: Job, agent: Principal, entry: Entry) -> dict[str, Any]:
    outcome = transitions.claim(
        entry=entry, task_id=job.task_id, owner=agent.name, lease_seconds=900
    )
    return answers.claimed(outcome)["job"]


def act_url(name: str, *keys: str) -> str:
    query = "&".join(f"key={key}" for key in keys)
    return console.act_url("jobs.job", name) + (f"?{query}" if keys else "")


def confirm(client: Client, name: str, *keys: str, **fields: Any) -> Any:
    return console.confirm(client, "jobs.job", name, *keys, **fields)


def events(job: Job) -> list[str]:
    rows = AuditEvent.objects.filter(subject=job.audit_subject).order_by("seq")
    return list(rows.values_list("action", flat=True))


def test_a_held_job_is_approved_with_a_reason(as_: Any, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)

    confirm(as_("approver"), "approve", job.task_id, valid_hours=2)

    job.refresh_from_db()
    approval = Approval.objects.get(job=job)
    assert job.state == "queued"
    assert (approval.decided_by, approval.reason) == ("user:approver", "as agreed")
    assert (approval.valid_until - approval.decided_at).total_seconds() == 7200
    event = AuditEvent.objects.get(subject=job.audit_subject, action="job.approved")
    assert event.request_id == str(BulkRun.objects.get().run_id)


def test_an_act_without_a_reason_does_nothing(as_: Any, make_job: Any) -> None:
    job = make_job()
    client = as_("operator")
    token = token_in(client.get(act_url("stop", job.task_id)))

    answer = client.post(act_url("stop"), {"selection": token, "reason": "  "})

    job.refresh_from_db()
    assert answer.status_code == 422
    assert job.state == "queued"
    assert events(job) == ["job.queued"]
    assert BulkRun.objects.count() == 0


@pytest.mark.parametrize("group", permissions.GROUPS)
def test_each_group_has_its_verbs_and_no_other(as_: Any, make_job: Any, group: str) -> None:
    """Which these are is a page of the reference, which another test compares."""
    held = permissions.held_by(group)
    allowed = {verb.name for verb in verbs.on("jobs.job") if verb.permission.codename in held}
    job = make_job()
    client = as_(group)

    for verb in verbs.on("jobs.job"):
        shown = client.get(act_url(verb.name, job.task_id)).status_code
        forged = selections.freeze(
            model="jobs.job", keys=[job.task_id], user_id=User.objects.get(username=group).pk
        )
        if verb.name not in allowed:
            sent = client.post(
                act_url(verb.name), {"selection": forged.sign(), "reason": "as agreed"}
            ).status_code
            assert (verb.name, shown, sent) == (verb.name, 403, 403)
        else:
            assert (verb.name, shown) == (verb.name, 200)
    assert events(job) == ["job.queued"]


def test_the_list_offers_only_the_acts_that_the_user_may_do(as_: Any, make_job: Any) -> None:
    make_job()

    viewer = as_("viewer").get(reverse(LIST)).content.decode()
    operator = as_("operator").get(reverse(LIST)).content.decode()

    assert 'value="stop"' not in viewer
    assert 'value="stop"' in operator
    assert 'value="approve"' not in operator


def test_a_viewer_who_posts_an_action_changes_nothing(as_: Any, make_job: Any) -> None:
    job = make_job()

    as_("viewer").post(reverse(LIST), {"action": "stop", "_selected_action": job.pk, "index": 0})

    assert events(job) == ["job.queued"]


def test_a_bulk_act_touches_the_rows_that_were_shown_and_no_later_ones(
    as_: Any, make_job: Any
) -> None:
    client = as_("operator")
    first, second = make_job(), make_job()
    page = client.post(
        reverse(LIST) + "?state__exact=queued",
        {"action": "stop", "select_across": "1", "_selected_action": first.pk, "index": 0},
    )
    later = make_job()

    client.post(act_url("stop"), {"selection": token_in(page), "reason": "as agreed"})

    states = dict(Job.objects.values_list("task_id", "state"))
    assert states == {
        first.task_id: "stopped",
        second.task_id: "stopped",
        later.task_id: "queued",
    }


def test_a_row_that_changed_meanwhile_is_skipped_and_told(as_: Any, make_job: Any) -> None:
    client = as_("operator")
    jobs = [make_job(), make_job()]
    page = client.post(
        reverse(LIST), {"action": "pause", "_selected_action": [j.pk for j in jobs], "index": 0}
    )
    transitions.stop(task_id=jobs[0].task_id, actor="user:bo", reason="meanwhile")

    answer = client.post(act_url("pause"), {"selection": token_in(page), "reason": "as agreed"})

    run = BulkRun.objects.get()
    told = dict(BulkItem.objects.filter(run=run).values_list("key", "outcome"))
    assert told == {jobs[0].task_id: "skipped", jobs[1].task_id: "done"}
    assert answer.url == reverse("admin:console_run", args=(run.run_id,))
    assert "INVALID_TRANSITION" in client.get(answer.url).content.decode()


def test_a_decision_is_about_the_job_as_it_was_seen(as_: Any, delivered: Any) -> None:
    job = delivered(review_required=True)
    client = as_("operator")
    page = client.get(act_url("accept", job.task_id))
    transitions.extend(task_id=job.task_id, extra=1, **ANNA)
    before = events(job)

    client.post(act_url("accept"), {"selection": token_in(page), "reason": "as agreed"})

    job.refresh_from_db()
    item = BulkItem.objects.get()
    assert (item.outcome, item.revision) == ("skipped", job.revision - 1)
    assert "REVISION_MISMATCH" in item.detail
    assert (job.state, events(job)) == ("review_required", before)

    page = client.get(act_url("accept", job.task_id))
    client.post(act_url("accept"), {"selection": token_in(page), "reason": "as agreed"})
    job.refresh_from_db()
    assert job.state == "completed"


def test_a_button_is_about_the_job_that_its_page_showed(as_: Any, delivered: Any) -> None:
    job = delivered(review_required=True)
    client = as_("operator")
    shown = client.get(reverse("admin:jobs_job_change", args=(job.pk,))).content.decode()
    [button] = re.findall(r'href="([^"]+/act/accept/[^"]+)"', shown)
    transitions.extend(task_id=job.task_id, extra=1, **ANNA)

    page = client.get(html.unescape(button))

    assert "it has moved on since you looked at it" in page.content.decode()
    client.post(act_url("accept"), {"selection": token_in(page), "reason": "as agreed"})
    assert BulkItem.objects.get().outcome == "skipped"


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("jobs/job/act/stop/?key=%00", 404),
        (f"jobs/job/act/stop/?key={'x' * 201}", 404),
        ("jobs/job/act/accept/?key=nosuch&revision=99999999999999999999", 200),
        ("governance/budget/act/set_caps/?key=nosuch", 200),
        ("agents/session/act/approve_cell/?key=nosuch", 200),
        ("agents/credential/rotate/%00/", 302),
        (
            "governance/routepolicy/dry-run/?agent=hermes&job_type=rewrite&risk_tier=low"
            "&estimated_input_tokens=99999999999999999999&max_output_tokens=1",
            200,
        ),
        ("jobs/job/?task_id=%00", 302),
        ("governance/auditevent/?subject=%00", 302),
        ("jobs/job/export/csv/?paused__exact=maybe", 400),
        ("jobs/job/export/csv/?task_id=%00", 400),
    ],
)
def test_what_no_page_has_linked_to_is_no_internal_error(as_: Any, path: str, status: int) -> None:
    assert as_("governor").get(reverse("admin:index") + path).status_code == status


@pytest.mark.parametrize(("ticked", "status"), [("999999", 200), ("abc", 400), ("\0", 400)])
def test_ticked_rows_that_are_not_there_are_told(
    as_: Any, make_job: Any, ticked: str, status: int
) -> None:
    job = make_job()

    answer = as_("operator").post(
        reverse(LIST), {"action": "stop", "_selected_action": ticked, "index": 0}, follow=True
    )

    told = "None of these rows is there any more." in answer.content.decode()
    assert (answer.status_code, told) == (status, status == 200)
    assert events(job) == ["job.queued"]


def test_who_sees_runs_may_look_at_one_but_not_stop_it(
    as_: Any, admin_user: User, make_job: Any
) -> None:
    job, client = make_job(), as_("viewer")
    selection = selections.freeze(model="jobs.job", keys=[job.task_id], user_id=admin_user.pk)
    run = runs.begin(verb=PAUSE, selection=selection, user=admin_user, reason="because", values={})
    at = {
        page: reverse(f"admin:console_run{page}", args=(run.run_id,))
        for page in ("", "_live", "_advance", "_stop")
    }

    page = client.get(at[""])

    assert (page.status_code, client.get(at["_live"]).status_code) == (200, 200)
    assert not any(at[refused] in page.content.decode() for refused in ("_advance", "_stop"))
    assert [client.post(at[refused]).status_code for refused in ("_advance", "_stop")] == [403, 403]
    run.refresh_from_db()
    assert (run.finished_at, events(job)) == (None, ["job.queued"])


@pytest.mark.parametrize("elsewhere", ["https://example.org/", "//example.org", "javascript:x"])
def test_no_form_leads_elsewhere(as_: Any, make_job: Any, elsewhere: str) -> None:
    job, client = make_job(), as_("operator")
    home = reverse("admin:jobs_job_change", args=(job.pk,))

    page = client.get(act_url("pause"), {"key": job.task_id, "next": elsewhere})
    answer = client.post(
        act_url("pause"), {"selection": token_in(page), "reason": "so", "next": elsewhere}
    )

    assert elsewhere not in page.content.decode()
    assert f'<a href="{home}" class="quiet">Cancel</a>' in page.content.decode()
    assert answer.status_code == 422  # the reason is too short: the form once more
    assert elsewhere not in answer.content.decode()
    sent = {"selection": token_in(answer), "reason": "as agreed", "next": elsewhere}
    assert client.post(act_url("pause"), sent).url == home


def test_a_ticked_row_that_left_the_filter_is_still_named(as_: Any, make_job: Any) -> None:
    job = make_job()
    transitions.stop(task_id=job.task_id, actor="user:bo", reason="meanwhile")

    page = as_("operator").post(
        reverse(LIST) + "?state__exact=queued",
        {"action": "pause", "_selected_action": job.pk, "index": 0},
    )

    text = page.content.decode()
    assert job.task_id in text
    assert "would be skipped: the job is stopped" in text


def test_a_large_selection_asks_for_a_phrase(as_: Any, make_job: Any) -> None:
    client = as_("operator")
    jobs = [make_job() for _ in range(selections.PHRASE_ABOVE + 1)]
    page = client.post(
        reverse(LIST), {"action": "stop", "_selected_action": [j.pk for j in jobs], "index": 0}
    )
    sent = {"selection": token_in(page), "reason": "as agreed"}

    without = client.post(act_url("stop"), sent)
    assert without.status_code == 422
    assert Job.objects.filter(state="stopped").count() == 0

    client.post(act_url("stop"), sent | {"phrase": f"stop {len(jobs)}"})
    assert Job.objects.filter(state="stopped").count() == len(jobs)


def test_nobody_approves_what_they_asked_to_be_tried_again(as_: Any, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)
    Job.objects.filter(pk=job.pk).update(requested_by="user:approver")

    page = confirm(as_("approver"), "approve", job.task_id)

    job.refresh_from_db()
    assert page.status_code == 302
    assert job.state == "held"
    assert BulkItem.objects.get().outcome == "failed"
    assert "SELF_APPROVAL" in BulkItem.objects.get().detail


def test_nothing_on_an_approval_page_is_disguised(as_: Any, make_job: Any) -> None:
    turned = "Pay \u202e0001 only\u202c\u200b"
    job = make_job(
        execution_approval_required=True,
        title=turned,
        goal=f"Do this: {turned}",
        inputs={"to": turned},
        labels={"for": turned},
    )
    client = as_("approver")

    for page in (
        reverse("admin:jobs_job_change", args=(job.pk,)),
        reverse("admin:jobs_job_changelist"),
        reverse("admin:console_inbox"),
    ):
        text = client.get(page).content.decode()
        assert "Pay [U+202E]0001 only[U+202C][U+200B]" in text
        assert not unseen(text.replace("\n", "").replace("\t", ""))


def test_expired_rejected_and_withdrawn_are_three_different_things(as_: Any, make_job: Any) -> None:
    client, jobs = as_("approver"), {}
    for end in ("expired", "rejected", "withdrawn", "new"):
        jobs[end] = make_job(execution_approval_required=True, title=f"The {end} one")
    for end in ("expired", "withdrawn"):
        transitions.approve(task_id=jobs[end].task_id, actor="user:bert", reason="fine")
    pass_time(jobs["expired"], "approval_valid_until")
    transitions.sweep()
    transitions.withdraw_approval(task_id=jobs["withdrawn"].task_id, **ANNA)
    transitions.reject(task_id=jobs["rejected"].task_id, **ANNA)

    inbox = client.get(reverse("admin:console_inbox")).content.decode()
    heads = {
        end: client.get(reverse("admin:jobs_job_live", args=(job.pk,))).content.decode()
        for end, job in jobs.items()
    }
    pages = {
        end: client.get(reverse("admin:jobs_job_change", args=(job.pk,))).content.decode()
        for end, job in jobs.items()
    }

    assert inbox.count("approval expired 2") == 1
    assert f"approval withdrawn by user:anna: {ANNA['reason']}" in inbox
    assert "The rejected one" not in inbox
    assert "attempt 0 of 3, asked by submitter:ops" in inbox
    for end in ("expired", "rejected", "withdrawn"):
        assert f"state-{end}" in heads[end]
        assert f"state-{end}" in pages[end]
    assert "not given yet" in heads["new"]
    assert "approved until" not in "".join(heads.values())


def test_a_running_job_tells_that_its_approval_has_ended(
    as_: Any, make_job: Any, hermes: Principal, entry_of: Any
) -> None:
    job = make_job(execution_approval_required=True)
    transitions.approve(task_id=job.task_id, actor="user:bert", reason="fine")
    claim(job, hermes, entry_of(hermes))
    client, live = as_("viewer"), reverse("admin:jobs_job_live", args=(job.pk,))
    assert "approved until" in client.get(live).content.decode()

    pass_time(job, "approval_valid_until")

    head = client.get(live).content.decode()
    assert "another attempt needs a new one" in head
    assert "approved until" not in head


def test_a_failed_job_is_sent_back_with_an_extension_by_one_form(as_: Any, failed: Any) -> None:
    job = failed()

    confirm(as_("operator"), "rework", job.task_id, extra=2)

    job.refresh_from_db()
    grant = RetryExtension.objects.get(job=job)
    assert (job.state, job.max_attempts) == ("queued", 3)
    assert (grant.from_max, grant.to_max, grant.granted_by) == (1, 3, "user:operator")


def test_an_extension_beyond_the_ceiling_is_refused(as_: Any, failed: Any) -> None:
    job = failed()
    before = events(job)

    confirm(as_("operator"), "rework", job.task_id, to_max=500)

    job.refresh_from_db()
    assert (job.state, job.max_attempts, events(job)) == ("failed", 1, before)
    assert "RETRY_CEILING_REACHED" in BulkItem.objects.get().detail


def test_a_hold_in_the_past_keeps_the_form_and_can_be_sent_again(as_: Any, make_job: Any) -> None:
    job, client = make_job(), as_("operator")

    answer = confirm(client, "hold", job.task_id, until="2020-01-01T00:00")

    page = answer.content.decode()
    assert answer.status_code == 422
    assert "Not done: A hold ends in the future." in page
    assert "after now, and before" in answer.context["fields"].errors["until"][0]
    assert 'value="2020-01-01T00:00"' in page and "as agreed" in page
    assert events(job) == ["job.queued"]
    assert BulkItem.objects.get().outcome == "failed"

    values = {"selection": token_in(answer), "reason": "later", "until": "2090-01-01T00:00"}
    assert client.post(act_url("hold"), values).status_code == 302
    job.refresh_from_db()
    assert f"{job.hold_until:%Y-%m-%d}" == "2090-01-01"
    assert events(job) == ["job.queued", "job.put_on_hold"]


def test_what_is_refused_of_no_field_stands_above_the_form(
    as_: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(**request: Any) -> None:
        raise InvalidArgument("It fits nowhere.", errors=[FieldFault("/elsewhere", "odd")])

    toy = replace(PAUSE, name="toy", run=refuse)
    monkeypatch.setitem(verbs._verbs, ("jobs.job", "toy"), toy)

    answer = confirm(as_("operator"), "toy", make_job().task_id)

    assert answer.status_code == 422
    assert "Not done: It fits nowhere." in answer.content.decode()


def test_the_life_of_a_job_says_until_when_it_was_put_on_hold(as_: Any, make_job: Any) -> None:
    job = make_job()
    until = datetime(2090, 1, 1, 2, tzinfo=timezone(timedelta(hours=2)))
    controls.hold(task_id=job.task_id, until=until, **ANNA)

    page = as_("viewer").get(reverse("admin:jobs_job_change", args=(job.pk,)))

    assert "put on hold until 2090-01-01 00:00:00Z" in page.content.decode()


@pytest.mark.parametrize(
    ("name", "state"),
    [("accept", "completed"), ("send_back", "queued"), ("review_reject", "failed")],
)
def test_a_delivered_job_is_reviewed(as_: Any, delivered: Any, name: str, state: str) -> None:
    job = delivered(review_required=True)

    confirm(as_("approver"), name, job.task_id)

    job.refresh_from_db()
    assert job.state == state


def test_an_escalation_is_resolved(
    as_: Any, make_job: Any, hermes: Principal, entry_of: Any
) -> None:
    job = make_job()
    attempt = claim(job, hermes, entry_of(hermes))
    transitions.escalate(
        entry=entry_of(hermes),
        task_id=job.task_id,
        attempt=attempt["attempt"],
        fencing_token=attempt["fencing_token"],
        reason="May I?",
    )
    client = as_("operator")
    inbox = client.get(reverse("admin:console_inbox")).content.decode()

    confirm(client, "resolve", job.task_id, resolution="complete")

    job.refresh_from_db()
    assert "May I?" in inbox
    assert job.state == "completed"
    assert "May I?" not in client.get(reverse("admin:console_inbox")).content.decode()


def test_no_form_writes_a_job(as_: Any, make_job: Any) -> None:
    job = make_job()
    user = User.objects.create_superuser("root")
    client = Client()
    client.force_login(user)

    for name, args in (("add", ()), ("delete", (job.pk,))):
        assert client.get(reverse(f"admin:jobs_job_{name}", args=args)).status_code == 403
    client.post(reverse("admin:jobs_job_change", args=(job.pk,)), {"state": "completed"})

    job.refresh_from_db()
    assert (job.state, events(job)) == ("queued", ["job.queued"])


def test_the_job_page_shows_payloads_only_to_who_may_see_them(as_: Any, delivered: Any) -> None:
    job = delivered()
    url = reverse("admin:jobs_job_change", args=(job.pk,))
    raw = reverse("admin:jobs_job_payload", args=(job.pk, "result-1"))

    operator, viewer = as_("operator"), as_("viewer")
    seen = operator.get(url).content.decode()

    assert "&quot;words&quot;: 3" in seen
    assert "very secret" not in seen + operator.get(raw).content.decode()
    assert "&quot;words&quot;: 3" not in viewer.get(url).content.decode()
    assert viewer.get(raw).status_code == 403
    assert "audit chain verified" in seen


def test_pages_need_a_bounded_number_of_queries(as_: Any, make_job: Any, delivered: Any) -> None:
    delivered(review_required=True)
    make_job(execution_approval_required=True)
    client = as_("governor")
    counted = {}
    for page in (
        reverse("admin:index"),
        reverse("admin:console_inbox"),
        reverse(LIST),
        reverse(LIST) + "?agent=hermes&state__exact=held&since=24h&q=task",
        reverse("admin:jobs_attempt_changelist"),
        reverse("admin:governance_auditevent_changelist") + "?q=task-1",
        reverse("admin:governance_fact_changelist"),
        reverse("admin:governance_streamhold_changelist"),
    ):
        client.get(page)
        with CaptureQueriesContext(connection) as queries:
            assert client.get(page).status_code == 200
        counted[page] = len(queries)

    assert counted.pop(reverse("admin:index")) <= OVERVIEW_QUERIES_MAX
    assert counted.pop("/admin/inbox/") <= INBOX_QUERIES_MAX
    assert {page: count for page, count in counted.items() if count > QUERIES_MAX} == {}


def test_lists_go_on_by_key_in_both_directions(
    as_: Any, make_job: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = as_("viewer")
    names = [make_job().task_id for _ in range(5)]
    monkeypatch.setattr(admin.site.get_model_admin(Job), "list_per_page", 2)

    first = client.get(reverse(LIST))
    second = client.get(reverse(LIST) + link(first, "next"))
    third = client.get(reverse(LIST) + link(second, "next"))
    back = client.get(reverse(LIST) + link(third, "prev"))

    assert [shown(page) for page in (first, second, third, back)] == [
        names[:2:-1],
        names[2:0:-1],
        names[:1],
        names[2:0:-1],
    ]
    assert link(third, "next") == ""


def link(page: Any, rel: str) -> str:
    found = re.search(rf'href="([^"]+)" rel="{rel}"', page.content.decode())
    return found.group(1).replace("&amp;", "&") if found else ""


def shown(page: Any) -> list[str]:
    return [row.task_id for row in page.context["cl"].result_list]


@pytest.mark.parametrize("over", [0, 3, 8, 13, 36])
def test_a_job_is_found_by_the_beginning_of_its_ids(as_: Any, make_job: Any, over: int) -> None:
    job = make_job(task_id="find-me-1")
    make_job(task_id="other")
    client = as_("viewer")
    by_task = client.get(reverse(LIST), {"q": "find-me"})
    by_job = client.get(reverse(LIST), {"q": str(job.job_id)[:over] if over else "nothing"})

    assert shown(by_task) == ["find-me-1"]
    assert ("find-me-1" in shown(by_job)) == bool(over)


def test_an_unknown_filter_is_refused(as_: Any, make_job: Any) -> None:
    make_job()

    answer = as_("viewer").get(reverse(LIST), {"colour": "red"})

    assert answer.status_code == 302
    assert answer.url.endswith("?e=1")


def test_an_export_holds_the_filtered_rows(as_: Any, make_job: Any) -> None:
    make_job(task_id="a-1")
    make_job(task_id="a-2")
    make_job(task_id="b-1")
    client = as_("operator")
    url = reverse("admin:jobs_job_export", args=("csv",))

    table = b"".join(client.get(url, {"q": "a-"}).streaming_content).decode()
    lines = b"".join(
        client.get(url.replace("csv", "jsonl"), {"q": "a-"}).streaming_content
    ).decode()

    assert [row["task_id"] for row in csv.DictReader(table.splitlines())] == ["a-2", "a-1"]
    assert [json.loads(line)["task_id"] for line in lines.splitlines()] == ["a-2", "a-1"]
    assert as_("viewer").get(url).status_code == 403


def exports() -> list[tuple[str, dict[str, Any]]]:
    """Return what the audit trail says of exports: action and details."""
    found = AuditEvent.objects.filter(subject="fleet", action__startswith="export.").order_by("seq")
    assert {event.actor for event in found} <= {"user:operator"}
    return [(event.action, json.loads(bytes(event.body))["details"]) for event in found]


def test_an_export_is_on_the_audit_trail_with_who_what_and_how_many(
    as_: Any, make_job: Any
) -> None:
    make_job(task_id="a-1")
    make_job(task_id="a-2")
    make_job(task_id="b-1")
    url = reverse("admin:jobs_job_export", args=("jsonl",))

    response = as_("operator").get(url, {"q": "a-"})
    [(action, begun)] = exports()
    assert len(list(response.streaming_content)) == 2
    [_, (last, ended)] = exports()

    assert (action, last) == ("export.begun", "export.ended")
    assert begun == {
        "export_id": begun["export_id"],
        "list": "jobs.job",
        "form": "jsonl",
        "filter": "q=a-",
    }
    assert ended == begun | {"rows": 2, "whole": True}


def test_an_export_that_was_cut_off_says_how_far_it_came(as_: Any, make_job: Any) -> None:
    for _ in range(3):
        make_job()
    response = as_("operator").get(reverse("admin:jobs_job_export", args=("jsonl",)))

    next(response.streaming_content)
    for close in response._resource_closers:  # as the server does; close() drops the connection too
        close()

    [_, (_, ended)] = exports()
    assert (ended["rows"], ended["whole"]) == (1, False)


def test_an_export_that_is_refused_is_not_noted(as_: Any, make_job: Any) -> None:
    make_job()

    assert as_("viewer").get(reverse("admin:jobs_job_export", args=("csv",))).status_code == 403

    assert exports() == []


def evidence_of(client: Client, job: Job, **fields: str) -> Any:
    return client.post(reverse("admin:jobs_job_evidence", args=(job.pk,)), fields)


def test_the_evidence_of_a_job_is_a_download_that_holds(
    as_: Any, make_job: Any, tmp_path: Path
) -> None:
    job = make_job(inputs={"colour": "red", "api_key": "hush-hush"})
    client = as_("operator")
    page = client.get(reverse("admin:jobs_job_change", args=(job.pk,))).content.decode()
    assert reverse("admin:jobs_job_evidence", args=(job.pk,)) in page

    keyid = envelopes.active_key().keyid
    for fields, with_goal in (({}, False), ({"payloads": "yes"}, True)):
        answer = evidence_of(client, job, **fields)
        path = tmp_path / "e.zip"
        path.write_bytes(b"".join(answer.streaming_content))
        with zipfile.ZipFile(path) as archive:
            whole = b"".join(archive.read(name) for name in archive.namelist())
            envelope = json.loads(archive.read("envelope.json"))
        found = verify_evidence.verify(path, [keyid]).lines
        assert [line for line in found if line[0] == "FAILS"] == []
        assert (job.task.goal.encode() in whole) is with_goal
        # What a page redacts does not leave here either, nor in the envelope.
        assert b"hush-hush" not in whole and "payload" not in envelope
        assert answer["Content-Disposition"] == f'attachment; filename="evidence-{job.job_id}.zip"'
    forms = [details["form"] for _, details in exports()]
    assert forms == ["evidence"] * 2 + ["evidence with payloads"] * 2


def test_evidence_leaves_only_for_who_may_export_it(as_: Any, make_job: Any) -> None:
    job = make_job()
    viewer = as_("viewer")
    assert evidence_of(viewer, job).status_code == 403
    page = viewer.get(reverse("admin:jobs_job_change", args=(job.pk,))).content.decode()
    assert reverse("admin:jobs_job_evidence", args=(job.pk,)) not in page

    exporter = User.objects.get(username="viewer")
    exporter.user_permissions.add(Permission.objects.get(codename="export_evidence"))
    assert evidence_of(viewer, job, payloads="yes").status_code == 403
    assert AuditEvent.objects.filter(action="export.begun").count() == 0
    answer = evidence_of(viewer, job)
    assert b"".join(answer.streaming_content)[:2] == b"PK"
    url = reverse("admin:jobs_job_evidence", args=(job.pk,))
    assert viewer.get(url).status_code == 405
    assert evidence_of(viewer, Job(pk=10**6)).status_code == 404


def test_a_view_is_saved_shared_and_forgotten(as_: Any, make_job: Any) -> None:
    make_job()
    operator, viewer = as_("operator"), as_("viewer")
    url = reverse("admin:jobs_job_save_view")
    query = "state__exact=held"

    operator.post(url, {"name": "held ones", "query": query, "shared": "on"})
    operator.post(url, {"name": "mine", "query": query})

    seen = viewer.get(reverse(LIST)).content.decode()
    assert "held ones" in seen
    assert ">mine<" not in seen
    pk = SavedView.objects.get(name="held ones").pk
    assert viewer.post(f"{url}{pk}/forget/").status_code == 404
    assert operator.post(f"{url}{pk}/forget/").status_code == 302
    assert SavedView.objects.filter(name="held ones").count() == 0


def test_live_parts_answer_401_when_signed_out_and_keep_no_session_alive(
    as_: Any, make_job: Any
) -> None:
    job = make_job()
    client = as_("viewer")
    paths = [
        reverse("admin:console_live", args=("queues",)),
        reverse("admin:jobs_job_live", args=(job.pk,)),
    ]

    for path in paths:
        answer = client.get(path)
        assert (answer.status_code, answer.cookies.keys()) == (200, set())
        assert Client().get(path).status_code == 401


def test_a_user_without_any_group_sees_nothing(world: None) -> None:
    client = Client()
    client.force_login(User.objects.create_user("nobody", is_staff=True))

    assert "nothing that you may see" in client.get(reverse("admin:index")).content.decode()
    assert client.get(reverse("admin:console_inbox")).status_code == 403
    assert client.get(reverse(LIST)).status_code == 403
