"""Refusals of bodies that were not read: the client gets them, and learns what closes."""

from __future__ import annotations

import io
import json
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings

from governance.web import unread_bodies
from governance.web.unread_bodies import DRAIN_BYTES_MAX, UnreadBodies
from tests.client import PROBLEM_MEMBERS

MIB = 1 << 20
START_SECONDS = 30
APPLICATION = """
from governance.web.unread_bodies import UnreadBodies

def refuse(environ, start_response):
    start_response("401 Unauthorized", [("Content-Length", "2")])
    return [b"no"]

application = UnreadBodies(refuse)
"""


class Response:
    """Stands for gunicorn's, whose bound method the application is given."""

    def __init__(self) -> None:
        self.status, self.closes = "", False

    def start_response(self, status, headers, exc_info=None):
        self.status = status

    def force_close(self):
        self.closes = True


class Peer:
    """Stands for the connection."""

    def __init__(self) -> None:
        self.timeouts = []

    def gettimeout(self):
        return None

    def settimeout(self, seconds):
        self.timeouts.append(seconds)


class Broken(io.BytesIO):
    def __init__(self, error):
        super().__init__()
        self.error = error

    def read(self, *size):
        raise self.error


def answered(status, stream, *, read=0, **environ):
    """Answer a request of which the application reads `read` bytes; the response."""

    def application(environ, start_response):
        environ["wsgi.input"].read(read)
        start_response(status, [])
        return []

    response = Response()
    UnreadBodies(application)({"wsgi.input": stream} | environ, response.start_response)
    assert response.status == status
    return response


@pytest.mark.parametrize("read", [0, 10, 2 * MIB])
def test_what_a_refusal_left_is_read_away(read):
    body, peer = io.BytesIO(b"x" * (2 * MIB) + b"GET /next"), Peer()

    said = {"CONTENT_LENGTH": str(2 * MIB), "gunicorn.socket": peer}
    response = answered("401 Unauthorized", body, read=read, **said)

    assert not response.closes
    assert body.read() == b"GET /next"
    assert peer.timeouts[-1:] == [None]
    assert all(0 < seconds <= unread_bodies.DRAIN_SECONDS for seconds in peer.timeouts[:-1])


def test_a_body_in_chunks_is_read_to_its_end():
    body = io.BytesIO(b"x" * MIB)

    response = answered("400 Bad Request", body, HTTP_TRANSFER_ENCODING="chunked")

    assert not response.closes
    assert body.read() == b""


@pytest.mark.parametrize(
    ("stream", "said"),
    [
        (io.BytesIO(), {"CONTENT_LENGTH": str(DRAIN_BYTES_MAX + 1)}),
        (io.BytesIO(b"x" * (DRAIN_BYTES_MAX + 1)), {"HTTP_TRANSFER_ENCODING": "chunked"}),
        (io.BytesIO(b"cut short"), {"CONTENT_LENGTH": str(MIB)}),
        (Broken(TimeoutError()), {"CONTENT_LENGTH": str(MIB)}),
        (Broken(RuntimeError("no chunk")), {"HTTP_TRANSFER_ENCODING": "chunked"}),
    ],
)
def test_a_body_that_is_too_long_or_breaks_off_closes_the_connection(stream, said):
    def refuse(environ, start_response):
        start_response("413 Content Too Large", [])
        return []

    response = Response()
    UnreadBodies(refuse)({"wsgi.input": stream} | said, response.start_response)

    assert response.closes


def test_a_body_that_comes_too_slowly_closes_the_connection(monkeypatch):
    monkeypatch.setattr(unread_bodies, "DRAIN_SECONDS", 0.0)

    body = io.BytesIO(b"x" * MIB)
    assert answered("401 Unauthorized", body, CONTENT_LENGTH=str(MIB)).closes


@pytest.mark.parametrize(("status", "size"), [("200 OK", MIB), ("401 Unauthorized", 100)])
def test_successes_and_small_bodies_are_left_alone(status, size):
    body = io.BytesIO(b"x" * size)

    assert not answered(status, body, CONTENT_LENGTH=str(size)).closes
    assert len(body.read()) == size


@pytest.fixture
def port(tmp_path: Path) -> Iterator[int]:
    """A real gunicorn, whose application refuses everything."""
    (tmp_path / "refusing.py").write_text(APPLICATION)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = subprocess.Popen(
            [
                *(sys.executable, "-m", "gunicorn", "--threads=2", "--no-control-socket"),
                *(f"--bind=fd://{listener.fileno()}", "--log-level=error"),
                *(f"--pythonpath={settings.BASE_DIR},{tmp_path}", "refusing:application"),
            ],
            pass_fds=[listener.fileno()],
        )
        try:
            yield listener.getsockname()[1]
        finally:
            server.terminate()
            server.wait(START_SECONDS)


def test_a_real_server_answers_a_large_body_and_the_next_request_on_the_same_connection(port):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        for _ in range(2):
            head = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (3 * MIB)
            client.sendall(head + b"x" * (3 * MIB))
            told = received(client)
            assert told.startswith(b"HTTP/1.1 401")
            assert b"Connection: keep-alive" in told


def test_a_real_server_says_that_it_closes_where_it_will_not_read_all(port):
    with socket.create_connection(("127.0.0.1", port), START_SECONDS) as client:
        client.sendall(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % (1 << 40))
        told = received(client)
        assert told.startswith(b"HTTP/1.1 401")
        assert b"Connection: close" in told
        assert client.recv(1) == b""


def received(client: socket.socket) -> bytes:
    """Return one whole answer."""
    give_up, told = time.monotonic() + START_SECONDS, b""
    while not told.endswith(b"\r\n\r\nno"):
        assert time.monotonic() < give_up
        told += client.recv(4096)
    return told


@pytest.mark.parametrize(("status", "reason"), [(414, "INVALID_ARGUMENT"), (500, "INTERNAL")])
def test_what_gunicorn_refuses_by_itself_is_a_problem(status, reason):
    ours, theirs = socket.socketpair()
    with ours, theirs:
        unread_bodies.write_problem(ours, status, "URI Too Long", "Request Line is <too> large")
        ours.shutdown(socket.SHUT_WR)
        head, _, body = theirs.makefile("rb").read().partition(b"\r\n\r\n")

    problem = json.loads(body)
    assert head.startswith(b"HTTP/1.1 %d URI Too Long\r\n" % status)
    assert b"Content-Type: application/problem+json" in head
    assert b"Content-Length: %d" % len(body) in head
    assert problem.keys() == PROBLEM_MEMBERS
    assert (problem["status"], problem["reason"]) == (status, reason)
