"""The world outside: what is done there, which facts it hears, and the network on the way."""

from __future__ import annotations

import json
import threading
from collections import Counter, defaultdict
from collections.abc import Callable
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from random import Random
from typing import Any

import httpx2

#: Of calls on the network, each: lost on the way there, on the way back; delivered twice.
LOSS, DUPLICATES = 0.04, 0.04
#: Of facts, each: not taken for now, and taken without saying so.
FACT_LOSS = 0.003
#: What is passed on of a request, and of an answer.
HEADERS = ("Authorization", "Content-Type", "Idempotency-Key", "Fencepost-Session",
           "Fencepost-Epoch", "Fencepost-Protocol")  # fmt: skip
ANSWER_HEADERS = ("Content-Type", "Idempotent-Replayed", "Retry-After")


class Outside:
    """What was really done, by `external_request_id`, and which facts arrived, by stream."""

    def __init__(self, seed: int) -> None:
        self.effects: defaultdict[str, list[datetime]] = defaultdict(list)
        #: Ids under which nothing will be done any more: who might have done it is gone.
        self.forsworn: set[str] = set()
        self.facts: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
        self.fates: Counter[str] = Counter()
        self._random, self._lock = Random(f"{seed} outside"), threading.Lock()
        self._server = serve({"/agent": self._be_asked, "/facts": self._hear})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def act(self, request_id: str) -> None:
        """Do what is asked under that id, for all to see."""
        with self._lock:
            self.effects[request_id].append(datetime.now(UTC))

    def forswear(self, request_id: str) -> None:
        """Say that whoever had that id will not act any more."""
        with self._lock:
            self.forsworn.add(request_id)

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()

    def _draw(self, what: str, *fates: tuple[float, str]) -> str:
        with self._lock:
            luck = self._random.random()
            for share, fate in fates:
                if luck < share:
                    self.fates[f"{what}: {fate}"] += 1
                    return fate
                luck -= share
        return ""

    def _be_asked(self, call: Handler) -> None:
        """Be an agent over HTTP: do it, refuse it, or hang up before or after."""
        asked = json.loads(call.content)
        request_id = asked["external_request_id"]
        fate = self._draw("agent", (0.1, "refuse"), (0.08, "hang up"), (0.08, "act and hang up"))
        if fate in ("refuse", "hang up"):
            self.forswear(request_id)
        else:
            self.act(request_id)
        if fate == "refuse":
            call.answer(400, {"error": "not today"})
        elif fate:
            call.hang_up()
        else:
            names = ("external_request_id", "attempt", "execution_digest")
            bound = {name: asked[name] for name in names}
            call.answer(200, bound | {"outcome": "succeeded", "result": {"about": asked["title"]}})

    def _hear(self, call: Handler) -> None:
        fate = self._draw("fact", (FACT_LOSS, "away"), (FACT_LOSS, "take and hang up"))
        if fate == "away":
            call.answer(503, {})
            return
        fact = json.loads(call.content)
        with self._lock:
            told = int(fact["sequence"]), fact["id"]
            self.facts[fact["subject"]].append(told)
        if fate:
            call.hang_up()
        else:
            call.answer(200, {})


class LossyNetwork:
    """Stands between a client and the service: loses requests, loses answers, delivers twice."""

    def __init__(self, url: str, seed: int) -> None:
        self._client = httpx2.Client(base_url=url, timeout=20, trust_env=False)
        self._random, self._lock = Random(f"{seed} network"), threading.Lock()
        self._server = serve({"/": self._pass_on})
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._client.close()

    def _pass_on(self, call: Handler) -> None:
        with self._lock:
            luck = self._random.random()
        if luck < LOSS:
            call.hang_up()
            return
        named = {name: call.headers[name] for name in HEADERS if name in call.headers}
        try:
            for _ in range(2 if luck > 1 - DUPLICATES else 1):
                answer = self._client.request(
                    call.command, call.path, content=call.content, headers=named
                )
        except httpx2.TransportError:
            call.hang_up()
            return
        if luck < 2 * LOSS:
            call.hang_up()
            return
        told = {name: answer.headers[name] for name in ANSWER_HEADERS if name in answer.headers}
        call.write(answer.status_code, answer.content, told)


class Handler(BaseHTTPRequestHandler):
    """One request that was read; it is answered, or the line goes dead."""

    protocol_version = "HTTP/1.1"
    # Headers and body are two writes, and the second would wait for the first one's ACK.
    disable_nagle_algorithm = True
    routes: dict[str, Callable[[Any], None]]
    content: bytes

    def do_POST(self) -> None:
        self.content = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        for path, meet in self.routes.items():
            if self.path.startswith(path):
                meet(self)
                return

    do_GET = do_POST

    def answer(self, status: int, body: dict[str, Any]) -> None:
        self.write(status, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def write(self, status: int, content: bytes, headers: dict[str, str]) -> None:
        try:
            self.send_response(status)
            for name, value in headers.items():
                self.send_header(name, value)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)
        except OSError:
            self.close_connection = True  # the other side was killed meanwhile

    def hang_up(self) -> None:
        self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        pass


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that was killed in the middle of a request is nothing to speak of."""


def serve(routes: dict[str, Callable[[Any], None]]) -> ThreadingHTTPServer:
    """Serve the routes, longest path first, on a free port and threads of their own."""
    handler = type("Routes", (Handler,), {"routes": routes})
    server = _Server(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()
    return server
