"""Every case of the table passes as it is, and comes to what it must, however its bytes are cut."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from fencepost_worker.gateway.faces import Endpoint, read_request
from fencepost_worker.gateway.tap import Tap
from fencepost_worker.gateway.verdicts import Verdict, verdict
from tests.worker.gateway.table import Case, cases

#: Cases of megabytes are not fed byte by byte.
SHORT_BYTES = 100_000
CASES = [pytest.param(case, id=case.id) for case in cases()]
SHORT = [case for case in cases() if len(case.body) < SHORT_BYTES and 200 <= case.status < 300]


def played(case: Case, parts: list[bytes]) -> tuple[bytes, Verdict]:
    """Return what the program sees of a case in this cut of its bytes, and what it comes to."""
    tap = Tap(
        case.endpoint,
        provider=case.provider,
        stream=case.stream,
        wanted_usage=case.wanted_usage,
    )
    if not 200 <= case.status < 300:
        passed, head = case.body, case.body
    else:
        passed, head = b"".join(map(tap.feed, parts)) + tap.close(cut=case.cut is not None), b""
    found = verdict(
        case.endpoint,
        case.status or None,
        head,
        tap.reading(),
        wanted=read_request(case.endpoint, case.request),
        output_limit=case.output_limit,
        cut=case.cut,
    )
    return passed, found


def booked(found: Verdict) -> dict[str, Any]:
    """Return a verdict as a case states it."""
    stated: dict[str, Any] = {
        "end": found.end,
        "basis": found.basis,
        "flags": list(found.flags),
        "fall_back": found.fall_back,
        "error_code": found.error_code,
    }
    return stated if found.usage is None else stated | {"usage": found.usage}


@pytest.mark.parametrize("cutting", ["as given", "byte by byte", "all at once"])
@pytest.mark.parametrize("case", CASES)
def test_a_case_passes_and_comes_to_what_it_must(case: Case, cutting: str) -> None:
    parts = list(case.chunks)
    if cutting == "all at once":
        parts = [case.body]
    elif cutting == "byte by byte" and len(case.body) < SHORT_BYTES:
        parts = [case.body[n : n + 1] for n in range(len(case.body))]

    passed, found = played(case, parts)

    assert passed == case.sees
    assert booked(found) == case.books


@given(data=st.data())
@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_no_cut_of_the_bytes_changes_anything(data: st.DataObject) -> None:
    case = data.draw(st.sampled_from(SHORT), label="case")
    cuts = data.draw(st.lists(st.integers(0, len(case.body)), max_size=8).map(sorted), label="cuts")
    edges = [0, *cuts, len(case.body)]
    parts = [case.body[a:b] for a, b in pairwise(edges)]

    passed, found = played(case, parts)

    assert passed == case.sees
    assert booked(found) == case.books


@given(
    body=st.binary(max_size=400),
    endpoint=st.sampled_from(Endpoint),
    stream=st.booleans(),
    wanted=st.booleans(),
)
@settings(max_examples=300, deadline=None)
def test_bytes_that_are_no_answer_pass_and_raise_nothing(
    body: bytes, endpoint: Endpoint, stream: bool, wanted: bool
) -> None:
    tap = Tap(endpoint, provider="openai", stream=stream, wanted_usage=wanted)
    passed = tap.feed(body[:9]) + tap.feed(body[9:]) + tap.close()
    verdict(endpoint, 200, b"", tap.reading())
    assert passed == body


def test_the_table_has_no_number_twice_and_is_as_long_as_it_was() -> None:
    numbers = [case.id for case in cases()]
    assert len(set(numbers)) == len(numbers)
    assert len(numbers) >= 100
