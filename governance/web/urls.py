"""Paths that belong to no noun: probes, metrics, public keys, the API description."""

from django.urls import path

from governance.web import public, reference

urlpatterns = [
    path("healthz", public.healthz),
    path("readyz", public.readyz),
    path("metrics", public.metrics_page),
    path(".well-known/fencepost/keys.json", public.keys),
    path("v1/openapi.json", reference.openapi_document, name="openapi"),
    path("docs/", reference.openapi_page, name="api-docs"),
]
