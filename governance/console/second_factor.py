"""The second factor: codes of an authenticator app, counted like passwords when they are wrong."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

from allauth.account.authentication import get_authentication_records
from allauth.account.internal.flows.login import record_authentication
from allauth.core import context
from allauth.mfa.adapter import DefaultMFAAdapter
from allauth.mfa.base.forms import AuthenticateForm, ReauthenticateForm
from allauth.mfa.models import Authenticator
from allauth.mfa.totp.views import ActivateTOTPView
from axes.handlers.proxy import AxesProxyHandler
from cryptography.fernet import Fernet
from django.contrib.auth.signals import user_login_failed
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.crypto import salted_hmac
from django.utils.http import urlencode


class SecondFactorAdapter(DefaultMFAAdapter):
    """Keeps the secrets encrypted: a dump of the database gives nobody a second factor."""

    def encrypt(self, text: str) -> str:
        return self._box().encrypt(text.encode()).decode()

    def decrypt(self, encrypted_text: str) -> str:
        return self._box().decrypt(encrypted_text.encode()).decode()

    @staticmethod
    def _box() -> Fernet:
        key = salted_hmac("fencepost.second-factor", "", algorithm="sha256").digest()
        return Fernet(base64.urlsafe_b64encode(key))


class _Counted:
    """A wrong code is a failed sign-in of that name, and locks it like wrong passwords."""

    user: Any

    def clean_code(self) -> str:
        request = context.request
        credentials = {"username": self.user.get_username()}
        if not AxesProxyHandler.is_allowed(request, credentials):
            request.axes_locked_out, request.axes_credentials = True, credentials
            raise ValidationError("Too many wrong codes.")
        try:
            return super().clean_code()  # type: ignore[misc]
        except ValidationError:
            user_login_failed.send(sender=__name__, credentials=credentials, request=request)
            raise


class CodeForm(_Counted, AuthenticateForm):
    """The code after the password."""


class CodeAgainForm(_Counted, ReauthenticateForm):
    """The code again, before something that matters."""


class Enrol(ActivateTOTPView):
    """Set up the app. The code that ends it has shown the second factor for this session."""

    def form_valid(self, form: Any) -> HttpResponse:
        response = super().form_valid(form)
        record_authentication(self.request, self.request.user, "mfa", type="totp")
        return response


class SecondFactorRequired:
    """Shows the console to nobody whose session has not seen a second factor."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response
        self.console = reverse("admin:index")
        self.open = {reverse("admin:login"), reverse("admin:logout"), reverse("admin:jsi18n")}

    def __call__(self, request: HttpRequest) -> HttpResponse:
        path = request.path
        if not path.startswith(self.console) or path in self.open or self._is_strong(request):
            return self.get_response(request)
        if request.headers.get("HX-Request") == "true":
            return HttpResponse("Second factor needed.", status=401)
        has_one = self._has_one(request)
        to = reverse("mfa_reauthenticate" if has_one else "mfa_activate_totp")
        came_for = path if request.method == "GET" else self.console
        return HttpResponseRedirect(f"{to}?{urlencode({'next': came_for})}")

    def _is_strong(self, request: HttpRequest) -> bool:
        user = request.user
        if not user.is_authenticated:
            return True  # the console itself sends them to sign in
        seen = {record["method"] for record in get_authentication_records(request, user)}
        # Who took the factor away in this session has to set up another.
        return "socialaccount" in seen or ("mfa" in seen and self._has_one(request))

    @staticmethod
    def _has_one(request: HttpRequest) -> bool:
        return Authenticator.objects.filter(
            user_id=request.user.pk, type=Authenticator.Type.TOTP
        ).exists()
