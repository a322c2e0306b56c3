"""What is told without a credential: alive, ready, how much of what, and the public keys."""

from __future__ import annotations

import hmac
import ipaddress
from collections.abc import Iterable

from django.conf import settings
from django.db import DatabaseError, connection
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound, JsonResponse
from django.views.decorators.http import require_safe
from prometheus_client import CONTENT_TYPE_LATEST

from governance.core import schema
from governance.evidence import envelopes
from governance.relay import pulse
from governance.web import metrics


@require_safe
def healthz(request: HttpRequest) -> HttpResponse:
    """GET /healthz: this process answers. Asks nobody else."""
    return JsonResponse({"status": "ok"})


@require_safe
def readyz(request: HttpRequest) -> HttpResponse:
    """GET /readyz: 200 when requests can be served, else 503; `checks` says what is wanting.

    `degraded` names the background processes that are silent, and what else is amiss. That takes
    nothing out of service: requests are served nevertheless.
    """
    found: dict[str, str] = {}
    try:
        found["database"] = "ok" if reachable() else "no answer"
        found["migrations"] = finding(schema.missing_migrations())
        found["triggers"] = finding(schema.missing_triggers())
    except DatabaseError:
        # Not the reason: it names hosts and roles, and anybody may ask.
        found["database"] = "unreachable"
    ready = all(state == "ok" for state in found.values())
    content = {
        "status": "ready" if ready else "not ready",
        "checks": found,
        "degraded": pulse.degraded() if ready else [],
    }
    return JsonResponse(content, status=200 if ready else 503)


@require_safe
def metrics_page(request: HttpRequest) -> HttpResponse:
    """GET /metrics: Prometheus' text format, for this machine or the bearer of the token."""
    if not may_scrape(request):
        return HttpResponseNotFound()
    return HttpResponse(metrics.exposition(), content_type=CONTENT_TYPE_LATEST)


@require_safe
def keys(request: HttpRequest) -> HttpResponse:
    """GET /.well-known/fencepost/keys.json: what workers verify envelopes with."""
    answer = JsonResponse(envelopes.public_keys())
    answer["Cache-Control"] = "public, max-age=60"
    return answer


def may_scrape(request: HttpRequest) -> bool:
    """Return whether the caller has the token, or is this machine where no token is set."""
    if token := settings.METRICS_TOKEN:
        sent = request.headers.get("Authorization", "")
        return hmac.compare_digest(sent.encode(), f"Bearer {token}".encode())
    if "X-Forwarded-For" in request.headers:
        return False
    try:
        return ipaddress.ip_address(request.META.get("REMOTE_ADDR", "")).is_loopback
    except ValueError:
        return False


def reachable() -> bool:
    """Return whether the database answers."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT 1")
        return cursor.fetchone() == (1,)


def finding(missing: Iterable[str]) -> str:
    """Return what a probe says of what is missing: `ok`, or its names."""
    names = sorted(missing)
    return f"missing: {', '.join(names)}" if names else "ok"
