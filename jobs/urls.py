"""Paths of this app below `/v1`."""

from django.urls import URLPattern

urlpatterns: list[URLPattern] = []
