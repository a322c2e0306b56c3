"""The table of cases through a whole gateway: what the program sees, and what is told to book."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import httpx2
import pytest

from fencepost_worker.client import ControlPlane
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.faces import Endpoint, rewritten
from fencepost_worker.gateway.providers import providers_of
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.gateway.verdicts import Cut
from fencepost_worker.lease import Ended
from fencepost_worker.testing import StandInProvider
from tests.worker.conftest import ScriptedPlane
from tests.worker.gateway.books import Books
from tests.worker.gateway.table import Case, cases

PATIENCE_SECONDS = 30
PATHS = {
    Endpoint.CHAT: "/v1/chat/completions",
    Endpoint.RESPONSES: "/v1/responses",
    Endpoint.EMBEDDINGS: "/v1/embeddings",
    Endpoint.MESSAGES: "/v1/messages",
}
#: Played by `test_cut_calls`, since who goes away and when is no part of what a provider sends.
PLAYED = [
    pytest.param(case, id=case.id)
    for case in cases()
    if case.endpoint in PATHS and case.cut in (None, Cut.BROKEN_OFF, Cut.FENCED)
]


def asking(case: Case) -> bytes:
    """Return the request of a case, which asks for usage itself where its program wanted that."""
    wanted = case.wanted_usage and case.stream and case.books["basis"] == "actual"
    return rewritten(case.endpoint, case.request, include_usage=True) if wanted else case.request


@pytest.fixture
def play(
    client: ControlPlane,
    plane: ScriptedPlane,
    provider: StandInProvider,
    attempt: Callable[..., GovernedAttempt],
) -> Iterator[Callable[[Case], tuple[int, bytes, bool, dict[str, Any]]]]:
    """Return a function that plays a case through a gateway.

    It gives the status, what the program saw, whether that was broken off, and how it was booked.
    """
    started: list[Gateway] = []

    def run(case: Case) -> tuple[int, bytes, bool, dict[str, Any]]:
        face = str(case.endpoint.face)
        model = {"position": 1, "provider": case.provider, "model": "m", "api": face}
        books = Books(models=(model,)).serve(plane)
        if case.output_limit is not None:
            books.max_output_tokens = case.output_limit
        address = provider.base_url_openai if face == "openai" else provider.base_url_anthropic
        table = {"api": face, "base_url": address, "include_usage": not case.wanted_usage}
        gateway = Gateway(client, providers_of({case.provider: table}))
        gateway.start()
        started.append(gateway)
        made = attempt()
        admitted = gateway.admit(made)
        provider.script(case.answer)
        if case.cut is Cut.FENCED:
            threading.Thread(
                target=lambda: (
                    provider.wait_for(lambda seen: bool(seen)),
                    threading.Event().wait(0.3),
                    made.lease.end(Ended.FENCED),
                )
            ).start()
        seen, broken, status = b"", False, 0
        with (
            httpx2.Client(trust_env=False, timeout=PATIENCE_SECONDS) as http,
            http.stream(
                "POST",
                gateway.address + PATHS[case.endpoint],
                headers={"authorization": f"Bearer {admitted.key}"},
                content=asking(case),
            ) as answer,
        ):
            status = answer.status_code
            try:
                for raw in answer.iter_raw():
                    seen += raw
            except httpx2.RemoteProtocolError:
                broken = True
        admitted.end("done")
        [end] = books.settled(1)
        return status, seen, broken, end

    yield run
    for gateway in started:
        gateway.close()


@pytest.mark.parametrize("case", PLAYED)
def test_a_case_through_the_gateway(
    case: Case, play: Callable[[Case], tuple[int, bytes, bool, dict[str, Any]]]
) -> None:
    status, seen, broken, end = play(case)

    if case.status and (case.sees.strip() or not 200 <= case.status < 300):
        assert status == case.status or case.cut, seen
    if broken:
        assert seen.startswith(case.sees.rstrip(b"\r\n")[: len(seen)])
    elif 200 <= case.status < 300 and status == case.status:
        assert seen == case.sees
    expected = {name: case.books[name] for name in ("end", "usage") if name in case.books}
    assert {name: end[name] for name in ("end", "usage") if name in end} == expected
    assert end["cost_basis"] == case.books["basis"]
    assert end.get("error_code", "") == case.books["error_code"]
