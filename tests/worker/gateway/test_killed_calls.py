"""A process that is killed in a call: nothing is called twice, and every open call is booked."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from fencepost_worker import durable
from fencepost_worker.client import Call, ControlPlane, GaveUp
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.marks import FILE_NAME, CallJournal
from fencepost_worker.gateway.recovery import recover
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.testing import Answer, StandInProvider
from fencepost_worker.testing.answers import event
from tests.settings import WORKER_SOURCE
from tests.worker.conftest import TOKEN, ScriptedPlane
from tests.worker.gateway.books import Books
from tests.worker.gateway.conftest import Table, tables_of
from tests.worker.gateway.doomed import POINTS

PATIENCE_SECONDS = 30
ROOT = Path(__file__).resolve().parents[3]
#: What is booked of a call that was killed there, and how often its provider was asked.
ENDS = {
    "before it is open": ([], 0),
    "open": ([("failed", "none")], 0),
    "routed": ([("failed", "none")], 0),
    "sent": ([("settled", "estimate")], 0),
    "answered": ([("settled", "estimate")], 1),
    "settled": ([("settled", "actual")], 1),
    "told": ([("settled", "actual")], 1),
    "done": ([("settled", "actual")], 1),
}


@pytest.fixture
def doomed(
    plane: ScriptedPlane, provider: StandInProvider, attempt: Callable[..., GovernedAttempt]
) -> Iterator[Callable[..., tuple[GovernedAttempt, subprocess.Popen[bytes]]]]:
    """Return a function that starts a process which makes one call and is killed in it."""
    spawned: list[subprocess.Popen[bytes]] = []

    def start(point: str, *, stream: bool) -> tuple[GovernedAttempt, subprocess.Popen[bytes]]:
        made = attempt()
        told = {
            "plane": plane.url,
            "token": TOKEN,
            "openai": provider.base_url_openai,
            "folder": str(made.folder),
            "claim": made.job.claim.document,
            "point": point,
            "stream": stream,
        }
        path = os.pathsep.join((str(WORKER_SOURCE), str(ROOT)))
        process = subprocess.Popen(
            [sys.executable, "-m", "tests.worker.gateway.doomed", json.dumps(told)],
            cwd=ROOT,
            env=os.environ | {"PYTHONPATH": path},
        )
        spawned.append(process)
        return made, process

    yield start
    for process in spawned:
        if process.poll() is None:
            process.kill()
        process.wait(PATIENCE_SECONDS)


def recovered(made: GovernedAttempt, client: ControlPlane, books: Books) -> list[tuple[str, str]]:
    """Recover twice, as two starts after one another do, and return how the calls ended."""
    spent = recover(made.folder, client, made.binding, wait=lambda seconds: False)
    ends = books.ends
    again = recover(made.folder, client, made.binding, wait=lambda seconds: False)
    assert (books.ends, spent) == (ends, again)
    assert spent.open == 0
    assert spent.calls == len(ends)
    assert spent.at_a_cost == sum(end["cost_basis"] != "none" for end in ends)
    return [(end["end"], end["cost_basis"]) for end in ends]


@pytest.mark.parametrize("point", POINTS)
def test_at_every_point_the_call_is_booked_once_and_not_made_again(
    doomed: Callable[..., tuple[GovernedAttempt, subprocess.Popen[bytes]]],
    client: ControlPlane,
    books: Books,
    provider: StandInProvider,
    point: str,
) -> None:
    made, process = doomed(point, stream=False)
    assert process.wait(PATIENCE_SECONDS) == -signal.SIGKILL

    expected, asked = ENDS[point]
    assert recovered(made, client, books) == expected
    assert len(provider.requests) == asked
    assert len(books.calls) == len(expected)


def test_a_stream_in_the_middle_is_booked_at_its_limit(
    doomed: Callable[..., tuple[GovernedAttempt, subprocess.Popen[bytes]]],
    client: ControlPlane,
    books: Books,
    provider: StandInProvider,
) -> None:
    piece = event({"id": "c", "choices": [{"index": 0, "delta": {"content": "part"}}]})
    provider.script(Answer.events(piece, end="hang"))
    made, process = doomed("none of them", stream=True)
    assert provider.wait_for(lambda seen: bool(seen), timeout_s=PATIENCE_SECONDS)
    process.kill()
    process.wait(PATIENCE_SECONDS)

    assert recovered(made, client, books) == [("settled", "estimate")]
    [end] = books.ends
    assert (end["usage"]["output_tokens"], end["error_code"]) == (30, "WORKER_LOST")
    assert len(provider.requests) == 1


def test_a_recovered_attempt_goes_on_with_the_next_number(
    doomed: Callable[..., tuple[GovernedAttempt, subprocess.Popen[bytes]]],
    start_gateway: Callable[..., Gateway],
    plane: ScriptedPlane,
    books: Books,
    provider: StandInProvider,
    tmp_path: Path,
) -> None:
    made, process = doomed("routed", stream=False)
    process.wait(PATIENCE_SECONDS)
    gateway = start_gateway(tables_of(provider, tmp_path, {}))
    seat = Table(gateway, made, gateway.admit(made), provider, books, plane)

    assert seat.ask(json={"model": "large", "messages": []}).is_success

    assert [end["cost_basis"] for end in books.settled(2)] == ["none", "actual"]
    assert books.calls[1].asked["route_request_id"].endswith(":model:2")


def test_what_is_told_in_vain_is_told_again_under_its_key(
    attempt: Callable[..., GovernedAttempt],
    client: ControlPlane,
    plane: ScriptedPlane,
    books: Books,
) -> None:
    made = attempt()
    journal = CallJournal(made.folder)
    body = made.binding | {
        "route_request_id": made.external_request_id + ":model",
        "api": "openai",
    }
    route = Call("POST", "/v1/routes", body, key="01890000-0000-7000-8000-000000000001")
    number = journal.begin(route=route, lost_usage={"input_tokens": 1, "output_tokens": 2})
    answer = client.deliver(route, wait=lambda seconds: False)
    journal.sent(number, reservation_id=answer.body["reservation"]["reservation_id"])
    journal.close()
    plane.fail_next("/v1/reservations/", applied=True)

    with pytest.raises(GaveUp):
        recover(made.folder, client, made.binding, wait=lambda seconds: False)
    spent = recover(made.folder, client, made.binding, wait=lambda seconds: False)

    first, second = plane.calls("/v1/reservations/")
    assert (first.body, first.headers["idempotency-key"]) == (
        second.body,
        second.headers["idempotency-key"],
    )
    assert (spent.calls, books.ends[0]["cost_basis"]) == (1, "estimate")


def test_a_torn_mark_was_never_acted_upon(tmp_path: Path) -> None:
    journal = CallJournal(tmp_path)
    number = journal.begin(route=Call("POST", "/v1/routes", {}), lost_usage={})
    journal.close()
    whole = (tmp_path / FILE_NAME).read_bytes()
    line = durable.encode({"call": number, "mark": "sent", "parts": {"reservation_id": "r"}})
    for length in range(1, len(line) + 1):
        (tmp_path / FILE_NAME).write_bytes(whole + line[:length])
        again = CallJournal(tmp_path)
        assert list(again.calls[number].marks) == ["open"], "without its line break it is torn"
        again.settled(number, Call("POST", "/v1/reservations/r/resolve", {}))
        again.close()
        last = CallJournal(tmp_path)
        assert list(last.calls[number].marks) == ["open", "settled"]
        last.close()


def test_an_attempt_without_calls_has_nothing_to_recover(
    tmp_path: Path, client: ControlPlane, plane: ScriptedPlane
) -> None:
    assert recover(tmp_path / "none", client, {}, wait=lambda seconds: False).calls == 0
    assert not (tmp_path / "none").exists()
    assert plane.seen == []
