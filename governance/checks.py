"""What must not be deployed: refused when a command or a server starts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, Tags, register
from django.db import DatabaseError

from governance.core import ownership, schema

LOOPBACK = {"127.0.0.1", "localhost", "::1", "testserver"}


@register
def each_move_is_its_own_transaction(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    if not settings.DATABASES["default"].get("ATOMIC_REQUESTS"):
        return []
    return [
        Error(
            "ATOMIC_REQUESTS is on: a refusal could not be stored as its answer.",
            id="governance.E001",
        )
    ]


@register(Tags.security)
def nobody_is_reached_in_the_clear(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    address = urlsplit(settings.PUBLIC_URL)
    if address.scheme == "https" or address.hostname in LOOPBACK:
        return []
    return [
        Error(
            f"FENCEPOST_URL is {settings.PUBLIC_URL}: tokens and sessions would cross the network "
            "in the clear.",
            hint="Serve TLS, here or in a proxy, and give the https address.",
            id="governance.E002",
        )
    ]


@register(Tags.security)
def the_issuer_is_who_it_says(
    app_configs: Sequence[AppConfig] | None, **kwargs: Any
) -> list[CheckMessage]:
    issuer = urlsplit(settings.OIDC_ISSUER)
    if issuer.scheme in {"", "https"} or issuer.hostname in LOOPBACK:
        return []
    return [
        Error(
            f"FENCEPOST_OIDC_ISSUER is {settings.OIDC_ISSUER}: anybody on the way could sign in.",
            hint="Give the https address of the issuer.",
            id="governance.E004",
        )
    ]


@register(Tags.database)
def every_trigger_is_in_force(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    try:
        missing = schema.missing_triggers() if databases else set()
    except DatabaseError:
        return []  # readiness tells it; a check is not the place
    return [
        Error(f"The trigger {name} is missing or disabled.", id="governance.E003")
        for name in sorted(missing)
    ]


@register(Tags.database)
def no_app_stopped_within_replaced_migrations(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    try:
        stopped = schema.half_replaced() if databases else {}
    except DatabaseError:
        return []
    return [
        Error(
            f"The database stopped at {app}.{last}, within migrations of the first release that "
            "are one now.",
            hint="Let the code of version 0.1.0 migrate it to its end (its own `manage.py "
            "migrate`), then migrate with this one.",
            id="governance.E005",
        )
        for app, last in sorted(stopped.items())
    ]


@register(Tags.database, deploy=True)
def the_service_owns_no_table(
    app_configs: Sequence[AppConfig] | None, databases: Sequence[str] | None = None, **kwargs: Any
) -> list[CheckMessage]:
    try:
        owner = bool(databases) and ownership.owns_tables()
    except DatabaseError:
        return []
    if not owner:
        return []
    return [
        Error(
            "The role of DATABASE_URL may alter the tables, and so disable the triggers that "
            "guard audit trail and books.",
            hint="`manage.py split_roles --service NAME` prints what makes a second role. Then "
            "give that one in DATABASE_URL, and today's in DATABASE_OWNER_URL for `migrate`.",
            id="governance.E006",
        )
    ]
