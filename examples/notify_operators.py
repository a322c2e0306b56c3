"""Tell people that something waits in the inbox: a receiver of Fencepost's webhook.

    WEBHOOK_SECRET=whsec_... python examples/notify_operators.py --port 8099 \\
        --console https://fencepost.example.org/admin --mail ops@example.org --smtp mail.example.org

Point `WEBHOOK_URL` of `manage.py relay` at it. Without `--mail` it prints what it would send. It
keeps in memory what it has seen, so after a restart a person may be told twice, never not at all.
"""

from __future__ import annotations

import argparse
import json
import os
import smtplib
from collections import OrderedDict
from collections.abc import Callable
from email.message import EmailMessage
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import quote

from standardwebhooks import Webhook, WebhookVerificationError

#: States in which a job has got somebody else's attention to wait for, and the words for it.
#: `needs_rework` is not among them: whoever sent the job back knows.
WAITS = {
    "held": "waits for an approval",
    "review_required": "waits for a review",
    "escalated": "has called for a human",
    "in_doubt": "has an execution whose outcome is unknown",
}
JOBS_KEPT = 10_000
BODY_BYTES_MAX = 1_000_000


class Notices:
    """Turns facts into notices: one whenever a job comes into a state that waits."""

    def __init__(self, *, console: str) -> None:
        self._console = console.rstrip("/")
        self._states: OrderedDict[str, str] = OrderedDict()

    def of(self, event: dict[str, Any]) -> str | None:
        """Return the notice that this CloudEvent gives rise to, if any.

        Facts of a job arrive in order, and a repeated one finds the state as it is.
        """
        task, state = _said(event)
        if state not in WAITS or state == self._states.get(task):
            return None
        return f"{task} {WAITS[state]}: {self._console}/jobs/job/task/{quote(task)}/"

    def keep(self, event: dict[str, Any]) -> None:
        """Remember the job's state, once what it gives rise to has been told."""
        task, state = _said(event)
        if task and state:
            self._states.pop(task, None)
            self._states[task] = state
        if len(self._states) > JOBS_KEPT:
            self._states.popitem(last=False)


def _said(event: dict[str, Any]) -> tuple[str, str]:
    data = event.get("data")
    data = data if isinstance(data, dict) else {}
    return str(data.get("task_id") or ""), str(data.get("state") or "")


def serve(
    *, port: int, secret: str, notices: Notices, tell: Callable[[str], None]
) -> ThreadingHTTPServer:
    """Return a server that answers 2xx once a fact has been told, and 4xx to anybody else."""
    signer = Webhook(secret)

    class Door(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            size = int(self.headers.get("content-length") or 0)
            if not 0 < size <= BODY_BYTES_MAX:
                return self._answer(413)
            body = self.rfile.read(size)
            try:
                signer.verify(body, {name.lower(): value for name, value in self.headers.items()})
            except WebhookVerificationError:
                return self._answer(401)
            event = json.loads(body)
            if notice := notices.of(event):
                try:
                    tell(notice)
                except OSError:
                    return self._answer(503)  # the relay comes back with the same fact
            notices.keep(event)
            self._answer(204)

        def _answer(self, status: int) -> None:
            self.send_response(status)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *args: Any) -> None: ...

    return ThreadingHTTPServer(("127.0.0.1", port), Door)


def by_mail(notice: str, *, to: str, smtp: str) -> None:
    """Send the notice as a mail."""
    mail = EmailMessage()
    mail["Subject"], mail["To"] = notice.partition(": http")[0], to
    mail["From"] = f"fencepost@{os.uname().nodename}"
    mail.set_content(notice)
    with smtplib.SMTP(smtp, timeout=10) as server:
        server.send_message(mail)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=8099)
    parser.add_argument("--console", default="http://127.0.0.1:8000/admin")
    parser.add_argument("--mail", help="who is told; without, notices are printed")
    parser.add_argument("--smtp", default="localhost")
    options = parser.parse_args()

    def tell(notice: str) -> None:
        if options.mail:
            by_mail(notice, to=options.mail, smtp=options.smtp)
        else:
            print(notice, flush=True)

    server = serve(
        port=options.port,
        secret=os.environ["WEBHOOK_SECRET"],
        notices=Notices(console=options.console),
        tell=tell,
    )
    server.serve_forever()


if __name__ == "__main__":
    main()
