"""The list of guards to break is true of the tree: `make mutants` breaks them, this does not."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.mutants.listed import MUTANTS, Mutant

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name)
def test_every_guard_stands_where_the_list_says_and_once(mutant: Mutant) -> None:
    assert (ROOT / mutant.file).read_text().count(mutant.text) == 1
    assert mutant.by != mutant.text


def test_every_mutant_has_a_name_of_its_own_and_tests_that_exist() -> None:
    names = [mutant.name for mutant in MUTANTS]
    assert sorted(set(names)) == sorted(names)
    tests = {test for mutant in MUTANTS for test in mutant.tests}
    assert [test for test in sorted(tests) if not (ROOT / test).is_file()] == []
