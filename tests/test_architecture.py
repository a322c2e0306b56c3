"""The rules of the house hold here, and each of them notices what breaks it."""

from __future__ import annotations

import ast
import re
import shutil
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from governance.core import permissions, verbs
from tests import house
from tests.house import Checkout
from tests.house.sizes import sizes

CORE_VIOLATIONS = {
    "sleeps": (house.no_sleep_in_the_core, "import time\n\n\ndef _():\n    time.sleep(1)"),
    "imports sleep": (house.no_sleep_in_the_core, "from time import sleep"),
    "reads Django's clock": (
        house.no_clock_but_the_databases,
        "from django.utils import timezone\n\n\ndef _():\n    return timezone.now()",
    ),
    "reads the machine's clock": (
        house.no_clock_but_the_databases,
        "import time\n\n\ndef _():\n    return time.time()",
    ),
    "answers HTTP": (house.no_face_in_the_core, "from django.http import HttpResponse"),
    "imports django.http": (house.no_face_in_the_core, "import django.http"),
    "knows the API's framework": (house.no_face_in_the_core, "import rest_framework"),
    "raises the API's errors": (
        house.no_face_in_the_core,
        "from rest_framework.exceptions import APIException",
    ),
    "knows the console": (house.no_face_in_the_core, "from django.contrib import admin"),
    "renders a page": (house.no_face_in_the_core, "from django.shortcuts import render"),
    "hears a signal": (house.no_signal_in_the_core, "from django.dispatch import receiver"),
    "sends a signal": (house.no_signal_in_the_core, "from django.db.models import signals"),
    "hears a model's signal": (
        house.no_signal_in_the_core,
        "from django.db.models.signals import post_save",
    ),
    "names an action badly": (
        house.audit_actions_are_a_noun_and_what_happened,
        'record(action="claimJob")',
    ),
}
STATUS_VIOLATIONS = {
    "returns a status": "def _(answer):\n    return 409, answer",
    "carries a status": "class _Answer:\n    status: int",
    "passes a status": "_answer(status=201)",
    "names a status": "STATUS = 404",
    "imports statuses": "from http import HTTPStatus",
}
STATE_VIOLATIONS = {
    "sets it": "def _(job):\n    job.state = 'queued'",
    "sets it of a locked job": "def _(locked):\n    locked.job.state = 'queued'",
    "sets it under another name": "def _(row):\n    row.state = Job.State.QUEUED",
    "sets it by name": "def _(job):\n    setattr(job, 'state', 'queued')",
    "sets it with others": "def _(job):\n    job.state, job.epoch = 'queued', 1",
    "updates a set": "def _():\n    Job.objects.filter(pk=1).update(state='queued')",
    "updates in SQL": "_SQL = 'UPDATE jobs_job j SET revision = 1, state = %s'",
}
VERB_VIOLATIONS = {
    "a verb without a permission": "Verb(name='x', on=JOB, label='X', effect='', run=print)",
    "a verb with none": "Verb(name='x', on=JOB, label='X', permission=None, run=print)",
    "a verb with an empty one": "verbs.register(Verb(name='x', permission=''))",
    "an admin action": "@admin.action(description='x')\ndef _(self, request, rows): ...",
}
WORKER_VIOLATIONS = ("import django.db", "from governance.core import clock", "import jobs.models",
                     "from agents import models", "import psycopg")  # fmt: skip
ARROWS = (
    "PERMISSION = 'jobs.stop_job'",
    "apps.get_model('jobs', 'Job')",
    "import_string('agents.entry.enter')",
    "reverse('admin:jobs_job_changelist')",
)


@pytest.fixture(scope="module")
def copy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the product that something can be planted in."""
    root = tmp_path_factory.mktemp("copy")
    for folder in (*house.PACKAGES, "docs"):
        left_out = shutil.ignore_patterns("__pycache__", "images")
        shutil.copytree(house.ROOT / folder, root / folder, ignore=left_out)
    return root


@pytest.fixture
def checkout(copy: Path) -> Checkout:
    return Checkout(copy)


@contextmanager
def planted(checkout: Checkout, path: str, change: Callable[[str], str]) -> Iterator[None]:
    """Change one module of the copy for the time of the block."""
    file = checkout.root / path
    before = file.read_text(encoding="utf-8")
    after = change(before)
    assert after != before, path
    try:
        file.write_text(after, encoding="utf-8")
        checkout.reread(path)
        yield
    finally:
        file.write_text(before, encoding="utf-8")
        checkout.reread(path)


def unnoticed(checkout: Checkout, rule: house.Rule, text: str, paths: list[str]) -> list[str]:
    """Return the modules in which the rule does not notice `text`, planted in all at once."""
    with ExitStack() as stack:
        for path in paths:
            stack.enter_context(planted(checkout, path, lambda source: f"{source}\n\n{text}\n"))
        faults = rule(checkout)
    return [path for path in paths if not any(fault.startswith(path) for fault in faults)]


def looked_at(violations: Mapping[str, object], violation: str, paths: list[str]) -> list[str]:
    """Return all modules for the first violation of a rule, for its other shapes one in ten."""
    rules = {
        name: value[0] if isinstance(value, tuple) else "" for name, value in violations.items()
    }
    first = next(name for name, rule in rules.items() if rule == rules[violation])
    return paths if violation == first else paths[::10]


def subject_to(rule: house.Rule, modules: list[house.Module]) -> list[str]:
    return [module.path for module in house.subject_to(rule.__name__, modules)]


def named(rule: house.Rule) -> str:
    return rule.__name__


# --- The rules hold ---------------------------------------------------------------------------


@pytest.mark.parametrize("rule", house.RULES, ids=named)
def test_the_house_keeps_its_rule(rule: house.Rule) -> None:
    assert rule(Checkout()) == []


@pytest.mark.parametrize(
    ("rule", "path"), [(rule, path) for rule, paths in house.EXCEPTIONS.items() for path in paths]
)
def test_an_exception_is_needed(rule: str, path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(house.EXCEPTIONS[rule], path)
    assert any(fault.startswith(path) for fault in getattr(house, rule)(Checkout()))


@pytest.mark.parametrize("rule", house.RULES, ids=named)
def test_a_rule_that_finds_nothing_to_look_at_fails(rule: house.Rule, tmp_path: Path) -> None:
    with pytest.raises(house.NothingToCheck):
        rule(Checkout(tmp_path))


def test_the_core_is_all_that_decides() -> None:
    paths = [module.path for module in Checkout().core()]
    for room in house.GROUND:
        assert any(path.startswith(f"governance/{room}/") for path in paths), room
    for app in house.APPS:
        for noun in ("transitions", "models", "queries"):
            assert any(re.match(rf"{app}/{noun}(\.py|/)", path) for path in paths), (app, noun)
    faces = {part for module in Checkout().modules() for part in module.path.split("/")[1:2]}
    assert house.FACES <= {face.removesuffix(".py") for face in faces}


def test_the_known_moves_are_among_the_transitions() -> None:
    names = {name for _, name in house.transitions(Checkout())}
    assert {"claim", "complete", "fail", "escalate", "heartbeat", "sweep", "stop", "approve",
            "reconcile", "set_admission", "activate"} <= names  # fmt: skip


def test_every_verb_needs_a_permission_that_is_declared() -> None:
    assert verbs.every()
    assert {verb.permission for verb in verbs.every()} <= set(permissions.declared())


# --- The rules bite ---------------------------------------------------------------------------


@pytest.mark.parametrize("violation", CORE_VIOLATIONS)
def test_a_violation_in_any_module_of_the_core_is_noticed(
    checkout: Checkout, violation: str
) -> None:
    rule, text = CORE_VIOLATIONS[violation]
    paths = subject_to(rule, checkout.core())
    assert unnoticed(checkout, rule, text, looked_at(CORE_VIOLATIONS, violation, paths)) == []


@pytest.mark.parametrize("violation", STATUS_VIOLATIONS)
def test_an_http_status_in_any_transition_is_noticed(checkout: Checkout, violation: str) -> None:
    rule, text = house.no_http_status_in_a_transition, STATUS_VIOLATIONS[violation]
    paths = subject_to(rule, checkout.moving())
    assert unnoticed(checkout, rule, text, looked_at(STATUS_VIOLATIONS, violation, paths)) == []


def test_any_transition_with_positional_parameters_is_noticed(checkout: Checkout) -> None:
    rule = house.transitions_take_keywords
    missed = []
    for module, name in house.transitions(checkout):
        head = re.compile(rf"(def {name}\()")
        with planted(checkout, module.path, lambda text, head=head: head.sub(r"\1first, ", text)):
            if not any(fault.endswith(f": {name}") for fault in rule(checkout)):
                missed.append(name)
    assert missed == []


@pytest.mark.parametrize("violation", STATE_VIOLATIONS)
def test_a_second_writer_of_a_jobs_state_is_noticed(checkout: Checkout, violation: str) -> None:
    rule, text = house.one_writer_of_a_jobs_state, STATE_VIOLATIONS[violation]
    modules = checkout.modules(lambda parts: parts[0] == "jobs" or "core" in parts)
    elsewhere = [m.path for m in modules if not m.path.startswith("jobs/models")]
    paths = looked_at(STATE_VIOLATIONS, violation, elsewhere)
    assert unnoticed(checkout, rule, text, paths) == []


def test_a_second_writer_beside_the_first_is_noticed(checkout: Checkout) -> None:
    [model] = [m.path for m in checkout.modules() if "def move_to(" in m.source]
    with planted(checkout, model, lambda text: text + "\n\ndef _(job):\n    job.state = 'x'\n"):
        assert len(house.one_writer_of_a_jobs_state(checkout)) == 1


@pytest.mark.parametrize("violation", VERB_VIOLATIONS)
def test_a_verb_without_a_permission_is_noticed(checkout: Checkout, violation: str) -> None:
    rule, text = house.every_verb_has_a_permission, VERB_VIOLATIONS[violation]
    declaring = checkout.modules(lambda parts: bool({"console", "verbs", "verbs.py"} & set(parts)))
    assert unnoticed(checkout, rule, text, [module.path for module in declaring]) == []


@pytest.mark.parametrize(
    ("rule", "text"),
    [
        (house.row_locks_say_whether_they_block_children, "rows.select_for_update()"),
        (house.hints_after_commit_cannot_fail_a_write, "transaction.on_commit(print)"),
        (house.advisory_locks_have_classes_of_their_own, "OTHER_LOCK_CLASS = 1"),
        (house.no_file_is_too_long, "\n" * house.LINES_MAX),
        (house.no_name_is_defined_twice, "def fact():\n    pass"),
        (house.docstrings_open_with_a_verb, 'def _():\n    """What it does."""'),
        (house.docstrings_open_with_a_verb, 'def _():\n    """Whether it does."""'),
        (house.docstrings_open_with_a_verb, 'def _():\n    """:raises NotFound: it is gone."""'),
        (house.docstrings_open_with_a_verb, 'def _():\n    """`{% it %}`: something."""'),
        (house.names_are_nouns_of_the_field, "def _(asked):\n    return asked"),
        (house.names_are_nouns_of_the_field, "told = 1"),
        (house.cited_sections_exist, '"""As the contract, section 99, says."""'),
        (house.cited_sections_exist, "# contract sections 4 to 98"),
    ],
    ids=lambda value: named(value) if callable(value) else "",
)
def test_a_violation_is_noticed(checkout: Checkout, rule: house.Rule, text: str) -> None:
    path = "governance/core/outbox.py"
    assert unnoticed(checkout, rule, text, [path]) == []


@pytest.mark.parametrize("text", ARROWS)
def test_an_arrow_upward_by_a_string_is_noticed(checkout: Checkout, text: str) -> None:
    rule = house.no_arrow_upward_by_a_string
    ground = checkout.modules(lambda parts: parts[0] == "governance")
    below = [m.path for m in ground if not house.PROJECT.match(m.path)]
    assert (
        unnoticed(checkout, rule, text, [p for p in below if p in subject_to(rule, ground)]) == []
    )


@pytest.mark.parametrize("text", WORKER_VIOLATIONS)
def test_a_worker_that_knows_the_server_is_noticed(checkout: Checkout, text: str) -> None:
    paths = [module.path for module in checkout.worker()]
    assert unnoticed(checkout, house.the_worker_knows_only_the_api, text, paths) == []


@pytest.mark.parametrize("name", ["governance/core/utils.py", "jobs/helpers/retries.py"])
def test_a_drawer_is_noticed(copy: Path, name: str) -> None:
    drawer = copy / name
    drawer.parent.mkdir(exist_ok=True)
    drawer.write_text("")
    assert house.no_module_is_a_drawer(Checkout(copy)) == [name]
    drawer.unlink()


def test_a_refusal_that_nothing_raises_is_noticed(checkout: Checkout) -> None:
    text = '\n\nclass Unused(NotFound):\n    """Never."""\n\n    reason = "UNUSED"\n'
    with planted(checkout, "governance/core/errors.py", lambda source: source + text):
        assert "Unused" in house.every_refusal_is_raised(checkout)
        assert house.every_refusal_is_documented(checkout) == ["not documented: UNUSED"]


def test_a_refusal_that_is_only_caught_counts_as_never_raised(checkout: Checkout) -> None:
    text = '\n\nclass Unused(NotFound):\n    """Never."""\n\n    reason = "UNUSED"\n'
    caught = "\n\ntry:\n    print()\nexcept (errors.Unused, KeyError):\n    pass\n"
    with (
        planted(checkout, "governance/core/errors.py", lambda source: source + text),
        planted(checkout, "governance/core/outbox.py", lambda source: source + caught),
    ):
        assert "Unused" in house.every_refusal_is_raised(checkout)


def test_a_documented_refusal_that_does_not_exist_is_noticed(copy: Path) -> None:
    page = copy / "docs/reference/errors.md"
    before = page.read_text(encoding="utf-8")
    page.write_text(before + "| `INVENTED` | `ABORTED` | 409 | `none` | `refresh` | No. |\n")
    assert house.every_refusal_is_documented(Checkout(copy)) == ["unknown: INVENTED"]
    page.write_text(before, encoding="utf-8")


def test_every_module_that_a_rule_reads_is_python(copy: Path) -> None:
    for module in Checkout(copy).modules():
        assert isinstance(module.tree, ast.Module)


def test_sizes_count_product_and_tests_apart_and_no_records_of_schemas(tmp_path: Path) -> None:
    for path, lines in {
        "governance/core/clock.py": 30,
        "jobs/transitions/claims.py": 601,
        "jobs/migrations/0001_jobs.py": 400,
        "agents/worker/src/fencepost_worker/loop.py": 10,
        "tests/migrations/test_upgrade.py": 641,
    }.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("\n" * lines)

    assert sizes(tmp_path) == {
        "files": 3,
        "lines": 641,
        "lines without the worker": 631,
        "lines of core, transitions and executions": 631,
        "median file": 30,
        "files above 600 lines": 1,
        "lines of tests": 641,
        "files of tests above 600 lines": 1,
        "tests per line": 1.0,
    }
