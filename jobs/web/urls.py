"""The jobs API over HTTP: paths below `/v1`."""

from governance.web.bindings import NOT_MODIFIED, Binding
from governance.web.views import paths
from jobs.operations import (
    claims,
    control,
    executions,
    facts,
    intake,
    outcomes,
    reads,
    skills,
    spend,
    uploads,
)

#: The status of what is new.
MADE = dict.fromkeys(intake.MADE, 201)
OF_JOB = "job.revision"

BINDINGS = (
    Binding("POST", "intake/task", intake.intake_task, statuses=MADE, etag=OF_JOB),
    Binding("GET", "jobs", reads.list_jobs),
    Binding("POST", "jobs", intake.queue_job, statuses=MADE, etag=OF_JOB),
    Binding("POST", "jobs/batch", intake.queue_jobs),
    Binding("POST", "jobs/complete/batch", outcomes.complete_jobs),
    Binding(
        "GET",
        "jobs/{task_id}",
        reads.get_job,
        statuses={reads.UNCHANGED: NOT_MODIFIED},
        etag="revision",
    ),
    Binding("POST", "jobs/{task_id}/claim", claims.claim_job, etag=OF_JOB),
    Binding("POST", "jobs/{task_id}/complete", outcomes.complete_job, etag=OF_JOB),
    Binding("POST", "jobs/{task_id}/fail", outcomes.fail_job, etag=OF_JOB),
    Binding("POST", "jobs/{task_id}/escalate", outcomes.escalate_job, etag=OF_JOB),
    Binding("POST", "jobs/{task_id}/defer", outcomes.defer_job, etag=OF_JOB),
    Binding(
        "POST",
        "jobs/{task_id}/reflections",
        outcomes.reflect_on_job,
        statuses={"recorded": 201},
        etag=OF_JOB,
    ),
    Binding("GET", "jobs/{task_id}/attempts", reads.list_job_attempts),
    Binding("GET", "jobs/{task_id}/events", reads.list_job_events),
    Binding("POST", "jobs/{task_id}/control", control.control_job, etag=OF_JOB),
    Binding("POST", "routes", executions.decide_route),
    Binding(
        "POST",
        "reservations/{reservation_id}/resolve",
        executions.resolve_reservation,
        statuses={"kept": 202},
    ),
    Binding("POST", "executions/permits", executions.issue_permit, statuses={"issued": 201}),
    Binding("POST", "executions", executions.start_execution, statuses={"started": 201}),
    Binding("GET", "executions/{external_request_id}", executions.get_execution),
    Binding(
        "POST",
        "executions/{external_request_id}/result",
        executions.report_result,
        statuses={"kept": 202},
    ),
    Binding("GET", "spend", spend.get_spend),
    Binding("POST", "facts", facts.record_fact),
    Binding("POST", "uploads", uploads.grant_upload, statuses={"granted": 201}),
    Binding("POST", "uploads/{upload_id}/complete", uploads.complete_upload),
    Binding("GET", "artifacts/{artifact_id}", uploads.get_artifact),
    Binding("POST", "claims", claims.claim_jobs),
    Binding("POST", "leases/heartbeat", claims.heartbeat_leases),
    Binding(
        "POST", "hermes/reflections", outcomes.reflect, statuses={"recorded": 201}, etag=OF_JOB
    ),
    Binding("GET", "hermes/skills", skills.list_skills),
    Binding("GET", "hermes/skills/{skill_id}", skills.get_skill),
    Binding("POST", "hermes/skills/{skill_id}/feedback", skills.rate_skill),
    Binding("POST", "hermes/extract-skills", skills.extract_skills),
)
urlpatterns = paths(*BINDINGS)
