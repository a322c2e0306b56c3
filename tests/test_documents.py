"""What the pages say is what the software does."""

from __future__ import annotations

import importlib
import re
import tomllib
from pathlib import Path

import pytest

from agents.models import Scope
from fencepost_worker.envelopes import PAYLOAD_MEMBERS
from governance.core import permissions
from governance.core.precedence import PRECEDENCE
from governance.evidence.envelopes import EXECUTION_FIELDS
from governance.money.models import Reservation
from governance.relay import sinks
from governance.web.reference import api_description
from jobs import bootstrap
from jobs.models import Attempt, Execution, Job, Permit
from jobs.operations.shapes import ControlIn
from tests.house import PACKAGES, ROOT

CONTRACT = (ROOT / "docs/reference/contract.md").read_text(encoding="utf-8")
GLOSSARY = (ROOT / "docs/explanation/glossary.md").read_text(encoding="utf-8")
CHANGELOG = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
DECISIONS = sorted((ROOT / "docs/decisions").glob("[0-9]*.md"))
#: What is written like a reason and is none.
NO_REASONS = frozenset({"ATTEMPT_ENDED", "DATA_DIR", "UPPER_SNAKE", "DEFERRALS_EXHAUSTED"})


def section(number: int) -> str:
    """Return a section of the contract."""
    found = re.search(rf"^## {number}\. .*?(?=^## |\Z)", CONTRACT, re.MULTILINE | re.DOTALL)
    assert found is not None
    return found[0]


def first_cells(text: str) -> list[str]:
    """Return what the first cells of a text's table rows name."""
    return re.findall(r"^\| `([\w./{}]+)`", text, re.MULTILINE)


def words(text: str, before: str) -> set[str]:
    """Return the words of the code span that follows `before`."""
    found = re.search(re.escape(before) + r"[^`]*`([\w\s]+)`", " ".join(text.split()))
    assert found is not None, before
    return set(found[1].split())


# --- The contract -----------------------------------------------------------------------------


def test_the_contract_tells_every_state_of_a_job_and_no_other() -> None:
    table = section(1).partition("| state |")[2].partition("\n\n")[0]
    assert sorted(first_cells(table)) == sorted(Job.State.values)


@pytest.mark.parametrize("state", Job.State.values)
def test_the_contract_names_only_moves_that_there_are(state: str) -> None:
    [ways] = re.findall(rf"^\| `{state}` \|[^|]*\|(.*)\|$", section(1), re.MULTILINE)
    assert set(re.findall(r"(?:->|on to|or) `(\w+)`", ways)) <= Job.MOVES[state]


def test_the_contract_tells_the_codes_with_their_statuses() -> None:
    rows = dict(re.findall(r"^\| `([A-Z_]+)` \| (\d+)", section(2), re.MULTILINE))
    assert rows.keys() == {refusal.code for refusal in PRECEDENCE}
    assert set(rows.items()) <= {(refusal.code, str(refusal.status)) for refusal in PRECEDENCE}


def test_every_reason_that_the_contract_names_exists() -> None:
    known = {refusal.reason for refusal in PRECEDENCE} | {refusal.code for refusal in PRECEDENCE}
    named = set(re.findall(r"`([A-Z]+(?:_[A-Z]+)+)`", CONTRACT))
    assert named - known - NO_REASONS == set()


def test_the_contract_has_every_call_of_the_api_and_no_other() -> None:
    described = {
        (method.upper(), path)
        for path, methods in api_description()["paths"].items()
        for method in methods
        if method in {"get", "post"}
    }
    named = set(re.findall(r"`(GET|POST) (/v1/[\w/{}-]+)`", CONTRACT))
    assert named - described == set()
    assert described - named == set()


def test_the_contract_tells_the_scopes() -> None:
    assert sorted(first_cells(section(0))) == sorted(Scope.values)


def test_the_contract_tells_what_an_envelope_states() -> None:
    [listed] = re.findall(r"Envelope payload, exactly: `([\w\s,]+)`", section(5))
    assert {name.strip() for name in listed.split(",")} == EXECUTION_FIELDS
    # The worker is a distribution of its own, and states for itself what it verifies.
    assert PAYLOAD_MEMBERS == EXECUTION_FIELDS


def test_the_contract_tells_states_of_permits_executions_and_reservations() -> None:
    assert words(section(9), "`permit_id, state` (") == set(Permit.State.values)
    assert words(section(9), "States: ") == set(Execution.State.values)
    ends = set(Reservation.State.values) - set(Reservation.OPEN)
    assert words(section(9), "`end` (") == ends


def test_the_contract_tells_the_actions_of_control() -> None:
    assert words(section(9), "`action` (") == set(ControlIn().fields["action"].choices)


def test_contract_and_installation_name_the_same_types_and_sources() -> None:
    assert words(section(1), "`task_type` (") == set(bootstrap.JOB_TYPES)
    assert words(section(1), "`source` (") == set(bootstrap.SOURCES)


# --- The glossary -----------------------------------------------------------------------------


def described(heading: str) -> set[str]:
    part = GLOSSARY.partition(f"## {heading}\n")[2].partition("\n## ")[0]
    assert part, heading
    return set(re.findall(r"`(\w+)`", part))


def test_the_glossary_explains_every_state_and_outcome_and_no_other() -> None:
    assert described("States of a job") == set(Job.State.values)
    assert described("Outcomes of an attempt") == set(Attempt.Outcome.values)


def test_the_glossary_names_the_rooms() -> None:
    rooms = {
        folder.parent.name
        for folder in (ROOT / "governance").glob("*/__init__.py")
        if folder.parent.name not in {"management", "migrations", "templatetags"}
    }
    assert described("Rooms") == rooms | set(PACKAGES) - {"governance"}


def test_the_map_names_the_rooms() -> None:
    page = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    places = set(re.findall(r"^\| `([\w/]+)/`", page, re.MULTILINE))
    rooms = {f"governance/{room}" for room in described("Rooms") - set(PACKAGES)}
    assert rooms | set(PACKAGES) <= places
    assert [place for place in places if not (ROOT / place).is_dir()] == []


# --- Pages for who comes new ------------------------------------------------------------------


@pytest.mark.parametrize("pages", ["ARCHITECTURE.md", "CONTRIBUTING.md", "docs/decisions/*.md"])
def test_what_a_page_names_is_there(pages: str) -> None:
    found = sorted(ROOT.glob(pages))
    assert found
    named = [
        (path.name, name)
        for path in found
        for name in re.findall(
            r"`((?:governance|agents|jobs|tests|docs|examples|templates)/[\w/.-]+)`",
            path.read_text(encoding="utf-8"),
        )
    ]
    assert [(path, name) for path, name in named if not (ROOT / name).exists()] == []


def test_every_decision_is_numbered_listed_and_says_why_and_what_it_costs() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    numbers = [int(page.name[:4]) for page in DECISIONS]
    assert numbers == list(range(min(numbers), max(numbers) + 1))
    for page in DECISIONS:
        text = page.read_text(encoding="utf-8")
        assert text.startswith(f"# {page.name[:4]}: "), page.name
        assert f"({page.name})" in index, page.name
        for part in ("Decision", "Why", "What it costs"):
            assert f"\n## {part}\n" in text, (page.name, part)


def test_every_sink_is_configured_and_documented() -> None:
    how_to = (ROOT / "docs/how-to/relay-facts.md").read_text(encoding="utf-8").lower()
    configured = Path(sinks.__file__).read_text(encoding="utf-8")
    modules = [path.stem for path in Path(sinks.__file__).parent.glob("[a-z]*.py")]
    assert modules
    for name in modules:
        module = importlib.import_module(f"governance.relay.sinks.{name}")
        assert f"{name}.destination()" in configured
        assert module.NAME in how_to


def test_who_upgrades_is_told_which_permissions_are_new_and_whose_they_are() -> None:
    page = (ROOT / "docs/how-to/deploy.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| `(\w+)` \|.*\| ([\w, ]+) \|$", page, re.MULTILINE)
    held = {group: permissions.held_by(group) for group in permissions.GROUPS}
    told = {name: set(groups.split(", ")) for name, groups in rows}
    unreleased = CHANGELOG.partition("## Unreleased")[2].partition("\n## ")[0]
    new = re.findall(r"[Nn]ew\s+permission(?: |\n  )`(\w+)`", unreleased)
    new += re.findall(r"`(\w+)` \(new permission", unreleased)

    assert sorted(told) == sorted(new)
    for name, groups in told.items():
        assert {group for group in held if name in held[group]} == groups, name


def test_version_and_changelog_agree() -> None:
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    headings = re.findall(r"^## (\S+)", CHANGELOG, re.MULTILINE)
    assert headings[0] == "Unreleased"
    released = [tuple(map(int, heading.split("."))) for heading in headings[1:]]
    assert released == sorted(released, reverse=True)
    number, dev, _ = version.partition(".dev")
    # Between two releases the version is that of the next one.
    assert tuple(map(int, number.split("."))) >= released[0]
    assert bool(dev) == (number != headings[1])


def test_the_license_is_the_one_that_is_declared() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    text = (ROOT / "LICENSE").read_text()
    assert project["license"] == "Apache-2.0"
    assert "Apache License\n                           Version 2.0, January 2004" in text
    assert "END OF TERMS AND CONDITIONS" in text
