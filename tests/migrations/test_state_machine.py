"""The picture of the states and the table of moves agree."""

from __future__ import annotations

import re
from pathlib import Path

from jobs.models import Job

PAGE = Path(__file__).resolve().parents[2] / "docs" / "explanation" / "state-machine.md"
ARROW = re.compile(r"^\s+(\w+|\[\*\]) --> (\w+|\[\*\])(?:: .+)?$", re.MULTILINE)


def drawn() -> set[tuple[str, str]]:
    return set(ARROW.findall(PAGE.read_text()))


def test_the_page_draws_every_move_and_no_other() -> None:
    moves = {(before, after) for before, afters in Job.MOVES.items() for after in afters}
    assert {arrow for arrow in drawn() if "[*]" not in arrow} == moves


def test_the_page_shows_where_jobs_begin_and_where_they_end() -> None:
    ends = {before for before, after in drawn() if after == "[*]"}
    begins = {after for before, after in drawn() if before == "[*]"}
    assert begins == {"held", "queued"}
    assert ends == {state for state, afters in Job.MOVES.items() if not afters}
