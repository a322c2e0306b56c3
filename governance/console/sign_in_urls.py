"""Of allauth's many pages those that the console needs: none signs up, none sends mail."""

from __future__ import annotations

from allauth.account import views as account
from django.conf import settings
from django.urls import URLPattern, path

urlpatterns: list[URLPattern] = [
    path("", account.login, name="account_login"),
    # Leaves a sign-in that waits for its code.
    path("out/", account.logout, name="account_logout"),
    path("inactive/", account.account_inactive, name="account_inactive"),
    path("again/", account.reauthenticate, name="account_reauthenticate"),
]

if settings.TOTP:
    from allauth.mfa.base import views as mfa
    from allauth.mfa.recovery_codes import views as codes
    from allauth.mfa.totp import views as totp

    from governance.console.second_factor import Enrol

    urlpatterns += [
        path("second-factor/", mfa.index, name="mfa_index"),
        path("second-factor/code/", mfa.authenticate, name="mfa_authenticate"),
        path("second-factor/again/", mfa.reauthenticate, name="mfa_reauthenticate"),
        path("second-factor/app/", Enrol.as_view(), name="mfa_activate_totp"),
        path("second-factor/app/remove/", totp.deactivate_totp, name="mfa_deactivate_totp"),
        path("second-factor/codes/", codes.view_recovery_codes, name="mfa_view_recovery_codes"),
        path(
            "second-factor/codes/new/",
            codes.generate_recovery_codes,
            name="mfa_generate_recovery_codes",
        ),
        path(
            "second-factor/codes/file/",
            codes.download_recovery_codes,
            name="mfa_download_recovery_codes",
        ),
    ]

if settings.OIDC_ISSUER:
    from allauth.socialaccount import views as social
    from allauth.socialaccount.providers.openid_connect import views as issuer

    named = {"provider_id": "issuer"}
    urlpatterns += [
        path("issuer/", issuer.login, named, name="openid_connect_login"),
        path("issuer/callback/", issuer.callback, named, name="openid_connect_callback"),
        path("issuer/cancelled/", social.login_cancelled, name="socialaccount_login_cancelled"),
        path("issuer/error/", social.login_error, name="socialaccount_login_error"),
    ]
