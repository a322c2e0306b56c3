"""How this worker reaches others: proxies, certificates, and what is said when it cannot.

Proxies come from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), and
never stand before this machine itself.  Trusted are the system's certificates, or those of
`SSL_CERT_FILE` or `SSL_CERT_DIR` in their place, and `--ca` beside them.
"""

import ipaddress
import re
import ssl
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2

from fencepost_worker.timing import steady_now

MAX_CAUSE_CHARS = 300
#: A reason that goes on is told again after so long.
TOLD_AGAIN_SECONDS = 300.0
#: Hosts that are this machine, as the client's table of proxies names them.
LOOPBACK: dict[str, None] = {
    "all://localhost": None,
    "all://*.localhost": None,
    "all://127.0.0.1": None,
    "all://[::1]": None,
}
_USER = re.compile(r"//[^/@\s]*@")


class CertificatesUnusable(Exception):
    """A certificate or key that was given cannot be read; the message names the file."""


class Network:
    """Makes the clients of one worker, all with the same proxies and certificates."""

    def __init__(
        self, *, ca: Path | None = None, cert: Path | None = None, key: Path | None = None
    ) -> None:
        """Read the certificates.

        :param ca: authorities that are trusted beside those of the system (PEM).
        :param cert: our certificate (PEM), shown to who asks for one; with its chain.
        :param key: its private key; None where the file of the certificate holds it.
        :raises CertificatesUnusable: a file is not there, or is not what it must be.
        """
        if key is not None and cert is None:
            raise CertificatesUnusable("a private key needs its certificate (--cert)")
        self._context = _read("SSL_CERT_FILE or SSL_CERT_DIR", httpx2.create_ssl_context)
        if ca is not None:
            _read(str(ca), lambda: self._context.load_verify_locations(cafile=ca))
        if cert is not None:
            named = str(cert) if key is None else f"{cert} with {key}"
            # A key with a passphrase is refused: nobody is there to be asked for it.
            _read(named, lambda: self._context.load_cert_chain(cert, key, password=""))

    def client(self, **options: Any) -> httpx2.Client:
        """Return a client; the options are those of `httpx2.Client`. Redirects are not followed."""
        return httpx2.Client(**self._options(options))

    def async_client(self, **options: Any) -> httpx2.AsyncClient:
        """Return a client for coroutines; see `client`."""
        return httpx2.AsyncClient(**self._options(options))

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        ours = {"verify": self._context, "mounts": LOOPBACK, "follow_redirects": False}
        return ours | options


def _read(named: str, read: Callable[[], Any]) -> Any:
    try:
        return read()
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", None) or getattr(error, "strerror", None) or error
        raise CertificatesUnusable(f"{named}: {reason}") from error


def is_loopback(host: str) -> bool:
    """Return whether a host is this machine, by its name or address alone."""
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def proxy_of(url: str) -> str:
    """Return host and port of the proxy that stands before an address, or "" for none."""
    parts = urlsplit(url)
    host = parts.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(host):
        return ""
    proxies = urllib.request.getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all") or ""
    # What stands before it is a password.
    return urlsplit(proxy if "://" in proxy else f"//{proxy}").netloc.rpartition("@")[2]


def cause(error: BaseException, url: str) -> str:
    """Return why an address could not be asked, in one line for a log.

    Names the host and its port, the proxy in between, and the innermost reason: of a name that is
    not found, a connection that is refused, a certificate that is not trusted.
    """
    line = f"{_place(url)}: {type(error).__name__}: {_reason(error)}"
    return _USER.sub("//", " ".join(line.split()))[:MAX_CAUSE_CHARS]


def _place(url: str) -> str:
    """Return host, port and proxy of an address; one that is none is returned as it is."""
    try:
        parts = urlsplit(url)
        port = parts.port or {"https": 443, "http": 80}.get(parts.scheme)
        proxy = proxy_of(url)
    except ValueError:
        return url
    where = f"{parts.hostname}:{port}" if port else str(parts.hostname)
    return f"{where} through the proxy {proxy}" if proxy else where


def _reason(error: BaseException) -> str:
    """Return what the innermost error says of itself."""
    seen: set[int] = set()
    reason = str(error)
    while id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {error.verify_message}"
        if isinstance(error, ssl.SSLError):
            return f"TLS: {error.reason or error}"
        if isinstance(error, OSError) and error.strerror:
            return error.strerror
        reason = str(error) or reason
        error = error.__cause__ or error.__context__ or error
    return reason or "no reason is known"


class Complaints:
    """Says when a reason is to be told: when it is new, and when it has gone on for long."""

    def __init__(self, *, now: Callable[[], float] = steady_now) -> None:
        self._now = now
        self._last: tuple[str, float] = ("", 0.0)
        self._untold = 0

    def of(self, reason: str) -> str | None:
        """Return the line to log, or None where the same was told a short while ago."""
        last, at = self._last
        now = self._now()
        if reason == last and now - at < TOLD_AGAIN_SECONDS:
            self._untold += 1
            return None
        times = f" ({self._untold} more times since)" if reason == last and self._untold else ""
        self._last, self._untold = (reason, now), 0
        return reason + times

    def settle(self) -> None:
        """Tell the reason anew when it comes again: in between it went well."""
        self._last, self._untold = ("", 0.0), 0
