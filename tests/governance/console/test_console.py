"""The console's own parts: runs on frozen selections, lists, exports, payloads, charts."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.core import signing

from governance.console import activity, exports, lists, payloads, runs, selections, wording
from governance.console.chains import read_chain
from governance.console.drawing import Series, Span, bars, lifeline
from governance.console.models import BulkItem, BulkRun, EventMinute
from governance.core import clock, verbs
from governance.core.errors import InvalidTransition, PermissionDenied
from governance.core.fields import Whole
from governance.core.models import AuditEvent, Fact
from governance.core.verbs import Done, Target, Verb
from governance.relay.verbs import RELEASE_FACTS
from jobs import bootstrap


@pytest.fixture
def anna(db: None) -> User:
    user = User.objects.create_user("anna", is_staff=True)
    user.user_permissions.add(Permission.objects.get(codename="release_facts"))
    return user


@pytest.fixture
def toy(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A verb on rows that are only keys, with a log of what it was called with."""
    calls: list[dict[str, Any]] = []

    def run(**request: Any) -> str:
        calls.append(request)
        if request["key"] == "closed":
            raise InvalidTransition("It is closed.")
        if request["key"] == "broken":
            raise RuntimeError("a defect")
        return "moved"

    verb = Verb(
        name="toy",
        on=Target(Fact, key="fact_id"),
        label="Toy",
        permission=RELEASE_FACTS,
        effect="Plays.",
        fields=(Whole(name="n", least=0, most=9),),
        run=run,
        done=Done,
    )
    monkeypatch.setitem(verbs._verbs, (verb.on.label, verb.name), verb)
    return verb, calls


def begin(verb: Verb[Any], user: User, *keys: str) -> BulkRun:
    selection = selections.freeze(model=verb.on.label, keys=list(keys), user_id=user.pk)
    return runs.begin(verb=verb, selection=selection, user=user, reason="because", values={"n": 1})


def outcomes(run: BulkRun) -> dict[str, str]:
    return dict(BulkItem.objects.filter(run=run).values_list("key", "outcome"))


def test_each_row_of_a_run_has_an_outcome_of_its_own(anna: User, toy: Any) -> None:
    verb, calls = toy

    run = runs.advance(run=begin(verb, anna, "a", "closed", "broken", "b"))

    assert outcomes(run) == {"a": "done", "closed": "skipped", "broken": "failed", "b": "done"}
    assert run.finished_at is not None
    assert calls[0] == {"key": "a", "actor": "user:anna", "reason": "because", "n": 1}
    assert "RuntimeError" not in BulkItem.objects.get(run=run, key="broken").detail


def test_a_row_whose_verb_has_lost_a_field_fails_in_words(anna: User, toy: Any) -> None:
    verb, calls = toy
    run = begin(verb, anna, "a", "b")
    BulkRun.objects.filter(pk=run.pk).update(fields={"count": 1})
    run.refresh_from_db()

    run = runs.advance(run=run)

    assert outcomes(run) == {"a": "failed", "b": "failed"}
    assert run.finished_at is not None and calls == []
    details = set(BulkItem.objects.filter(run=run).values_list("detail", flat=True))
    assert details == {"Toy has no field count (any more). (INVALID_ARGUMENT)"}


def test_a_selection_that_is_sent_twice_acts_once(anna: User, toy: Any) -> None:
    verb, calls = toy
    selection = selections.freeze(model=verb.on.label, keys=["a"], user_id=anna.pk)
    asked = {"verb": verb, "selection": selection, "user": anna, "reason": "x", "values": {}}

    first = runs.advance(run=runs.begin(**asked))
    second = runs.advance(run=runs.begin(**asked))

    assert first == second
    assert len(calls) == 1


def test_a_run_goes_on_where_a_dead_process_left_it(anna: User, toy: Any) -> None:
    verb, calls = toy
    run = begin(verb, anna, "a", "b")
    runs.advance(run=run, seconds=0)
    assert outcomes(run) == {"a": "pending", "b": "pending"}

    assert runs.advance_abandoned() == 0  # it may still be at work, in the request that began it
    assert outcomes(run) == {"a": "pending", "b": "pending"}
    assert runs.advance_abandoned(after_seconds=0) == 1

    assert outcomes(run) == {"a": "done", "b": "done"}
    assert runs.advance_abandoned(after_seconds=0) == 0
    assert [call["key"] for call in calls] == ["a", "b"]


def test_a_stopped_run_tries_nothing_more(anna: User, toy: Any) -> None:
    verb, calls = toy
    run = begin(verb, anna, "a", "b")

    runs.stop(run=run, actor="user:anna")
    run.refresh_from_db()
    runs.advance(run=run)

    assert set(outcomes(run).values()) == {"not_tried"}
    assert calls == []


def test_who_lost_the_permission_does_not_finish_a_run(anna: User, toy: Any) -> None:
    verb, calls = toy
    run = begin(verb, anna, "a")
    anna.user_permissions.clear()

    runs.advance(run=BulkRun.objects.get(pk=run.pk))

    assert outcomes(run) == {"a": "failed"}
    assert calls == []


def test_a_run_is_not_begun_without_the_permission(anna: User, toy: Any) -> None:
    verb, _ = toy
    anna.user_permissions.clear()
    anna = User.objects.get(pk=anna.pk)

    with pytest.raises(PermissionDenied):
        begin(verb, anna, "a")

    assert BulkRun.objects.count() == 0


def test_a_selection_belongs_to_one_user_and_one_model() -> None:
    token = selections.freeze(model="jobs.job", keys=["a", "b", "a"], user_id=1).sign()

    assert selections.thaw(token, model="jobs.job", user_id=1).keys == ("a", "b")
    for model, user in (("jobs.job", 2), ("jobs.attempt", 1)):
        with pytest.raises(selections.SelectionInvalid):
            selections.thaw(token, model=model, user_id=user)


def test_a_selection_that_was_changed_is_refused() -> None:
    token = selections.freeze(model="jobs.job", keys=["a"], user_id=1).sign()
    forged = signing.dumps({"r": str(uuid.uuid4()), "m": "jobs.job", "k": ["z"], "u": 1})

    for bad in (token[:-1], "x" + token, forged, ""):
        with pytest.raises(selections.SelectionInvalid):
            selections.thaw(bad, model="jobs.job", user_id=1)


def test_a_selection_is_bounded() -> None:
    for keys in ([], [str(n) for n in range(selections.SELECTION_MAX + 1)]):
        with pytest.raises(ValueError, match="rows"):
            selections.freeze(model="jobs.job", keys=keys, user_id=1)


def test_the_chain_of_a_subject_tells_what_is_wrong_with_it(world: None) -> None:
    from agents.models import Agent

    agent = Agent.objects.get(name="hermes")
    good = read_chain(agent, subject=agent.audit_subject)
    agent.audit_seq += 1
    cut = read_chain(agent, subject=agent.audit_subject)
    missing = read_chain(agent, subject="agent:nobody")

    assert (good.fault, good.whole) == ("", True)
    assert cut.fault == f"the end of the chain is not event {agent.audit_seq - 1}"
    assert missing.fault == "the chain is missing"


def test_an_id_is_found_by_its_time_without_an_index(world: None) -> None:
    first = AuditEvent.objects.order_by("id").first()
    assert first is not None
    after = clock.now() + timedelta(hours=1)

    assert lists.id_at(AuditEvent, "at", first.at) <= first.pk
    last = AuditEvent.objects.order_by("id").last()
    assert last is not None
    assert lists.id_at(AuditEvent, "at", after) <= last.pk + 1


def test_an_export_cannot_start_a_formula() -> None:
    rows = iter([{"a": "=1+1", "b": -3}, {"a": "plain", "b": None}])

    lines = list(exports._csv(rows, ("a", "b")))

    assert lines == ["a,b\r\n", "'=1+1,-3\r\n", "plain,\r\n"]


def test_payloads_are_redacted_bounded_and_withheld() -> None:
    value = {"api_key": "abc", "deep": [{"Password": "x", "n": 12345678901234567890}]}

    seen = payloads.shown("inputs", value, allowed=True)
    withheld = payloads.shown("inputs", value, allowed=False)
    long = payloads.shown("goal", "x" * 30_000, allowed=True)

    assert seen is not None and withheld is not None and long is not None
    assert seen.text is not None
    assert json.loads(seen.text) == {
        "api_key": "[redacted]",
        "deep": [{"Password": "[redacted]", "n": 12345678901234567890}],
    }
    assert withheld.text is None and withheld.sha256 == seen.sha256
    assert long.cut and long.text is not None and len(long.text) == payloads.SHOWN_MAX
    assert payloads.shown("inputs", {}, allowed=True) is None


def test_each_event_is_counted_once_per_minute(world: None) -> None:
    later = clock.now() + timedelta(seconds=activity.LAG_SECONDS + 1)
    settled = AuditEvent.objects.filter(at__lt=later).count()
    activity.LAG_SECONDS, lag = -1, activity.LAG_SECONDS
    try:
        assert activity.count_minutes(limit=2) == 2
        counted = 2
        while fresh := activity.count_minutes(limit=2):
            counted += fresh
    finally:
        activity.LAG_SECONDS = lag

    assert counted == settled
    assert sum(EventMinute.objects.values_list("count", flat=True)) == settled


def test_a_young_event_is_left_for_later(db: None) -> None:
    bootstrap.install()
    assert activity.count_minutes() == 0
    assert EventMinute.objects.count() == 0


def test_a_series_puts_each_minute_into_its_bucket(db: None) -> None:
    until = clock.now().replace(second=30, microsecond=0)
    minute = until.replace(second=0)
    for age, count in ((0, 5), (1, 3), (59, 2), (60, 7)):
        EventMinute.objects.create(
            minute=minute - timedelta(minutes=age), action="job.claimed", count=count
        )
    EventMinute.objects.create(minute=minute, action="job.failed", count=100)

    groups = {"claims": ("job.claimed",)}
    values = activity.series(groups=groups, until=until, buckets=60, bucket_minutes=1)["claims"]

    assert (values[0], values[-2], values[-1], sum(values)) == (2, 3, 5, 10)


def test_words_for_times() -> None:
    said = [wording.duration(s) for s in (0, 59.6, 61, 3600, 7500, 90_000, -5)]

    assert said == ["0 s", "1 min", "1 min 1 s", "1 h", "2 h 5 min", "1 d 1 h", "0 s"]


def test_pictures_escape_what_they_are_told_and_carry_no_style() -> None:
    picture = bars(Series("x", [0, 3, 1], "good"), label='a "quoted" <label>')
    band = lifeline([Span("held", 0, 1, "<b>")], label="life")

    assert picture.count("<rect") == 2
    assert "&quot;quoted&quot; &lt;label&gt;" in picture
    assert "<b>" not in band
    assert "style=" not in picture + band
