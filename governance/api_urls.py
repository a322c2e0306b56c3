"""Paths that belong to no noun: probes, metrics, public keys, the API description."""

from django.urls import path

from governance import public

urlpatterns = [
    path("healthz", public.healthz),
    path("readyz", public.readyz),
    path("metrics", public.metrics_page),
    path(".well-known/fencepost/keys.json", public.keys),
]
