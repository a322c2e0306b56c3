"""How this worker reaches others: proxies, certificates, and what is said when it cannot.

Certificates that are renewed on disk are taken by the next connection that is made.

Proxies come from the environment (`HTTPS_PROXY`, `HTTP_PROXY`, `ALL_PROXY`, `NO_PROXY`), and
never stand before this machine itself.  Trusted are the system's certificates, or those of
`SSL_CERT_FILE` or `SSL_CERT_DIR` in their place, and `--ca` beside them.
"""

import ipaddress
import logging
import os
import re
import ssl
import threading
import urllib.request
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import httpx2

from fencepost_worker.timing import steady_now

log = logging.getLogger("fencepost_worker")

MAX_CAUSE_CHARS = 300
#: Where certificates are named that stand in place of the system's.
SYSTEM_VARIABLES = ("SSL_CERT_FILE", "SSL_CERT_DIR")
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


class RenewedContext(ssl.SSLContext):
    """Wraps each connection in certificates as their files are when it is made.

    Files that cannot be used, as in the middle of being renewed, change nothing: those of before
    serve on. Thread-safe.
    """

    def __new__(cls, *args: Any) -> "RenewedContext":
        """Make one of clients."""
        return super().__new__(cls, ssl.PROTOCOL_TLS_CLIENT)

    def __init__(self, paths: Sequence[Path], read: Callable[[], ssl.SSLContext]) -> None:
        """Read the certificates.

        :param paths: files and folders of which `read` makes a context.
        :raises CertificatesUnusable: as `read` does.
        """
        self._paths = paths
        self._read = read
        self._lock = threading.Lock()
        self._protocols: list[str] = []
        self._seen = self._complaint = self._marks()
        self._context = read()

    def current(self) -> ssl.SSLContext:
        """Return the context of the files as they are, or as they last could be used."""
        with self._lock:
            # Before they are read: what is renewed meanwhile is seen again.
            marks = self._marks()
            if marks != self._seen:
                self._renew(marks)
            return self._context

    def set_alpn_protocols(self, alpn_protocols: Iterable[str]) -> None:
        """Name the protocols that connections are for, before one is wrapped."""
        self._protocols = list(alpn_protocols)

    def wrap_socket(self, *args: Any, **options: Any) -> ssl.SSLSocket:
        """Wrap a socket; see `ssl.SSLContext`."""
        return self._ready().wrap_socket(*args, **options)

    def wrap_bio(self, *args: Any, **options: Any) -> ssl.SSLObject:
        """Wrap buffers, as event loops do; see `ssl.SSLContext`."""
        return self._ready().wrap_bio(*args, **options)

    def _ready(self) -> ssl.SSLContext:
        context = self.current()
        if self._protocols:
            context.set_alpn_protocols(self._protocols)
        return context

    def _renew(self, marks: "Marks") -> None:
        try:
            self._context = self._read()
        except CertificatesUnusable as error:
            if marks != self._complaint:
                log.warning("certificates of before serve on: %s", error)
            self._complaint = marks
        else:
            log.info("certificates were renewed")
            self._seen = self._complaint = marks

    def _marks(self) -> "Marks":
        return tuple(_mark(path) for path in self._paths)


#: What changes when a file is written, or another one takes its name.
Marks: TypeAlias = tuple[tuple[int, int, int] | None, ...]


def _mark(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_ino, found.st_size


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
        systems = [os.environ.get(name) for name in SYSTEM_VARIABLES]
        paths = [Path(path) for path in (*systems, ca, cert, key) if path]
        self._context = RenewedContext(paths, lambda: _context(ca=ca, cert=cert, key=key))

    @property
    def certificates(self) -> ssl.SSLContext:
        """Return what connections that are made now prove and trust; another one once renewed."""
        return self._context.current()

    def client(self, **options: Any) -> httpx2.Client:
        """Return a client; the options are those of `httpx2.Client`. Redirects are not followed."""
        return httpx2.Client(**self._options(options))

    def async_client(self, **options: Any) -> httpx2.AsyncClient:
        """Return a client for coroutines; see `client`."""
        return httpx2.AsyncClient(**self._options(options))

    def _options(self, options: dict[str, Any]) -> dict[str, Any]:
        ours = {"verify": self._context, "mounts": LOOPBACK, "follow_redirects": False}
        return ours | options


def _context(*, ca: Path | None, cert: Path | None, key: Path | None) -> ssl.SSLContext:
    """Return a context of the files as they are.

    :raises CertificatesUnusable: a file is not there, or is not what it must be.
    """
    context: ssl.SSLContext = _read(" or ".join(SYSTEM_VARIABLES), httpx2.create_ssl_context)
    if ca is not None:
        _read(str(ca), lambda: context.load_verify_locations(cafile=ca))
    if cert is not None:
        named = str(cert) if key is None else f"{cert} with {key}"
        # A key with a passphrase is refused: nobody is there to be asked for it.
        _read(named, lambda: context.load_cert_chain(cert, key, password=""))
    return context


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
