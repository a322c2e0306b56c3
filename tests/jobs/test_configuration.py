"""Configuration as code: applied as a whole or not at all, and written so that it gives itself."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command, get_commands, load_command_class
from django.core.management.base import CommandParser
from django.db import connection, connections, transaction

from agents.models import Agent, Submitter
from agents.transitions import principals
from governance.core.models import AuditEvent
from governance.money import catalogue, limiting
from governance.money.limits import Limit, LimitMeter
from governance.money.models import Budget, BudgetWindow, LanguageModel, Price, RoutePolicy
from jobs import bootstrap, transitions
from jobs.configuration import files, plan, sections, written
from jobs.models import JobType, Source
from tests.money import beside

pytestmark = pytest.mark.django_db

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
WHY = {"actor": "user:anna", "reason": "as agreed"}
#: Options that say how a command acts, and nothing of what it configures.
ACTING = {"json", "actor", "reason", "register", "help", "remove_task_id_prefix"}


@pytest.fixture
def file(tmp_path: Path) -> Callable[..., Path]:
    def write(text: str, name: str = "g.toml") -> Path:
        path = tmp_path / name
        path.write_text(text)
        return path

    return write


def apply(path: Path, **options: Any) -> str:
    said = io.StringIO()
    call_command("apply_governance", path, **WHY | options, stdout=said)
    return said.getvalue()


def exported() -> str:
    said = io.StringIO()
    call_command("export_governance", stdout=said)
    return said.getvalue()


def lines(text: str) -> list[str]:
    return [line for line in text.splitlines() if line[:2] in {"+ ", "~ ", "- "}]


def digest() -> str:
    return plan.digest_of(plan.read_state())


@contextmanager
def refused(*words: str) -> Iterator[None]:
    """Assert that the block is refused with these words, and changes and records nothing."""
    before, events = digest(), AuditEvent.objects.count()
    with pytest.raises(CommandError) as caught:
        yield
    assert str(caught.value).startswith("Nothing was changed.")
    for word in words:
        assert word in str(caught.value)
    assert (digest(), AuditEvent.objects.count()) == (before, events)


# --- Applied ----------------------------------------------------------------------------------


def test_the_example_is_applied_through_the_transitions(world: None) -> None:
    apply(EXAMPLES / "governance.toml")

    reviewer = Agent.objects.get(name="reviewer")
    assert (reviewer.max_risk_tier, reviewer.approve_cells) == ("low", True)
    kind = JobType.objects.select_related("agent").get(name="summarize_ticket")
    assert (kind.agent, kind.max_attempts, kind.model_use) == (reviewer, 2, "required")
    assert kind.inputs_schema["required"] == ["ticket"]
    assert Source.objects.get(name="ticket_desk").enabled
    assert Submitter.objects.filter(name="desk").exists()
    [small, large] = Price.objects.order_by("model__name").reverse()
    assert (small.output_rate, large.call_rate) == (Decimal("0.2"), Decimal("0.001"))
    assert large.document["prices"]["output_mtok"]["tiers"] == [{"start": 128000, "price": "8"}]
    policy = RoutePolicy.objects.get(agent="reviewer")
    assert [str(line.model) for line in catalogue.lines_of(policy)] == [
        "local/small", "local/large",
    ]  # fmt: skip
    budget = Budget.objects.get(scope="agent")
    assert (budget.key, budget.cap, budget.soft_cap) == ("*", 20, None)
    for subject in ("agent:reviewer", "job_type:summarize_ticket", f"budget:{budget.pk}"):
        [*_, event] = AuditEvent.objects.filter(subject=subject).order_by("seq")
        assert (event.actor, event.reason) == ("user:anna", "as agreed")


def test_both_examples_want_the_same_and_a_second_time_nothing_changes(world: None) -> None:
    apply(EXAMPLES / "governance.toml")
    events = AuditEvent.objects.count()
    assert lines(apply(EXAMPLES / "governance.yaml")) == []
    assert lines(apply(EXAMPLES / "governance.toml", prune=False)) == []
    assert AuditEvent.objects.count() == events


def test_a_change_is_shown_and_touches_nothing_else(world: None, file: Any) -> None:
    path = file('[agents.hermes]\nfresh_seconds = 30\n[job_types.rewrite]\nagent = "hermes"\n')
    before = plan.read_state()
    assert lines(apply(path, dry_run=True)) == [
        "~ agents.hermes.fresh_seconds: 60 -> 30",
        '~ job_types.rewrite.agent: "openclaw" -> "hermes"',
    ]
    assert plan.read_state() == before
    answer = json.loads(apply(path, json=True))
    assert (answer["changed"], answer["dry_run"], answer["after"]) == (2, False, digest())
    before["agents"]["hermes",]["fresh_seconds"] = 30
    before["job_types"]["rewrite",]["agent"] = "hermes"
    assert plan.read_state() == before


def test_a_dry_run_finds_what_only_a_transition_refuses_and_records_nothing(
    world: None, file: Any
) -> None:
    with refused("stale", "g.toml:1: agents.hermes"):
        apply(file("[agents.hermes]\nfresh_seconds = 500\n"), dry_run=True)
    events = AuditEvent.objects.count()
    apply(file("[agents.hermes]\nfresh_seconds = 50\n"), dry_run=True)
    assert AuditEvent.objects.count() == events


def test_what_is_refused_late_takes_back_what_was_done_before(world: None, file: Any) -> None:
    text = """
[agents.hermes]
fresh_seconds = 30
[[models]]
provider = "local"
name = "new"
[[policies]]
models = ["local/new", "local/none"]
"""
    with refused("g.toml:7: policies[0]", "local/none is not in the catalogue"):
        apply(file(text))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[agent.hermes]\n", ["g.toml:1: agent", "Is agents meant?"]),
        ("[[quotas]]\nscope = 'global'\n", ["quotas", "There is no section"]),
        ("[agents.hermes]\n\nfresh_second = 1\n", ["g.toml:3", "Is fresh_seconds meant?"]),
        ("[agents.hermes]\nfresh_seconds = true\n", ["g.toml:2", "whole number"]),
        ("[agents.hermes]\nenabled = 1\n", ["g.toml:2", "true or false"]),
        ("[agents.hermes]\nmax_risk_tier = 'none'\n", ["g.toml:2"]),
        ("[agents]\nhermes = 1\n", ["agents.hermes", "table"]),
        ("[[agents]]\nname = 'hermes'\n", ["[agents.NAME]"]),
        ("[budgets.a]\ncap = 1\n", ["[[budgets]]"]),
        ("[[budgets]]\nscope='global'\nwindow='day'\ncap = -1\n", ["g.toml:4: budgets[0].cap"]),
        ("[[budgets]]\nscope='global'\nwindow='day'\ncap = inf\n", ["g.toml:4: budgets[0].cap"]),
        ("[[budgets]]\nscope='planet'\nwindow='day'\n", ["budgets[0]", "one of global"]),
        ("[[budgets]]\nscope='agent'\nkey='nobody'\nwindow='day'\n", ["no agent nobody"]),
        ("[[budgets]]\nscope='submitter'\nkey='no'\nwindow='day'\n", ["no submitter no"]),
        ("[[budgets]]\nscope='model'\nkey='a/b'\nwindow='day'\n", ["no model a/b"]),
        ("[[budgets]]\nscope='provider'\nkey='a'\nwindow='day'\n", ["no provider a"]),
        ("[[budgets]]\nscope='label'\nkey='a'\nwindow='day'\n", ["name=value"]),
        ("[[limits]]\nscope='agent'\nkey='nobody'\nopen_calls=1\n", ["no agent nobody"]),
        ("[[limits]]\nscope='global'\nopen_calls=0\n", ["limits[0].open_calls"]),
        ("[[limits]]\nscope='global'\n", ["one of the three bounds"]),
        ("[[policies]]\njob_type='nothing'\nmodels=[]\n", ["no job type nothing"]),
        ("[[policies]]\nmodels=[]\n[[policies]]\nmodels=[]\n", ["policies[1]", "twice"]),
        ("[[policies]]\nagent=1\nmodels=[]\n", ["g.toml:2: policies[0].agent"]),
        ("[[policies]]\nmodels='local/a'\n", ["g.toml:2", "list of texts"]),
        ("[[prices]]\nprovider='a'\nmodel='b'\nrates={output=1}\n", ["rate for input"]),
        ("[[prices]]\nprovider='a'\nmodel='b'\nrates={input=1,exit=2}\n", ["no rate exit"]),
        ("[[prices]]\nprovider='a'\nmodel='b'\nrates={input=1,output=2}\n", ["catalogue"]),
        ("[[prices]]\nprovider='a'\nmodel='b'\nfrom=2026-01-01\n", ["prices[0].from"]),
        (
            '[job_types.new]\nmodel_use = "required"\n',
            ["g.toml:1: job_types.new", "Say which agent"],
        ),
        ("[job_types.new]\nagent = 'nobody'\n", ["There is no agent nobody"]),
        ("[job_types.rewrite]\nlease_seconds = 1\n", ["g.toml:2", "60 to"]),
        ("[job_types.rewrite]\ninputs_schema = '{'\n", ["g.toml:2", "no JSON"]),
        ("[job_types.rewrite]\ninputs_schema = {type = 7}\n", ["g.toml:2", "no JSON Schema"]),
        ("[submitters.a]\nowner = 'nobody'\n", ["There is no user nobody"]),
        ("[sources.'no name']\n", ["sources.no name"]),
        ("agents = \n", ["g.toml: Invalid value", "line 1"]),
        ("[agents.a]\n[agents.a]\n", ["g.toml", "line 2"]),
    ],
)
def test_a_wrong_file_changes_nothing_and_names_the_place(
    world: None, file: Any, text: str, words: list[str]
) -> None:
    first = "[agents.openclaw]\nfresh_seconds = 7\n"
    with refused(*words):
        apply(file(text))
    # Nor what stands beside it and is right.
    with refused():
        apply(file(f"{text}\n{first}"))


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("agents: {a: {}, a: {}}", "a is there twice"),
        ("agents: {on: {}}", "is no name"),
        ("budgets: [{scope: global, window: day, cap: .inf}]", "is no number"),
        ("budgets: [{scope: global, window: day, cap: 1:30.5}]", "is no number"),
        ("agents: !!python/object:os.system {}", "could not determine a constructor"),
        ("- agents", "it has no sections"),
        ("", "it has no sections"),
    ],
)
def test_yaml_without_its_traps(world: None, file: Any, text: str, words: str) -> None:
    with refused(words):
        apply(file(text, "g.yaml"))


def test_every_fault_is_told_at_once(world: None, file: Any) -> None:
    with refused("agents.hermes.a", "agents.hermes.b", "quotas"):
        apply(file("quotas = []\n[agents.hermes]\na = 1\nb = 2\n"))


def test_a_file_that_is_not_there_is_one_line(world: None, tmp_path: Path) -> None:
    with refused("none.toml: No such file"):
        apply(tmp_path / "none.toml")


def test_a_state_that_has_changed_is_refused(world: None, file: Any) -> None:
    path, seen = file("[agents.hermes]\nfresh_seconds = 30\n"), digest()
    transitions.configure_source(name="proof", enabled=False, **WHY)
    with refused(seen, digest()):
        apply(path, expect=seen)
    apply(path, expect=digest())
    assert Agent.objects.get(name="hermes").fresh_seconds == 30


def test_a_limit_is_taken_away_by_a_word(world: None, file: Any) -> None:
    head = "[[budgets]]\nscope = 'global'\nwindow = 'day'\n"
    apply(file(head + "cap = 1.5\nsoft_cap = 1\n"))
    apply(file(head + "cap = 2\n"))
    budget = Budget.objects.get()
    assert (budget.cap, budget.soft_cap) == (2, 1)
    assert lines(apply(file(head + "cap = 'none'\nenabled = false\n"))) == [
        '~ budgets global/any/day.cap: 2 -> "none"',
        "~ budgets global/any/day.enabled: true -> false",
    ]
    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap, budget.enabled) == (None, 1, False)


def test_who_answers_for_a_submitter_does_not_change(world: None, file: Any, as_: Any) -> None:
    as_("operator")
    apply(file("[submitters.desk]\nowner = 'operator'\n"))
    as_("viewer")
    with refused("submitters.desk", "said when it is registered"):
        apply(file("[submitters.desk]\nowner = 'viewer'\n"))


# --- Pruned -----------------------------------------------------------------------------------


def test_what_is_absent_stays_or_is_ended_when_that_is_asked_for(world: None, file: Any) -> None:
    apply(EXAMPLES / "governance.toml")
    path = file(
        "policies = []\nprices = []\nbudgets = []\nmodels = []\nsubmitters = {}\n"
        "[sources.manual]\n[job_types.rewrite]\n"
    )
    assert lines(apply(path)) == []
    gone = lines(apply(path, prune=True))

    assert not RoutePolicy.objects.filter(retired_at=None).exists()
    assert not Price.objects.filter(ends_at=None).exists()
    assert not Budget.objects.filter(enabled=True).exists()
    assert not LanguageModel.objects.filter(enabled=True).exists()
    assert list(Source.objects.filter(enabled=True)) == [Source.objects.get(name="manual")]
    assert [row.name for row in JobType.objects.filter(enabled=True)] == ["rewrite"]
    # The file says nothing of agents, and nothing disables a submitter.
    assert not Agent.objects.filter(enabled=False).exists()
    assert "- budgets agent/*/day" in gone and not any("submitters" in line for line in gone)
    assert lines(apply(path, prune=True)) == []


def test_agents_are_disabled_by_a_file_that_has_some(world: None, file: Any) -> None:
    apply(file("[agents.hermes]\n"), prune=True)
    assert {row.name for row in Agent.objects.filter(enabled=True)} == {"hermes"}


# --- Written ----------------------------------------------------------------------------------


@pytest.fixture
def odd(world: None, as_: Any) -> None:
    """An installation in which each member is what it is not at first."""
    as_("operator")
    apply(EXAMPLES / "governance.toml")
    register = principals.register_submitter
    register(name="owned", owner="operator", **WHY)
    settings = principals.Settings(enabled=False, expected=False, fresh_seconds=1, stale_seconds=2)
    principals.configure_agent(name="openclaw", settings=settings, **WHY)
    schema = {"enum": [None, 1.5, "'''\n\x7f\"\\"], "title": "é\u2028"}
    kind = transitions.TypeSettings(inputs_schema=schema, attempt_timeout_seconds=60)
    transitions.configure_job_type(name="rewrite", settings=kind, **WHY)
    transitions.configure_source(name="proof", enabled=False, **WHY)
    catalogue.set_model(provider="a b", name='q"x/y', context_tokens_max=7, **WHY)
    catalogue.set_policy(models=[("a b", 'q"x/y')], risk_tier="low", **WHY)
    catalogue.set_policy(models=[], risk_tier="high", **WHY)
    catalogue.set_budget(
        scope="job", key="task ü", window="none", cap=Decimal("0.000000000001"), **WHY
    )
    catalogue.set_budget(scope="global", window="day", cap=None, enabled=False, **WHY)
    catalogue.set_budget(scope="submitter", key="owned", window="week", cap=Decimal(3), **WHY)
    catalogue.set_budget(scope="label", key="team=s=*", window="hour", cap=Decimal(3), **WHY)
    catalogue.set_budget(scope="label", key="team=*", window="hour", cap=Decimal(3), **WHY)
    catalogue.set_budget(scope="model", key='a b/q"x/y', window="day", cap=Decimal(3), **WHY)
    catalogue.set_budget(scope="provider", key="a b", window="day", cap=Decimal(3), **WHY)
    catalogue.set_budget(scope="provider", key="*", window="day", cap=Decimal(3), **WHY)
    limiting.set_limit(scope="global", requests_per_minute=5, enabled=False, **WHY)
    limiting.set_limit(scope="label", key="team=*", tokens_per_minute=7, open_calls=1, **WHY)
    limiting.set_limit(scope="model", key='a b/q"x/y', open_calls=2, **WHY)


def test_a_limit_is_made_changed_and_disabled(world: None, file: Any) -> None:
    head = "[[limits]]\nscope = 'agent'\nkey = '*'\n"
    made = apply(file(head + "requests_per_minute = 60\nopen_calls = 4\n"))
    changed = apply(file(head + "open_calls = 'none'\n"))
    gone = apply(file("limits = []\n"), prune=True)

    assert lines(made) == [
        "+ limits agent/*.requests_per_minute: 60", "+ limits agent/*.open_calls: 4",
    ]  # fmt: skip
    assert lines(changed) == ['~ limits agent/*.open_calls: 4 -> "none"']
    assert lines(gone) == ["- limits agent/*"]
    row = Limit.objects.get()
    assert (row.requests_per_minute, row.open_calls, row.enabled) == (60, None, False)


def test_what_is_written_changes_nothing(odd: None, file: Any) -> None:
    events = AuditEvent.objects.count()
    text = exported()
    assert lines(apply(file(text), prune=True, expect=digest())) == []
    assert AuditEvent.objects.count() == events
    assert f"--expect {digest()}" in text


def test_what_is_written_gives_the_same_to_an_empty_installation(
    odd: None, file: Any, empty: Callable[[], None]
) -> None:
    text, state = exported(), plan.read_state()
    empty()
    bootstrap.install()
    assert plan.read_state() != state
    apply(file(text), prune=True)
    assert plan.read_state() == state
    assert exported() == text


@pytest.fixture
def empty() -> Callable[[], None]:
    """Take away all that is set, as no installation can."""

    def take() -> None:
        with connection.cursor() as cursor:
            cursor.execute("SET LOCAL session_replication_role = replica")
            for model in (
                Price, RoutePolicy, LimitMeter, Limit, BudgetWindow, Budget, LanguageModel, JobType,
                Source, Submitter, Agent, AuditEvent,
            ):  # fmt: skip
                for relation in model._meta.related_objects:
                    if relation.related_model._meta.app_label == "governance":
                        cursor.execute(f"DELETE FROM {relation.related_model._meta.db_table}")
                cursor.execute(f"DELETE FROM {model._meta.db_table}")
            cursor.execute("SET LOCAL session_replication_role = origin")

    return take


def test_an_empty_section_is_written_so_that_it_can_be_pruned(world: None, file: Any) -> None:
    text = exported()
    assert "budgets = []" in text and "[submitters]" in text
    catalogue.set_budget(scope="global", window="day", cap=Decimal(1), **WHY)
    assert lines(apply(file(text), prune=True)) == ["- budgets global/any/day"]


def test_equal_states_have_equal_digests_and_others_do_not(world: None) -> None:
    state = plan.read_state()
    shuffled = {name: dict(reversed(rows.items())) for name, rows in plan.read_state().items()}
    assert plan.digest_of(shuffled) == plan.digest_of(state)
    state["agents"]["hermes",]["fresh_seconds"] += 1
    assert plan.digest_of(shuffled) != plan.digest_of(state)


# --- One declaration --------------------------------------------------------------------------

#: The section of each command that configures, and the members that only its file has or lacks.
CONFIGURING = {
    "configure_agent": "agents",
    "configure_job_type": "job_types",
    "configure_source": "sources",
    "configure_submitter": "submitters",
}
#: `create_credential --owner` registers it; there is no command that changes it.
ELSEWHERE = {"submitters": {"owner"}}


def test_every_command_that_configures_has_its_section() -> None:
    commands = {name for name in get_commands() if name.startswith("configure_")}
    assert commands <= CONFIGURING.keys()
    assert set(CONFIGURING.values()) <= sections.BY_NAME.keys()


@pytest.mark.parametrize("name", sorted(CONFIGURING))
def test_each_option_of_a_command_is_a_member_and_each_member_an_option(name: str) -> None:
    if (app := get_commands().get(name)) is None:
        # Submitters have no command of their own yet: what registers one is what the file has.
        assert name == "configure_submitter"
        assert {m.name for m in sections.SUBMITTERS.members} == ELSEWHERE["submitters"]
        return
    command = load_command_class(str(app), name)
    plain = CommandParser()
    command.add_arguments(plain)
    options = {action.dest for action in plain._actions if action.option_strings} - ACTING
    section = sections.BY_NAME[CONFIGURING[name]]
    members = {member.name for member in section.members}
    assert members - ELSEWHERE.get(section.name, set()) == options


def test_what_can_be_set_of_an_agent_and_a_type_can_be_read_of_it(world: None) -> None:
    for section in sections.SECTIONS:
        for values in section.rows().values():
            assert values.keys() == {member.name for member in section.members}, section.name


# --- Beside others ----------------------------------------------------------------------------


@pytest.mark.django_db(transaction=True)
def test_who_changes_the_same_meanwhile_is_not_overruled(file: Any) -> None:
    """A budget is set as a whole: what another sets of it must not be lost."""
    bootstrap.install()
    terms: dict[str, Any] = {"scope": "global", "window": "day", **WHY}
    catalogue.set_budget(cap=Decimal(1), soft_cap=Decimal(1), **terms)
    path = file("[[budgets]]\nscope = 'global'\nwindow = 'day'\ncap = 5\n")
    real = plan._perform

    def after_another(*args: Any, **named: Any) -> None:
        with beside(catalogue.set_budget, cap=Decimal(1), soft_cap=Decimal(0), **terms) as other:
            other.result(timeout=20)
        real(*args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_perform", after_another)
        with pytest.raises(CommandError, match="meanwhile"):
            apply(path)
    budget = Budget.objects.get()
    assert (budget.cap, budget.soft_cap) == (1, 0)

    apply(path)
    budget.refresh_from_db()
    assert (budget.cap, budget.soft_cap) == (5, 0)
    connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_without_the_snapshot_the_others_word_would_be_lost(file: Any) -> None:
    """The control: read committed overrules whoever came between."""
    bootstrap.install()
    terms: dict[str, Any] = {"scope": "global", "window": "day", **WHY}
    catalogue.set_budget(cap=Decimal(1), soft_cap=Decimal(1), **terms)
    wanted = files.read(file("[[budgets]]\nscope = 'global'\nwindow = 'day'\ncap = 5\n"))
    real = plan._perform

    def after_another(*args: Any, **named: Any) -> None:
        with beside(catalogue.set_budget, cap=Decimal(1), soft_cap=Decimal(0), **terms) as other:
            other.result(timeout=20)
        real(*args, **named)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "_perform", after_another)
        with transaction.atomic():
            plan.apply(wanted=wanted, **WHY)
    assert Budget.objects.get().soft_cap == 1
    connections.close_all()


def test_what_is_written_is_toml_of_this_state(world: None) -> None:
    assert written.toml(plan.read_state()) == exported()
