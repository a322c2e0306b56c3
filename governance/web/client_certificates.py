"""Which client certificate a request came with: of the TLS connection, or as told by a proxy.

The fingerprint is put into the WSGI environ under a key that no header can make (headers become
`HTTP_*`).  A proxy's word counts only when the connection comes from a configured address; from
anywhere else the header is dropped before anybody can read it.

Source of the header's form: RFC 9440 (Client-Cert); nginx's escaped PEM and a plain fingerprint
are understood as well.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import re
from collections.abc import Callable, Iterable, Sequence
from ipaddress import IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Any
from urllib.parse import unquote

from cryptography import x509
from cryptography.hazmat.primitives.serialization import Encoding

#: Where the SHA-256 fingerprint (lower-case hex, empty without a certificate) is found.
ENVIRON_KEY = "fencepost.client_certificate_sha256"
#: Stands for a connection over a Unix socket in the list of trusted proxies.
UNIX = "unix"
HEADER_CHARS_MAX = 16_384

_HEX = re.compile(r"[0-9a-f]{64}")
_RFC9440 = re.compile(r":([A-Za-z0-9+/]+={0,2}):")

Environ = dict[str, Any]
Application = Callable[[Environ, Callable[..., Any]], Iterable[bytes]]


class ClientCertificates:
    """WSGI middleware that notes the client certificate's fingerprint.

    :param header: name of the header that a proxy puts the certificate into; empty: none does.
    :param proxies: addresses and networks whose word counts, or `unix`.
    :raises ValueError: one of the proxies is neither.
    """

    def __init__(
        self, application: Application, *, header: str = "", proxies: Sequence[str] = ()
    ) -> None:
        self._application = application
        self._header = f"HTTP_{header.upper().replace('-', '_')}" if header else ""
        self._unix = UNIX in proxies
        self._networks: list[IPv4Network | IPv6Network] = [
            ip_network(proxy) for proxy in proxies if proxy != UNIX
        ]

    def __call__(self, environ: Environ, start_response: Callable[..., Any]) -> Iterable[bytes]:
        header = environ.pop(self._header, "") if self._header else ""
        if self._header and self._trusted(environ.get("REMOTE_ADDR", "")):
            environ[ENVIRON_KEY] = fingerprint_of_header(header)
        else:
            environ[ENVIRON_KEY] = _fingerprint_of_connection(environ.get("gunicorn.socket"))
        return self._application(environ, start_response)

    def _trusted(self, address: str) -> bool:
        if not address:
            return self._unix
        try:
            found = ip_address(address)
        except ValueError:
            return False
        if isinstance(found, IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return any(found in network for network in self._networks)


def fingerprint_of_header(text: str) -> str:
    """Return the fingerprint that a proxy's header tells; empty where it tells none.

    Takes `:base64 DER:` (RFC 9440), a PEM certificate (also percent-encoded), or 64 hex digits.
    """
    text = text.strip()
    if not text or len(text) > HEADER_CHARS_MAX:
        return ""
    plain = text.replace(":", "").lower()
    if _HEX.fullmatch(plain):
        return plain
    try:
        if found := _RFC9440.fullmatch(text):
            return hashlib.sha256(base64.b64decode(found[1], validate=True)).hexdigest()
        certificate = x509.load_pem_x509_certificate(unquote(text).encode())
    except (ValueError, binascii.Error):
        return ""
    return hashlib.sha256(certificate.public_bytes(Encoding.DER)).hexdigest()


def _fingerprint_of_connection(socket: Any) -> str:
    """Return the fingerprint of the peer's certificate; empty without TLS or certificate."""
    read = getattr(socket, "getpeercert", None)
    if read is None:
        return ""
    try:
        der = read(True)
    except (ValueError, OSError):
        return ""
    return hashlib.sha256(der).hexdigest() if der else ""
