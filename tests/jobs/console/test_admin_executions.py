"""The console's pages of executions, their money, artifacts and live authorizations."""

from __future__ import annotations

import hashlib
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.urls import reverse

from governance.console.models import BulkItem
from governance.core import clock
from governance.money.models import Reservation, RouteDecision
from jobs import objects
from jobs.models import Execution, Job, Lease, LiveAuthorization, Reconciliation, Upload
from jobs.transitions.sweeping import end_if_due
from tests.console import confirm
from tests.jobs.governed import Governed


@pytest.fixture
def in_doubt(governed: Governed, make_job: Any) -> Execution:
    """An execution that was started and whose worker is gone."""
    job = make_job()
    execution = governed.begin(job)
    lease = Lease.objects.get(job=job)
    Lease.objects.filter(job=job).update(expires_at=lease.granted_at - timedelta(seconds=1))
    end_if_due(task_id=job.task_id)
    return execution


INBOX = "admin:console_inbox"


@pytest.mark.parametrize(
    ("verdict", "job_state", "reservation_state"),
    [
        ("happened", "completed", "settled"),
        ("not_happened", "queued", "failed"),
        ("undetermined", "in_doubt", "in_doubt"),
    ],
)
def test_an_execution_in_doubt_is_reconciled_with_evidence(
    as_: Any, in_doubt: Execution, verdict: str, job_state: str, reservation_state: str
) -> None:
    client = as_("operator")
    xr = in_doubt.external_request_id
    assert f"{in_doubt.job.task_id}: attempt 1" in client.get(reverse(INBOX)).content.decode()

    confirm(
        client, "jobs.execution", "reconcile", xr, verdict=verdict,
        evidence="the provider's log, line 7",
        **({"input_tokens": 10, "output_tokens": 5} if verdict == "happened" else {}),
    )  # fmt: skip

    said = Reconciliation.objects.get()
    assert (said.verdict, said.decided_by) == (verdict, "user:operator")
    assert said.evidence == {"told_by_operator": "the provider's log, line 7"}
    assert Job.objects.get().state == job_state
    assert Reservation.objects.get().state == reservation_state
    client.get(reverse(INBOX))
    waits = f"{in_doubt.job.task_id}: attempt 1" in client.get(reverse(INBOX)).content.decode()
    assert waits == (verdict == "undetermined")


def test_a_verdict_without_evidence_is_not_taken(as_: Any, in_doubt: Execution) -> None:
    page = confirm(
        as_("operator"), "jobs.execution", "reconcile", in_doubt.external_request_id,
        verdict="happened",
    )  # fmt: skip

    assert page.status_code == 422
    assert Reconciliation.objects.count() == 0


def test_a_running_attempt_is_not_reconciled(as_: Any, governed: Governed, make_job: Any) -> None:
    execution = governed.begin(make_job())

    confirm(
        as_("operator"), "jobs.execution", "reconcile", execution.external_request_id,
        verdict="happened", evidence="none",
    )  # fmt: skip

    assert BulkItem.objects.get().outcome == "skipped"
    assert Reconciliation.objects.count() == 0
    assert Job.objects.get().state == "active"


def test_an_approver_does_not_reconcile(as_: Any, in_doubt: Execution) -> None:
    url = reverse("admin:jobs_execution_act", args=("reconcile",))

    assert as_("approver").get(url, {"key": in_doubt.external_request_id}).status_code == 403


def test_the_job_page_shows_the_money_of_each_attempt(as_: Any, in_doubt: Execution) -> None:
    client = as_("viewer")
    decision = RouteDecision.objects.get()
    job = in_doubt.job

    page = client.get(reverse("admin:jobs_job_change", args=(job.pk,))).content.decode()
    execution = client.get(reverse("admin:jobs_execution_change", args=(in_doubt.pk,)))

    assert str(decision.model) in page
    assert "in doubt" in page
    assert str(decision.model) in execution.content.decode()
    for name in ("routedecision", "reservation"):
        listed = client.get(reverse(f"admin:governance_{name}_changelist"), {"q": job.task_id})
        assert job.task_id in listed.content.decode()
        row = {"routedecision": decision, "reservation": decision.reservation}[name]
        shown = client.get(reverse(f"admin:governance_{name}_change", args=(row.pk,)))
        assert shown.status_code == 200
        since = client.get(reverse(f"admin:governance_{name}_changelist"), {"since": "1h"})
        assert job.task_id in since.content.decode()


def test_live_execution_is_authorized_until_a_time_and_revoked(as_: Any) -> None:
    client = as_("governor")

    confirm(
        client, "jobs.liveauthorization", "make", "new", agent="hermes", runtime="http", hours=2
    )
    grant = LiveAuthorization.objects.get()
    assert (grant.ends_at - grant.granted_at) == timedelta(hours=2)
    assert grant.granted_by == "user:governor"

    confirm(client, "jobs.liveauthorization", "revoke", grant.pk)
    grant.refresh_from_db()
    assert grant.revoked_by == "user:governor"


def test_an_operator_authorizes_nothing_live(as_: Any) -> None:
    client = as_("operator")
    page = client.get(reverse("admin:jobs_liveauthorization_changelist")).content.decode()

    assert "Authorize live execution" not in page
    url = reverse("admin:jobs_liveauthorization_act", args=("make",))
    assert client.get(url, {"key": "new"}).status_code == 403


def test_an_artifact_is_downloaded_by_who_may_see_payloads(
    as_: Any, make_job: Any, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = make_job()
    body = b"<script>alert(1)</script>"
    row = Upload.objects.create(
        upload_id=uuid4(), artifact_id=uuid4(), job=job, attempt=1, fencing_token=1,
        name='re"port.html', media_type="text/html", size_bytes=len(body),
        sha256=hashlib.sha256(body).hexdigest(), object_key="k", state="stored",
        granted_at=clock.now(), expires_at=clock.now(), stored_at=clock.now(),
    )  # fmt: skip

    class Store:
        def read(self, *, key: str) -> Any:
            return iter([body])

    monkeypatch.setattr(objects, "store", Store)
    url = reverse("admin:jobs_upload_download", args=(row.pk,))

    answer = as_("operator").get(url)

    assert b"".join(answer.streaming_content) == body
    assert answer["Content-Type"] == "application/octet-stream"
    assert answer["Content-Disposition"].startswith("attachment")
    assert as_("viewer").get(url).status_code == 403
