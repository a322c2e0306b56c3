"""People whom an OpenID Connect issuer vouches for: who they are, and in which ready groups."""

from __future__ import annotations

from typing import Any, NoReturn

from allauth.account.adapter import get_adapter as get_account_adapter
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from django.conf import settings
from django.core.exceptions import ValidationError
from django.http import HttpRequest
from django.shortcuts import render

from agents.transitions import operators
from governance.core.permissions import GROUPS

ACTOR = "system:sign-in"
#: Of the names in a groups claim at most so many are read.
CLAIMED_MAX = 1000


class IssuerAdapter(DefaultSocialAccountAdapter):
    """At each sign-in the issuer's groups are the groups; an account of ours is never taken over.

    Accounts are tied to the issuer's subject, not to a name or an e-mail address, which people
    may change.
    """

    def pre_social_login(self, request: HttpRequest, sociallogin: Any) -> None:
        if sociallogin.state.get("process") not in {None, "login"}:
            refuse(request, "Accounts are not tied to each other here.")
        claims = sociallogin.account.extra_data
        token, info = claims.get("id_token") or {}, claims.get("userinfo") or {}
        if token.get("sub") is None or token["sub"] != info.get("sub", token["sub"]):
            refuse(request, "The issuer did not say clearly who you are.")
        groups = ready_groups(token) or ready_groups(info)
        if sociallogin.is_existing:
            place(sociallogin.user, groups)
        if not groups:
            refuse(request, "The issuer names no group of yours that may use this console.")
        if not sociallogin.is_existing:
            # Mail is not what accounts are found by.
            sociallogin.email_addresses = []
            self._refuse_taken(request, sociallogin.user.get_username())

    def is_open_for_signup(self, request: HttpRequest, sociallogin: Any) -> bool:
        return True

    def save_user(self, request: HttpRequest, sociallogin: Any, form: Any = None) -> Any:
        user = super().save_user(request, sociallogin, form)
        claims = sociallogin.account.extra_data
        place(user, ready_groups(claims["id_token"]) or ready_groups(claims.get("userinfo") or {}))
        return user

    @staticmethod
    def _refuse_taken(request: HttpRequest, username: str) -> None:
        try:
            if not username:
                raise ValidationError("The issuer gives no preferred_username.")
            get_account_adapter().clean_username(username)
        except ValidationError as error:
            refuse(request, f"No account can be made: {' '.join(error.messages)}")


def ready_groups(claims: dict[str, Any]) -> set[str]:
    """Return the ready groups that the claims put a person in."""
    found: Any = claims
    for name in settings.OIDC_GROUPS_CLAIM.split("."):
        found = found.get(name) if isinstance(found, dict) else None
    listed = found[:CLAIMED_MAX] if isinstance(found, list) else [found]
    named = {name for name in listed if isinstance(name, str)}
    return {group for group in GROUPS if settings.OIDC_GROUPS.get(group, group) in named}


def place(user: Any, groups: set[str]) -> None:
    reason = f"The groups that {settings.OIDC_ISSUER} states."
    operators.place(username=user.get_username(), groups=groups, actor=ACTOR, reason=reason)
    user.refresh_from_db(fields=["is_staff"])


def refuse(request: HttpRequest, why: str) -> NoReturn:
    page = render(request, "account/refused.html", {"why": why}, status=403)
    raise ImmediateHttpResponse(page)
