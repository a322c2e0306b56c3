"""Every address of the service: the API, the console, the probes."""

from django.conf import settings
from django.contrib import admin
from django.urls import URLPattern, URLResolver, include, path
from django.views.generic import RedirectView

urlpatterns: list[URLPattern | URLResolver] = [
    path("", RedirectView.as_view(pattern_name="admin:index")),
    path("", include("governance.web.urls")),
    path("v1/", include("agents.web.urls")),
    path("v1/", include("jobs.web.urls")),
    path("objects/", include("jobs.web.object_urls")),
    path("admin/", admin.site.urls),
]
if settings.ALLAUTH:
    urlpatterns.append(path("sign-in/", include("governance.console.sign_in_urls")))
