"""Paths of this app below `/v1`."""

from django.urls import path

from agents.web import views

urlpatterns = [
    path("agents/<str:agent>/activate", views.Activate.as_view()),
    path("agents/<str:agent>/heartbeat", views.Heartbeat.as_view()),
    path("agents/<str:agent>/admission", views.Admission.as_view()),
    path("agents/<str:agent>/status", views.Status.as_view()),
    path("agents/<str:agent>/bootstrap", views.Bootstrap.as_view()),
]
