"""How gunicorn serves: `gunicorn -c python:governance.gunicorn_conf governance.wsgi`.

`WEB_CONCURRENCY`, `FENCEPOST_THREADS`   processes, and threads of each
`FENCEPOST_BIND`                         address, `127.0.0.1:8000`
`FENCEPOST_TLS_CERT`, `FENCEPOST_TLS_KEY`, `FENCEPOST_TLS_CLIENT_CA`
                                         serve TLS, and ask clients for a certificate of that CA
"""

from __future__ import annotations

import os
import shutil
import ssl
import sys
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any

from governance.local import folder

PROCESSES_MAX = 8
#: Of the embedded server's 200, some are for the sweeper, the relay and for people.
CONNECTIONS_MAX = 160
#: A client that stops in the middle of the handshake holds a thread no longer than this.
HANDSHAKE_SECONDS = 5.0

bind = os.environ.get("FENCEPOST_BIND", "127.0.0.1:8000")
worker_class = "gthread"
workers = int(os.environ.get("WEB_CONCURRENCY") or min(os.cpu_count() or 1, PROCESSES_MAX))
threads = int(os.environ.setdefault("FENCEPOST_THREADS", "16"))
keepalive = 30
graceful_timeout = 10
timeout = 60
#: In `$HOME` by default, where it would be shared with every other gunicorn.
control_socket_disable = True
worker_tmp_dir = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108
#: One line per request is in the service's own log, with its ids.
accesslog = None

os.environ.setdefault("FENCEPOST_POOL_MAX", str(max(2, min(threads, CONNECTIONS_MAX // workers))))
_metrics = Path(
    os.environ.setdefault("PROMETHEUS_MULTIPROC_DIR", str(folder.data_folder() / "metrics"))
)

if certificate := os.environ.get("FENCEPOST_TLS_CERT"):
    certfile = certificate
    keyfile = os.environ.get("FENCEPOST_TLS_KEY") or certificate
    ca_certs = os.environ.get("FENCEPOST_TLS_CLIENT_CA") or None
    cert_reqs = ssl.CERT_OPTIONAL if ca_certs else ssl.CERT_NONE
    do_handshake_on_connect = True


class _BoundedHandshake(ssl.SSLContext):
    """A context whose handshake, and nothing after it, has a time-out."""

    def wrap_socket(self, sock: Any, *args: Any, **kwargs: Any) -> ssl.SSLSocket:
        before = sock.gettimeout()
        sock.settimeout(HANDSHAKE_SECONDS)
        wrapped = super().wrap_socket(sock, *args, **kwargs)
        wrapped.settimeout(before)
        return wrapped


@lru_cache(maxsize=1)
def _context() -> ssl.SSLContext:
    context = _BoundedHandshake(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certfile, keyfile)
    if ca_certs:
        context.load_verify_locations(ca_certs)
    context.verify_mode = cert_reqs
    return context


def ssl_context(config: Any, default: Callable[[], ssl.SSLContext]) -> ssl.SSLContext:
    """Return the one context of this process: gunicorn asks at every connection."""
    return _context()


def on_starting(server: Any) -> None:
    """Forget the counters of processes of a former run."""
    shutil.rmtree(_metrics, ignore_errors=True)
    _metrics.mkdir(mode=0o700, parents=True)


def post_worker_init(worker: Any) -> None:
    """Let gunicorn's own refusals, of what is no HTTP or too long, look like all others."""
    from gunicorn import util

    from governance.web.unread_bodies import write_problem

    util.write_error = write_problem


def child_exit(server: Any, worker: Any) -> None:
    from prometheus_client import multiprocess

    multiprocess.mark_process_dead(worker.pid)


def _logging() -> dict[str, Any]:
    """Return the service's log configuration, for gunicorn's own lines."""
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
    from governance.settings import LOGGING

    return LOGGING | {"loggers": {"gunicorn.error": {"level": "INFO", "propagate": True}}}


logconfig_dict = _logging()
