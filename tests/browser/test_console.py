"""What operators do in the console, with a real browser: every page without a policy violation."""

from __future__ import annotations

import os
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from django.contrib.auth.models import Group, User
from playwright.sync_api import Page, expect

from agents.models import Credential, MaintenanceInhibit
from governance.console import runs, selections
from governance.console.models import BulkRun
from governance.core import clock
from governance.core.models import Fact
from governance.relay import relay
from governance.relay.models import StreamHold
from jobs import transitions
from jobs.models import Job, JobType, RetryExtension
from jobs.operations import answers
from jobs.transitions import controls
from jobs.transitions.sweeping import end_if_due
from jobs.verbs.job import PAUSE, STOP
from tests.benchmarks.console import lists
from tests.jobs.governed import Governed, price_a_model, use_a_model
from tests.money import cap, catalogue_of_two
from tests.spent import spend_for_weeks
from tests.work import expire_lease, pass_time

#: Without preloading: axe would put the style sheets into the page, which the policy refuses.
AXE = {
    "preload": False,
    "runOnly": {
        "type": "tag",
        "values": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa"],
    },
}
PageOf = Callable[..., Page]


def job_url(page: Any, job: Job) -> str:
    return f"{page.console_url}jobs/job/{job.pk}/change/"


def decide(page: Page, label: str, reason: str = "as agreed") -> None:
    """Press an act's button on a page, give a reason and confirm."""
    page.get_by_role("link", name=label, exact=True).click()
    page.get_by_label("Reason").fill(reason)
    page.get_by_role("button", name=f"{label} (1)").click()


def parked(job: Job) -> StreamHold:
    """Park the stream of a job at its first fact, as the relay does after its last try."""
    now = clock.now()
    return StreamHold.objects.create(
        sink="rabbitmq",
        stream=job.audit_subject,
        fact=Fact.objects.get(stream=job.audit_subject, sequence=1),
        tries=relay.TRIES_MAX,
        last_error="unroutable: no queue is bound",
        failed_at=now,
        next_try_at=now,
        parked_at=now,
    )


@pytest.fixture
def claimed(hermes: Any, entry_of: Any) -> Callable[[Job], dict[str, Any]]:
    def claim(job: Job) -> dict[str, Any]:
        outcome = transitions.claim(
            entry=entry_of(hermes), task_id=job.task_id, owner="hermes", lease_seconds=900
        )
        seen = answers.claimed(outcome)["job"]
        return {"attempt": seen["attempt"], "fencing_token": seen["fencing_token"]}

    return claim


def test_an_operator_signs_in_and_out(console: str, page: Page) -> None:
    user = User.objects.create_user("anna", password="a long pass phrase", is_staff=True)
    user.groups.add(Group.objects.get(name="viewer"))

    page.goto(console)
    page.get_by_label("Username").fill("anna")
    page.get_by_label("Password").fill("a long pass phrase")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    page.get_by_role("button", name="Log out").click()
    page.goto(console)
    expect(page.get_by_label("Username")).to_be_visible()


def test_a_held_job_is_approved_from_the_inbox(page_of: PageOf, make_job: Any) -> None:
    job = make_job(execution_approval_required=True, title="Send the invoices")
    page = page_of("approver")

    page.goto(f"{page.console_url}inbox/")  # type: ignore[attr-defined]
    page.get_by_role("link", name="Send the invoices").click()
    decide(page, "Approve")

    expect(page.locator(".messagelist")).to_contain_text("approved, now queued")
    job.refresh_from_db()
    assert job.state == "queued"


def test_a_review_a_rework_and_an_extension_by_one_more(
    page_of: PageOf, make_job: Any, claimed: Any, hermes: Any, entry_of: Any
) -> None:
    job = make_job(max_attempts=6)
    for _ in range(6):
        Job.objects.filter(pk=job.pk).update(available_at=job.created_at)
        transitions.fail(
            entry=entry_of(hermes), task_id=job.task_id, error_message="no", **claimed(job)
        )
    page = page_of("operator")

    page.goto(job_url(page, job))
    page.get_by_role("link", name="Rework", exact=True).click()
    page.get_by_label("+N attempts").fill("1")
    page.get_by_label("Reason").fill("the model is back")
    page.get_by_role("button", name="Rework (1)").click()

    expect(page.get_by_text("0 of 7").or_(page.get_by_text("6 of 7"))).to_be_visible()
    grant = RetryExtension.objects.get(job=job)
    assert (grant.from_max, grant.to_max, grant.granted_by) == (6, 7, "user:operator")


def test_a_result_is_accepted_and_an_escalation_resolved_from_the_inbox(
    page_of: PageOf, make_job: Any, claimed: Any, hermes: Any, entry_of: Any
) -> None:
    delivered, stuck = make_job(title="Read the report"), make_job(title="Choose a total")
    completion = {"task_id": delivered.task_id, "result": {"pages": 2}, "needs_review": True}
    transitions.complete(entry=entry_of(hermes), completions=[completion | claimed(delivered)])
    transitions.escalate(
        entry=entry_of(hermes), task_id=stuck.task_id, reason="which one?", **claimed(stuck)
    )
    page = page_of("operator")

    page.goto(f"{page.console_url}inbox/")  # type: ignore[attr-defined]
    page.get_by_role("link", name="Read the report").click()
    decide(page, "Accept")
    page.get_by_role("link", name="Inbox", exact=True).first.click()
    expect(page.locator("#escalations")).to_contain_text("which one?")
    expect(page.locator("#content")).not_to_contain_text("Read the report")
    page.get_by_role("link", name="Choose a total").click()
    page.get_by_role("link", name="Resolve escalation", exact=True).click()
    page.get_by_label("Queue it again").check()
    page.get_by_label("Reason").fill("the first one is right")
    page.get_by_role("button", name="Resolve escalation (1)").click()

    expect(page.locator("#job-head .mark").first).to_have_text("queued")
    delivered.refresh_from_db()
    assert delivered.state == "completed"


def test_everything_but_the_live_parts_works_without_scripts(
    page_of: PageOf, make_job: Any
) -> None:
    job = make_job(execution_approval_required=True, title="Send the invoices")
    others = [make_job() for _ in range(2)]
    page = page_of("governor", java_script_enabled=False)

    page.goto(page.console_url)  # type: ignore[attr-defined]
    page.get_by_role("link", name="Approvals").click()
    page.get_by_role("link", name="Send the invoices").click()
    decide(page, "Approve")
    page.goto(f"{page.console_url}jobs/job/?state__exact=queued")  # type: ignore[attr-defined]
    for box in page.locator("input.action-select").all():
        box.check()
    page.get_by_label("Action:").select_option("pause")
    page.get_by_role("button", name="Go").click()
    page.get_by_label("Reason").fill("not now")
    page.get_by_role("button", name="Pause (3)").click()

    expect(page.get_by_text("3 of 3 rows are through")).to_be_visible()
    paused = Job.objects.filter(paused=True).values_list("task_id", flat=True)
    assert set(paused) == {row.task_id for row in [job, *others]}


def test_every_list_opens_without_an_error_or_a_violation(
    page_of: PageOf, make_job: Any, claimed: Any
) -> None:
    claimed(make_job())
    page = page_of("governor")

    for path in sorted(lists()):
        answer = page.goto(page.console_url.removesuffix("/admin/") + path)  # type: ignore[attr-defined]
        assert answer is not None
        assert answer.status == 200, path


def test_an_approval_is_given_withdrawn_and_runs_out(page_of: PageOf, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)
    page = page_of("approver")

    page.goto(job_url(page, job))
    decide(page, "Approve")
    decide(page, "Withdraw approval", "the numbers have changed")
    expect(page.locator("#job-head")).to_contain_text("withdrawn by user:approver")

    decide(page, "Approve", "they are right again")
    pass_time(job, "approval_valid_until")
    end_if_due(task_id=job.task_id)
    page.goto(f"{page.console_url}inbox/")  # type: ignore[attr-defined]
    expect(page.locator("#approvals")).to_contain_text("approval expired")
    page.get_by_role("link", name=job.task_id).click()
    expect(page.locator("#job-head .state-expired")).to_have_text("expired")


def test_who_asked_is_told_why_they_cannot_approve(page_of: PageOf, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)
    Job.objects.filter(pk=job.pk).update(asked_again_by="command:approver")
    page = page_of("approver")

    page.goto(job_url(page, job))

    expect(page.get_by_text("somebody else approves it")).to_be_visible()
    expect(page.get_by_role("link", name="Approve", exact=True)).to_have_count(0)


def test_a_job_type_is_added_and_its_inputs_described(page_of: PageOf) -> None:
    page = page_of("governor")
    page.goto(f"{page.console_url}jobs/jobtype/")  # type: ignore[attr-defined]
    page.get_by_role("link", name="Add a job type").click()
    page.get_by_label("Name").fill("summary")
    page.get_by_label("Agent").select_option("hermes")
    page.get_by_label("Reason").fill("reports want summaries")
    page.get_by_role("button", name="Add a job type").click()
    expect(page.locator(".messagelist")).to_contain_text("summary goes to hermes")

    page.get_by_role("link", name="summary", exact=True).click()
    page.get_by_role("link", name="Change the schema of inputs").click()
    page.get_by_label("Inputs schema").fill('{"required": ["text"]}')
    page.get_by_label("Reason").fill("a task without text is no use")
    page.get_by_role("button", name="Change the schema of inputs (1)").click()

    expect(page.locator(".chain")).to_contain_text("audit chain verified 2 events")
    assert JobType.objects.get(name="summary").inputs_schema == {"required": ["text"]}


def test_the_search_box_can_be_used_on_a_narrow_screen(page_of: PageOf, make_job: Any) -> None:
    make_job(task_id="a-1")
    make_job(task_id="b-1")
    page = page_of("viewer", viewport={"width": 390, "height": 844})

    page.goto(f"{page.console_url}jobs/job/")  # type: ignore[attr-defined]
    box = page.locator("#searchbar").bounding_box()
    page.locator("#searchbar").fill("a-")
    page.get_by_role("button", name="Search").click()

    assert box is not None
    assert box["width"] > 120
    expect(page.locator("#result_list tbody tr")).to_have_count(1)


def test_a_job_is_stopped(page_of: PageOf, make_job: Any) -> None:
    job = make_job()
    page = page_of("operator")

    page.goto(job_url(page, job))
    decide(page, "Stop")

    expect(page.locator("#job-head .mark").first).to_have_text("stopped")
    job.refresh_from_db()
    assert job.state == "stopped"


def test_a_job_is_held_until_a_time_and_released(page_of: PageOf, make_job: Any) -> None:
    job = make_job()
    page = page_of("operator")

    page.goto(job_url(page, job))
    page.get_by_role("link", name="Hold until", exact=True).click()
    page.get_by_label("Until").fill("2100-12-24T06:00")
    page.get_by_label("Reason").fill("the prices fall then")
    page.get_by_role("button", name="Hold until (1)").click()

    head = page.locator("#job-head")
    expect(head).to_contain_text("on hold until 2100-12-24 06:00:00Z")
    job.refresh_from_db()
    assert f"{job.hold_until:%Y-%m-%d %H:%M}" == "2100-12-24 06:00"
    page.goto(f"{page.console_url}jobs/job/?on_hold=yes")  # type: ignore[attr-defined]
    expect(page.locator("#result_list")).to_contain_text("on hold until 2100-12-24 06:00:00Z")

    page.goto(job_url(page, job))
    decide(page, "Release", "they have fallen")
    expect(head).not_to_contain_text("on hold")


def test_an_execution_in_doubt_is_reconciled_from_the_inbox(
    page_of: PageOf, make_job: Any, hermes: Any
) -> None:
    price_a_model()
    use_a_model("content_prep")
    job = make_job(title="Order the parts")
    Governed(hermes).begin(job)
    expire_lease(job)
    end_if_due(task_id=job.task_id)
    page = page_of("operator")

    page.goto(f"{page.console_url}inbox/")  # type: ignore[attr-defined]
    page.get_by_role("link", name=f"{job.task_id}: attempt 1").click()
    page.get_by_role("link", name="Reconcile", exact=True).click()
    page.get_by_label("It did not happen").check()
    page.get_by_role("textbox", name="Evidence").fill("nothing in the provider's log")
    page.get_by_label("Reason").fill("the order never went out")
    page.get_by_role("button", name="Reconcile (1)").click()

    expect(page.locator(".messagelist")).to_contain_text("not happened, the job is now queued")
    job.refresh_from_db()
    assert (job.state, job.unresolved_executions) == ("queued", 0)


def test_the_fleet_is_inhibited_and_released(page_of: PageOf) -> None:
    page = page_of("operator")
    page.goto(f"{page.console_url}agents/fleet/1/change/")  # type: ignore[attr-defined]
    decide(page, "Inhibit the fleet", "new disks")
    expect(page.locator(".banner")).to_contain_text("no new work for the whole fleet")

    page.locator(".banner a").click()
    decide(page, "Lift", "the disks are in")
    expect(page.locator(".banner")).to_have_count(0)
    assert MaintenanceInhibit.objects.get().lifted_by == "user:operator"


def test_a_credential_is_made_and_rotated(page_of: PageOf) -> None:
    page = page_of("governor")
    page.goto(f"{page.console_url}agents/credential/new/agent/hermes/")  # type: ignore[attr-defined]
    page.get_by_label("Reason").fill("a new worker")
    page.get_by_role("button", name="Make it").click()
    first = page.locator("pre.token").inner_text()

    page.get_by_role("link", name="The credential").click()
    page.get_by_role("link", name="Rotate").click()
    page.get_by_label("Reason").fill("the quarter is over")
    page.get_by_role("button", name="Make it").click()

    assert page.locator("pre.token").inner_text() != first
    assert Credential.objects.count() == 2


def test_a_bulk_act_tells_of_the_row_that_changed_meanwhile(page_of: PageOf, make_job: Any) -> None:
    jobs = [make_job() for _ in range(3)]
    page = page_of("operator")
    page.goto(f"{page.console_url}jobs/job/")  # type: ignore[attr-defined]
    page.locator("#action-toggle").check()
    page.get_by_label("Action:").select_option("pause")
    page.get_by_role("button", name="Go").click()
    expect(page.get_by_role("heading", name="Pause: 3 jobs")).to_be_visible()
    transitions.stop(task_id=jobs[1].task_id, actor="user:bo", reason="meanwhile")

    page.get_by_label("Reason").fill("as agreed")
    page.get_by_role("button", name="Pause (3)").click()

    expect(page.get_by_text("3 of 3 rows are through")).to_be_visible()
    row = page.get_by_role("row", name=jobs[1].task_id)
    expect(row).to_contain_text("skipped")
    assert BulkRun.objects.get().finished_at is not None


def test_a_run_that_is_not_through_goes_on_while_it_is_watched(
    page_of: PageOf, make_job: Any
) -> None:
    jobs = [make_job() for _ in range(4)]
    page = page_of("operator")
    user = User.objects.get(username="operator")
    keys = [job.task_id for job in jobs]
    selection = selections.freeze(model="jobs.job", keys=keys, user_id=user.pk)
    run = runs.begin(verb=STOP, selection=selection, user=user, reason="x", values={})

    page.goto(f"{page.console_url}runs/{run.run_id}/")  # type: ignore[attr-defined]

    expect(page.get_by_text("4 of 4 rows are through; finished")).to_be_visible()
    assert Job.objects.filter(state="stopped").count() == 4


def test_a_viewer_is_offered_nothing(page_of: PageOf, make_job: Any) -> None:
    job = make_job(execution_approval_required=True)
    page = page_of("viewer")

    page.goto(job_url(page, job))
    expect(page.locator(".decisions")).to_have_count(0)
    page.goto(f"{page.console_url}jobs/job/")  # type: ignore[attr-defined]
    expect(page.get_by_label("Action:")).to_have_count(0)


def test_keys_lead_to_the_search_the_inbox_and_the_help(page_of: PageOf, make_job: Any) -> None:
    make_job()
    page = page_of("viewer")
    page.goto(f"{page.console_url}jobs/job/")  # type: ignore[attr-defined]

    page.keyboard.press("/")
    expect(page.locator("#searchbar")).to_be_focused()
    page.keyboard.type("g i")
    expect(page.locator("#searchbar")).to_have_value("g i")
    page.locator("#searchbar").blur()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", name="Inbox")).to_be_visible()


def test_a_parked_stream_is_found_from_the_overview_and_released(
    page_of: PageOf, make_job: Any
) -> None:
    stream = parked(make_job(task_id="unroutable"))
    page = page_of("operator")

    page.goto(page.console_url)  # type: ignore[attr-defined]
    page.get_by_role("link", name="1 stream parked").click()
    expect(page.get_by_text("no queue is bound")).to_be_visible()
    expect(page.get_by_role("link", name="unroutable")).to_be_visible()
    page.get_by_role("link", name="rabbitmq").first.click()
    decide(page, "Release", "the queue is bound now")

    expect(page.locator(".messagelist")).to_contain_text("goes to rabbitmq again")
    stream.refresh_from_db()
    assert stream.parked_at is None


def test_a_live_part_refreshes_itself_but_not_under_the_pointer(
    page_of: PageOf, make_job: Any
) -> None:
    page = page_of("viewer")
    page.goto(page.console_url)  # type: ignore[attr-defined]
    section = page.locator("#section-queues")
    hermes = section.get_by_role("row", name="hermes")
    expect(hermes.get_by_role("cell").first).to_have_text("0")
    section.hover()
    make_job()

    with page.expect_response("**/live/facts/"):
        pass
    expect(hermes.get_by_role("cell").first).to_have_text("0")
    page.mouse.move(0, 0)
    with page.expect_response("**/live/queues/"):
        pass
    expect(hermes.get_by_role("cell").first).to_have_text("1")


def test_a_page_whose_session_is_gone_says_so_and_asks_no_more(
    console: str, page: Page, make_job: Any
) -> None:
    User.objects.create_superuser("root", password="a long pass phrase")
    page.goto(console)
    page.get_by_label("Username").fill("root")
    page.get_by_label("Password").fill("a long pass phrase")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()

    page.context.clear_cookies()

    expect(page.locator(".banner-error")).to_contain_text("You are signed out", timeout=20_000)


def test_every_page_is_accessible_light_dark_and_narrow(
    page_of: PageOf, make_job: Any, claimed: Any
) -> None:
    held = make_job(execution_approval_required=True)
    active = make_job()
    claimed(active)
    back = make_job(title="Wait for the prices to fall")
    controls.hold(
        task_id=back.task_id, until=clock.now() + timedelta(hours=9), actor="user:bo", reason="so"
    )
    stream = parked(active)
    user = User.objects.create_superuser("root")
    frozen = selections.freeze(model="jobs.job", keys=[active.task_id], user_id=user.pk)
    run = runs.begin(verb=PAUSE, selection=frozen, user=user, reason="for the picture", values={})
    runs.advance(run=run)
    catalogue_of_two()
    cap("2", scope="agent", key="hermes", window="month")
    spend_for_weeks()
    out = Path(os.environ.get("FENCEPOST_SCREENSHOTS", "test-output/screenshots"))
    out.mkdir(parents=True, exist_ok=True)
    paths = {
        "overview": "",
        "inbox": "inbox/",
        "jobs": "jobs/job/?state__exact=held",
        "job": f"jobs/job/{active.pk}/change/",
        "confirm": f"jobs/job/act/approve/?key={held.task_id}",
        "hold": f"jobs/job/act/hold/?key={back.task_id}",
        "on-hold": f"jobs/job/{back.pk}/change/",
        "on-hold-list": "jobs/job/?on_hold=yes",
        "agents": "agents/agent/",
        "agent": f"agents/agent/{active.agent_id}/change/",
        "credential": "agents/credential/new/agent/hermes/",
        "audit": "governance/auditevent/",
        "budgets": "governance/budget/",
        "budget": "governance/budget/act/make/?key=new",
        "dry-run": "governance/routepolicy/dry-run/",
        "executions": "jobs/execution/",
        "job-type": "jobs/jobtype/act/make/?key=new",
        "schema": "jobs/jobtype/act/set_schema/?key=rewrite",
        "money": "governance/spendhour/money/",
        "run": f"runs/{run.run_id}/",
        "streams": "governance/streamhold/",
        "stream": f"governance/streamhold/{stream.pk}/change/",
    }
    found = []
    wide, narrow = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
    # Each look with what it may break: the dark one colours, the narrow one all but them.
    looks: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
        "light": ({"viewport": wide, "color_scheme": "light"}, AXE),
        "dark": (
            {"viewport": wide, "color_scheme": "dark"},
            AXE | {"runOnly": {"type": "rule", "values": ["color-contrast"]}},
        ),
        "narrow": (
            {"viewport": narrow, "color_scheme": "light"},
            AXE | {"rules": {"color-contrast": {"enabled": False}}},
        ),
    }
    for look, (context, rules) in looks.items():
        page = page_of("governor", **context)
        for name, path in paths.items():
            page.goto(page.console_url + path)  # type: ignore[attr-defined]
            page.screenshot(path=out / f"{name}-{look}.png", full_page=True)
            result = Axe().run(page, options=rules)
            found += [
                (look, name, rule["id"], [node["target"] for node in rule["nodes"]])
                for rule in result.response["violations"]
            ]
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > context["viewport"]["width"]:
                found.append((look, name, "wider than the screen", [width]))
    assert found == []
