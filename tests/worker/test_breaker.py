"""The breaker, and what a worker asks for."""

from types import SimpleNamespace

import pytest

from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.asking import Asking, TypeKnown
from fencepost_worker.breaker import REST_SECONDS_MAX, Breaker
from fencepost_worker.client import DEFER, Problem


class Clock:
    def __init__(self):
        self.at = 1000.0

    def __call__(self):
        return self.at


def breaker(**over):
    clock = Clock()
    return clock, Breaker(**{"refusals_max": 3, "rest_s": 10.0, "now": clock} | over)


def resting(made):
    return [rest.task_type for rest in made.rests()]


def refusal(reason="MODEL_NOT_ALLOWED", rule="stop"):
    return Problem(
        status=403, code="PERMISSION_DENIED", reason=reason, detail="told by the test", rule=rule,
        effect="none",
    )  # fmt: skip


def test_equal_refusals_in_a_row_end_the_asking_for_their_type_alone():
    _, made = breaker()

    assert made.refused("a", "X") is None
    assert made.refused("b", "X") is None
    assert made.refused("a", "X") is None
    rest = made.refused("a", "X", detail="why")

    assert (rest.task_type, rest.reason, rest.until) == ("a", "X: why", 1010.0)
    assert resting(made) == ["a"]


def test_another_reason_or_work_that_was_done_begins_the_count_anew():
    _, made = breaker()
    for reason in ("X", "X", "Y", "Y", "X", "X"):
        assert made.refused("a", reason) is None
    made.served("a")

    assert made.refused("a", "X") is None
    assert resting(made) == []


def test_after_a_rest_the_first_refusal_is_enough_and_the_rest_is_longer():
    clock, made = breaker()
    for _ in range(3):
        made.refused("a", "X")
    clock.at += 10

    assert resting(made) == []
    assert made.refused("a", "X").until == clock.at + 20
    # Others that were claimed before the rest began make it no longer.
    assert made.refused("a", "X") is None
    clock.at += 20
    made.served("a")
    assert made.refused("a", "X") is None


def test_rests_do_not_grow_without_end():
    clock, made = breaker(refusals_max=1)
    for _ in range(40):
        clock.at = made.refused("a", "X").until

    assert made.refused("a", "X").until - clock.at == REST_SECONDS_MAX


def test_a_refusal_of_whatever_job_is_enough_by_itself():
    _, made = breaker()

    assert made.refused("a", "PROVIDER_REFUSES_US", for_all=True) is not None


def types_of(*rows):
    return lambda seen: (200, {"job_types": list(rows)})


def row(name, model_use="none", effects="external"):
    return {"task_type": name, "model_use": model_use, "effects": effects}


def without_providers(each: TypeKnown) -> str:
    return RuntimeAdapter.unserved(_NoModels(), each)


class _NoModels:
    _models = None

    def __init__(self, *, needs_permits: bool = False) -> None:
        self._executor = SimpleNamespace(needs_permits=needs_permits)


@pytest.mark.parametrize(
    ("needs_permits", "model_use", "effects", "served"),
    [
        (True, "allowed", "model_only", False),
        (True, "none", "model_only", True),
        (True, "allowed", "external", True),
        # A program without leave for effects beyond this machine needs no permit.
        (False, "allowed", "model_only", True),
    ],
)
def test_a_type_whose_permits_are_for_calls_is_not_served_without_any(
    needs_permits, model_use, effects, served
):
    adapter = _NoModels(needs_permits=needs_permits)

    assert (RuntimeAdapter.unserved(adapter, TypeKnown("a", model_use, effects)) == "") is served


def test_all_types_are_asked_for_while_each_can_be_served(plane, client):
    plane.routes["/bootstrap$"] = types_of(row("a"), row("b", "allowed"))
    asking = Asking(plane=client, agent="hermes", unserved=without_providers)

    # Without a list: a type that is made later is asked for, too.
    assert asking.task_types() is None
    assert asking.not_asking() == []


def test_a_type_that_needs_a_model_is_not_asked_for_without_a_provider(plane, client):
    plane.routes["/bootstrap$"] = types_of(row("a"), row("b", "required"), {"task_type": 3}, None)
    asking = Asking(plane=client, agent="hermes", unserved=without_providers)

    assert asking.task_types() == ["a"]
    [said] = asking.not_asking()
    assert (said["task_type"], said["reason"]) == ("b", "this worker has no providers of models")


def test_a_control_plane_of_before_says_by_a_boolean_which_type_needs_a_model(plane, client):
    plane.routes["/bootstrap$"] = types_of({"task_type": "a", "uses_model": True})
    asking = Asking(plane=client, agent="hermes", unserved=without_providers)

    assert asking.task_types() == []


def test_where_types_cannot_be_read_those_that_were_named_are_asked_for(plane, client):
    plane.routes["/bootstrap$"] = lambda seen: (404, {"code": "NOT_FOUND"})
    asking = Asking(plane=client, agent="hermes", named=("a", "b"), unserved=without_providers)

    assert asking.task_types() == ["a", "b"]


def test_a_type_that_rests_is_left_out_and_said(plane, client):
    plane.routes["/bootstrap$"] = types_of(row("a"), row("b"))
    asking = Asking(plane=client, agent="hermes", breaker=Breaker(refusals_max=2))
    told = []
    asking.on_change = lambda: told.append(asking.not_asking())

    asking.refused("a", refusal())
    assert asking.task_types() is None
    asking.refused("a", refusal())

    assert asking.task_types() == ["b"]
    [[said]] = told
    assert (said["task_type"], said["reason"]) == ("a", "MODEL_NOT_ALLOWED: told by the test")
    asking.served("a")
    assert asking.task_types() is None
    assert told[-1] == []


def test_want_of_room_is_asked_about_again_soon(plane, client):
    asking = Asking(plane=client, agent="hermes", breaker=Breaker(refusals_max=1, rest_s=300))
    asking.refused("a", refusal("BUDGET_EXHAUSTED", DEFER))
    asking.refused("b", refusal())

    offered, other = asking.breaker.rests()
    assert other.until - offered.until > 290
