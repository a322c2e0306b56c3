"""Paths of this app below `/v1`."""

from django.urls import path

from jobs.web import execution_views, fact_views, upload_views, views

urlpatterns = [
    path("intake/task", views.IntakeTask.as_view()),
    path("jobs", views.Jobs.as_view()),
    path("jobs/batch", views.JobsBatch.as_view()),
    path("jobs/complete/batch", views.CompleteBatch.as_view()),
    path("jobs/<str:task_id>", views.JobDetail.as_view()),
    path("jobs/<str:task_id>/claim", views.ClaimJob.as_view()),
    path("jobs/<str:task_id>/complete", views.CompleteJob.as_view()),
    path("jobs/<str:task_id>/fail", views.FailJob.as_view()),
    path("jobs/<str:task_id>/escalate", views.EscalateJob.as_view()),
    path("jobs/<str:task_id>/reflections", views.ReflectOnJob.as_view()),
    path("jobs/<str:task_id>/events", views.JobEvents.as_view()),
    path("jobs/<str:task_id>/control", views.ControlJob.as_view()),
    path("routes", execution_views.Routes.as_view()),
    path(
        "reservations/<uuid:reservation_id>/resolve",
        execution_views.ResolveReservation.as_view(),
    ),
    path("executions/permits", execution_views.Permits.as_view()),
    path("executions", execution_views.Executions.as_view()),
    path("executions/<str:external_request_id>", execution_views.ExecutionDetail.as_view()),
    path(
        "executions/<str:external_request_id>/result",
        execution_views.ExecutionResult.as_view(),
    ),
    path("facts", fact_views.Facts.as_view()),
    path("uploads", upload_views.Uploads.as_view()),
    path("uploads/<uuid:upload_id>/complete", upload_views.CompleteUpload.as_view()),
    path("claims", views.Claims.as_view()),
    path("leases/heartbeat", views.Heartbeat.as_view()),
    path("hermes/reflections", views.HermesReflections.as_view()),
    path("hermes/skills", views.Skills.as_view()),
    path("hermes/skills/<int:skill_id>/feedback", views.SkillFeedback.as_view()),
    path("hermes/extract-skills", views.ExtractSkills.as_view()),
]
