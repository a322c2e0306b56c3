"""The WSGI application that gunicorn serves."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterable
from typing import Any

from django.core.wsgi import get_wsgi_application

#: The fingerprint (hex) of the certificate that the client proved to have, or absent. Request
#: headers only make keys that begin with `HTTP_`: nobody can put it here from outside.
CLIENT_CERTIFICATE = "fencepost.client_certificate_sha256"

Environ = dict[str, Any]
Wsgi = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class ClientCertificate:
    """Note the SHA-256 of the client's certificate, where TLS ends in this process."""

    def __init__(self, application: Wsgi) -> None:
        self.application = application

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        peer = getattr(environ.get("gunicorn.socket"), "getpeercert", None)
        if peer is not None and (certificate := peer(True)):
            environ[CLIENT_CERTIFICATE] = hashlib.sha256(certificate).hexdigest()
        return self.application(environ, start_response)


os.environ.setdefault("DJANGO_SETTINGS_MODULE", "governance.settings")
application = ClientCertificate(get_wsgi_application())
