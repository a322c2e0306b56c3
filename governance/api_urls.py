"""Paths that belong to no noun: probes, metrics, the API description."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
