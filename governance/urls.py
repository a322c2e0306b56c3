"""Every door of the service: the worker API, the console, the probes."""

from django.contrib import admin
from django.urls import include, path
from django.views.generic import RedirectView

urlpatterns = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("", include("governance.api_urls")),
    path("v1/", include("agents.urls")),
    path("v1/", include("jobs.urls")),
    path("objects/", include("jobs.object_urls")),
    path("admin/", admin.site.urls),
]
