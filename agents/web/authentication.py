"""Authentication over HTTP: `Authorization: Bearer TOKEN`."""

from __future__ import annotations

from drf_spectacular.extensions import OpenApiAuthenticationExtension
from rest_framework.authentication import BaseAuthentication, get_authorization_header
from rest_framework.request import Request

from agents.principals import Principal, identify
from governance.core.errors import Unauthenticated
from governance.web.client_certificates import ENVIRON_KEY

__all__ = ["BearerToken", "BearerTokenScheme", "Principal"]


class BearerToken(BaseAuthentication):
    """Authenticate a bearer token; `request.user` is the `Principal`, `request.auth` the pk of
    its credential. A request without the header stays anonymous, which no worker call admits."""

    def authenticate(self, request: Request) -> tuple[Principal, int] | None:
        scheme, _, token = get_authorization_header(request).partition(b" ")
        if scheme.lower() != b"bearer":
            return None
        try:
            principal = identify(
                token=token.strip().decode("ascii"),
                certificate_sha256=request.META.get(ENVIRON_KEY, ""),
            )
        except UnicodeDecodeError:
            raise Unauthenticated("The bearer token is not valid.") from None
        return principal, principal.credential_id

    def authenticate_header(self, request: Request) -> str:
        return 'Bearer realm="fencepost"'


class BearerTokenScheme(OpenApiAuthenticationExtension):
    """The security scheme of the API description."""

    target_class = "agents.web.authentication.BearerToken"
    name = "bearer"

    def get_security_definition(self, auto_schema: object) -> dict[str, str]:
        return {"type": "http", "scheme": "bearer", "bearerFormat": "fp_PREFIX.SECRET"}
