"""Signing in through allauth, where the settings ask for it: nobody signs up."""

from __future__ import annotations

from allauth.account.adapter import DefaultAccountAdapter
from django.http import HttpRequest


class AccountAdapter(DefaultAccountAdapter):
    """Accounts are made by `manage.py create_operator`, or on the word of the issuer."""

    def is_open_for_signup(self, request: HttpRequest) -> bool:
        return False
