"""The gateway against the real service: what the books say of calls that programs made."""

import json
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx2
import openai
import pytest
from uuid_utils.compat import uuid7

from fencepost_worker.claim import Claim
from fencepost_worker.client import Call, ControlPlane
from fencepost_worker.executor import Grant
from fencepost_worker.gateway.attempts import GovernedAttempt
from fencepost_worker.gateway.providers import providers_of
from fencepost_worker.gateway.recovery import recover
from fencepost_worker.gateway.server import Admitted, Gateway
from fencepost_worker.lease import Ended
from fencepost_worker.session import ActivatedSession
from fencepost_worker.testing import Answer, Counts, StandInProvider
from fencepost_worker.testing.answers import event
from fencepost_worker.testing.provider import TEXT
from governance.money import ledger
from governance.money.models import Reservation, Resolution
from jobs import wakeups
from jobs.models import Execution, JobType
from tests.jobs.governed import MODEL, price_a_model
from tests.worker.gateway.attempts import attempt_of

PATIENCE_SECONDS = 20
EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "content-prep.json"
ASKED = [{"role": "user", "content": "Say hello."}]

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture(autouse=True)
def _no_listener_left() -> Iterator[None]:
    yield
    wakeups.close()


@pytest.fixture
def provider() -> Iterator[StandInProvider]:
    with StandInProvider(counts=Counts(input=700, output=30)) as provider:
        yield provider


@pytest.fixture
def plane(live_server: Any, issue: Callable[..., str], tmp_path: Path) -> Iterator[ControlPlane]:
    """The real control plane, as a worker of hermes with a session reaches it."""
    session = ActivatedSession(
        worker_id="hermes@test",
        agent="hermes",
        cell_id="local",
        runtime="command",
        path=tmp_path / "session.json",
        token=issue(agent="hermes"),
    )
    plane = ControlPlane(url=live_server.url, session=session)
    session.open(plane, wait=lambda seconds: False)
    yield plane
    plane.close()


@pytest.fixture
def admit(
    plane: ControlPlane,
    provider: StandInProvider,
    live_server: Any,
    submitter_token: str,
    tmp_path: Path,
) -> Iterator[Callable[..., tuple[GovernedAttempt, Admitted]]]:
    """Return a function that claims a job and admits its attempt at a gateway."""
    table = {"api": "openai", "base_url": provider.base_url_openai}
    gateway = Gateway(plane, providers_of({MODEL[0]: table}, environ={}))
    gateway.start()

    def make(*, effects: str = "external") -> tuple[GovernedAttempt, Admitted]:
        JobType.objects.filter(name="content_prep").update(
            model_use="required", effects=effects, open_calls_max=4
        )
        httpx2.post(
            f"{live_server.url}/v1/jobs",
            json=json.loads(EXAMPLE.read_text()),
            headers={"Authorization": f"Bearer {submitter_token}"},
        ).raise_for_status()
        made = claimed(plane, tmp_path, effects=effects)
        if effects == "external":
            start(plane, made, None)
        return made, gateway.admit(made)

    yield make
    gateway.close()


def claimed(plane: ControlPlane, folder: Path, *, effects: str) -> GovernedAttempt:
    """Claim the job that is queued, and return its attempt."""
    body = {"worker_id": "hermes@test", "limit": 1, "wait_seconds": 0}
    answer = plane.send(Call("POST", "/v1/claims", body, key=str(uuid7())))
    [item] = answer.body["results"]
    claim = Claim.from_document(item["job"] | {k: item[k] for k in item if k != "job"})
    made: GovernedAttempt

    def starter(reservation_id: str) -> Grant:
        return start(plane, made, reservation_id)

    made = attempt_of(
        claim,
        folder / "calls",
        models=tuple(claim.document["models"]),
        effects=effects,
        starter=starter if effects == "model_only" else None,
        open_calls_max=claim.document["open_calls_max"],
    )
    return made


def start(plane: ControlPlane, made: GovernedAttempt, reservation_id: str | None) -> Grant:
    """Obtain permit and start."""
    claim = made.job.claim
    wanted = {"reservation_id": reservation_id, "mode": "mock", "expected_revision": claim.revision}
    permit = plane.send(
        Call("POST", "/v1/executions/permits", made.binding | wanted, key=str(uuid7()))
    )
    begun = made.binding | {
        "permit_id": permit.body["permit_id"],
        "execution_digest": claim.execution_digest,
        "runtime": "command",
        "request_sha256": "ab" * 32,
    }
    started = plane.send(Call("POST", "/v1/executions", begun, key=str(uuid7())))
    assert started.body["may_begin"] is True
    return Grant()


def client_of(admitted: Admitted) -> openai.OpenAI:
    """Return the official client, as it makes itself from the environment."""
    environment = admitted.environment
    return openai.OpenAI(
        base_url=environment["OPENAI_BASE_URL"], api_key=environment["OPENAI_API_KEY"]
    )


def booked() -> list[tuple[str, str, int | None, int | None]]:
    """Return the ends of all calls, in the order of their routes."""
    ends = Resolution.objects.order_by("reservation__decision__call")
    return [(e.ended_as, e.cost_basis, e.input_tokens, e.output_tokens) for e in ends]


@pytest.mark.parametrize("effects", ["external", "model_only"])
def test_calls_are_reserved_before_and_booked_after(
    admit: Callable[..., tuple[GovernedAttempt, Admitted]],
    provider: StandInProvider,
    effects: str,
) -> None:
    price_a_model(cap=Decimal(1))
    _, admitted = admit(effects=effects)
    with client_of(admitted) as client:
        assert [each.id for each in client.models.list()] == [MODEL[1]]
        whole = client.chat.completions.create(model="gpt-any", messages=ASKED)
        chunks = client.chat.completions.create(model=MODEL[1], messages=ASKED, stream=True)
        said = "".join(c.choices[0].delta.content or "" for c in chunks if c.choices)
    spent = admitted.end("the program ended")

    assert (whole.choices[0].message.content, said) == (TEXT, TEXT)
    assert (spent.calls, spent.open, spent.usage["input_tokens"]) == (2, 0, 1400)
    assert booked() == [("settled", "usage", 700, 30)] * 2
    assert not Reservation.objects.filter(state__in=Reservation.OPEN).exists()
    assert Execution.objects.get().state == "unknown"
    assert [r.json["model"] for r in provider.requests] == [MODEL[1]] * 2
    assert list(ledger.verify()) == []


def test_parallel_calls_are_within_the_bound_of_the_type(
    admit: Callable[..., tuple[GovernedAttempt, Admitted]],
) -> None:
    price_a_model(cap=Decimal(1))
    _, admitted = admit()
    with client_of(admitted) as client, ThreadPoolExecutor(8) as pool:
        asked = [
            pool.submit(client.chat.completions.create, model=MODEL[1], messages=ASKED)
            for _ in range(12)
        ]
        assert all(each.result(PATIENCE_SECONDS).usage.total_tokens == 730 for each in asked)
    assert admitted.end("done").calls == 12
    assert booked() == [("settled", "usage", 700, 30)] * 12
    assert list(ledger.verify()) == []


def test_a_budget_that_is_used_up_stops_the_program_and_is_told(
    admit: Callable[..., tuple[GovernedAttempt, Admitted]], provider: StandInProvider
) -> None:
    price_a_model(cap=Decimal("0.000001"))
    _, admitted = admit()
    with client_of(admitted) as client, pytest.raises(openai.PermissionDeniedError) as refused:
        client.chat.completions.create(model=MODEL[1], messages=ASKED)
    assert refused.value.code == "BUDGET_EXHAUSTED"
    assert "are spent and" in refused.value.message
    spent = admitted.end("done")
    assert spent.no_room is not None
    assert (spent.no_room.rule, spent.at_a_cost, provider.requests) == ("defer", 0, [])


def test_a_fenced_stream_is_cut_and_booked_at_what_was_seen(
    admit: Callable[..., tuple[GovernedAttempt, Admitted]], provider: StandInProvider
) -> None:
    price_a_model(cap=Decimal(1))
    made, admitted = admit()
    piece = event({"id": "c", "choices": [{"index": 0, "delta": {"content": "x" * 300}}]})
    provider.script(Answer.events(piece, end="hang"))
    with client_of(admitted) as client, pytest.raises(openai.APIError):
        for _ in client.chat.completions.create(model=MODEL[1], messages=ASKED, stream=True):
            made.lease.end(Ended.FENCED)
    spent = admitted.end("fenced")
    [(end, basis, input_tokens, output_tokens)] = booked()
    assert (spent.open, end, basis, output_tokens) == (0, "settled", "estimate", 100)
    assert input_tokens and input_tokens < 100
    resolution = Resolution.objects.get()
    assert (resolution.usage_missing, resolution.usage_odd) == (True, False)
    assert resolution.cost < resolution.reservation.amount
    assert list(ledger.verify()) == []


def test_what_a_lost_process_left_open_is_booked(
    admit: Callable[..., tuple[GovernedAttempt, Admitted]],
    plane: ControlPlane,
    provider: StandInProvider,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    price_a_model(cap=Decimal(1))
    made, admitted = admit()
    # As if the process had ended between the provider's answer and the word of it.
    monkeypatch.setattr("fencepost_worker.gateway.booking.Desk.settle", lambda *told: None)
    with client_of(admitted) as client:
        client.chat.completions.create(model=MODEL[1], messages=ASKED, max_tokens=40)
    assert booked() == []

    spent = recover(made.folder, plane, made.binding, wait=lambda seconds: False)

    assert (spent.calls, spent.at_a_cost) == (1, 1)
    [(end, basis, _, output_tokens)] = booked()
    assert (end, basis, output_tokens) == ("settled", "estimate", 40)
    assert len(provider.requests) == 1
    assert list(ledger.verify()) == []
