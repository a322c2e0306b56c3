"""What is reported beyond what a model can do is booked at its limits; people see the rest."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import ExitStack
from decimal import Decimal
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connection, transaction
from django.urls import reverse
from uuid_utils.compat import uuid7

from governance.core.errors import InvalidArgument, InvalidTransition, NotFound
from governance.core.models import AuditEvent, Fact
from governance.money import catalogue, ledger, proofs
from governance.money.disputes import DisputedUse, DisputeVerdict
from governance.money.excesses import SEARCHES_MAX, most_of, within
from governance.money.models import BudgetWindow, Reservation, Resolution
from governance.money.pricing import Usage
from governance.money.uses import UnreservedUse
from jobs import executions
from jobs.models import Execution, Job
from tests.jobs.governed import MODEL, TEST, Governed
from tests.money import SECONDS, beside, waits

MakeJob = Callable[..., Job]
BOGUS = {"input_tokens": 10**9, "output_tokens": 10**9}
#: A context of 100 000 tokens at 1 USD per million, and 4000 of output at 2.
CONTEXT, OUTPUT = 100_000, 4000
ONE_CONTEXT = Decimal("0.108")
#: What the rest would cost.
REST = Decimal(10**9 - CONTEXT + 2 * (10**9 - OUTPUT)) / 10**6
WHY = {"actor": "user:anna", "reason": "the provider says so"}


@pytest.fixture
def limited(governed: Governed) -> Governed:
    """The governed worker, whose model has known limits."""
    catalogue.set_model(
        provider=MODEL[0],
        name=MODEL[1],
        context_tokens_max=CONTEXT,
        output_tokens_max=OUTPUT,
        **TEST,
    )
    return governed


def resolve(governed: Governed, job: Job, usage: Any, end: str = "settled") -> Any:
    return executions.resolve_reservation(
        entry=governed.entry,
        binding=governed.binding(job),
        reservation_id=Reservation.objects.get(job_id=job.job_id).reservation_id,
        end=end,
        usage=usage,
    )


@pytest.fixture
def dispute(limited: Governed, make_job: MakeJob) -> DisputedUse:
    """A call that says it used 10^9 tokens of each."""
    job = make_job()
    limited.claim(job)
    limited.route(job)
    resolve(limited, job, BOGUS)
    return DisputedUse.objects.get()


def spent() -> Decimal:
    """What every budget has counted, which is what the rows say."""
    assert list(ledger.verify()) == []
    # The fixture sets the type's use of models by hand.
    assert [each.check for each in proofs.verify()] == ["jobs_jobtype.model_use"]
    return sum((window.spent for window in BudgetWindow.objects.all()), Decimal(0))


def actions() -> list[str]:
    return list(AuditEvent.objects.order_by("id").values_list("action", flat=True))


# --- the limits ------------------------------------------------------------------------------


def test_a_report_of_a_billion_tokens_costs_one_context(dispute: DisputedUse) -> None:
    ended = Resolution.objects.get()
    assert (ended.input_tokens, ended.output_tokens) == (CONTEXT, OUTPUT)
    assert (ended.cost, ended.cost_basis) == (ONE_CONTEXT, "usage")
    assert (ended.usage_sent["input_tokens"], ended.flags) == (10**9, ["overrun", "disputed"])
    assert spent() == ONE_CONTEXT
    assert dispute.counts["input_tokens"] == 10**9 - CONTEXT
    assert dispute.counts["output_tokens"] == 10**9 - OUTPUT
    assert (dispute.cost, dispute.resolution_id) == (REST, ended.pk)


def test_it_is_told_on_the_jobs_chain_and_as_a_fact(dispute: DisputedUse) -> None:
    assert actions()[-1] == "ledger.disputed"
    fact = Fact.objects.get(type="dev.fencepost.ledger.disputed")
    assert fact.data["dispute_id"] == str(dispute.pk)
    assert fact.data["cost"] == "2999.892"


def test_the_answer_flags_it_and_its_repetition_is_the_same(
    limited: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    limited.claim(job)
    limited.route(job)
    first, again = resolve(limited, job, BOGUS), resolve(limited, job, BOGUS)
    assert "disputed" in first.resolution.flags
    assert (again.outcome, again.resolution.cost) == ("already_recorded", ONE_CONTEXT)
    assert DisputedUse.objects.count() == 1


@pytest.mark.parametrize("usage", [{"input_tokens": CONTEXT, "output_tokens": OUTPUT}, None])
def test_what_a_model_can_do_is_in_no_dispute(
    limited: Governed, make_job: MakeJob, usage: Any
) -> None:
    job = make_job()
    limited.claim(job)
    limited.route(job)
    assert not resolve(limited, job, usage).resolution.disputed
    assert not DisputedUse.objects.exists()


def test_a_model_without_known_limits_disputes_nothing(
    governed: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    governed.claim(job)
    governed.route(job)
    assert resolve(governed, job, BOGUS).resolution.cost == 3000
    assert not DisputedUse.objects.exists()


def test_a_result_that_settles_its_call_is_disputed_too(
    limited: Governed, make_job: MakeJob
) -> None:
    limited.result(limited.begin(make_job()), usage=BOGUS)
    assert DisputedUse.objects.get().resolution_id == Resolution.objects.get().pk
    assert spent() == ONE_CONTEXT


def test_a_result_without_a_reservation_is_disputed_too(
    limited: Governed, make_job: MakeJob
) -> None:
    job = make_job()
    limited.claim(job)
    limited.start(job, limited.permit(job, None).permit_id)
    limited.result(Execution.objects.get(), usage=BOGUS)
    use = UnreservedUse.objects.get()
    assert (use.cost, use.flags) == (ONE_CONTEXT, ["unreserved", "disputed"])
    assert DisputedUse.objects.get().use_id == use.pk
    assert spent() == ONE_CONTEXT


def test_what_is_in_dispute_is_not_booked_by_another_report_of_it(
    limited: Governed, make_job: MakeJob
) -> None:
    execution = limited.begin(make_job())
    resolve(limited, execution.job, BOGUS)
    limited.result(execution, usage=BOGUS)
    assert not UnreservedUse.objects.exists()
    assert DisputedUse.objects.count() == 1
    assert spent() == ONE_CONTEXT


def test_what_is_beyond_a_dispute_is_booked(limited: Governed, make_job: MakeJob) -> None:
    execution = limited.begin(make_job())
    resolve(limited, execution.job, {"input_tokens": CONTEXT + 5, "output_tokens": 0})
    limited.result(execution, usage={"input_tokens": CONTEXT + 9, "output_tokens": 0})
    assert UnreservedUse.objects.get().input_tokens == 4


def counts(**given: int) -> Usage:
    return Usage(**({"input_tokens": 0, "output_tokens": 0} | given))


@pytest.mark.parametrize(
    ("usage", "part"),
    [
        (counts(input_tokens=200, cached_input_tokens=150), (100, 100, 0)),
        (counts(input_tokens=200, cache_write_tokens=80, cached_input_tokens=90), (100, 20, 80)),
        (counts(input_tokens=90, cached_input_tokens=90), (90, 90, 0)),
    ],
)
def test_a_part_is_still_a_usage(usage: Usage, part: tuple[int, int, int]) -> None:
    found, rest = within(usage, input_most=100, output_most=10)
    assert (found.input_tokens, found.cached_input_tokens, found.cache_write_tokens) == part
    whole = usage.counts["input_tokens"]
    assert (rest.input_tokens if rest else 0) >= whole - found.input_tokens


def test_searches_have_a_limit_of_their_own() -> None:
    found, rest = within(counts(searches=10**9), input_most=None, output_most=None)
    assert found.searches == SEARCHES_MAX
    assert rest is not None and rest.searches == 10**9 - SEARCHES_MAX


def test_the_limits_are_no_less_than_what_was_held() -> None:
    row = {"context_tokens_max": 100, "output_tokens_max": None}
    assert most_of(row) == {"input_most": 100, "output_most": 100}
    assert most_of(row, held=(300, 400)) == {"input_most": 300, "output_most": 400}


# --- what people say -------------------------------------------------------------------------


def act(verb: str, *keys: Any, **options: Any) -> Any:
    out = StringIO()
    call_command("act", f"disputeduse.{verb}", *map(str, keys), json=True, stdout=out, **WHY)
    return json.loads(out.getvalue())


def test_what_is_accepted_is_booked_in_every_budget(dispute: DisputedUse) -> None:
    act("accept", dispute.pk)

    use = UnreservedUse.objects.get()
    assert (use.cost, use.reservation_id) == (REST, dispute.resolution_id)
    assert spent() == ONE_CONTEXT + REST
    verdict = DisputeVerdict.objects.get()
    assert (verdict.verdict, verdict.use_id) == ("accepted", use.pk)
    assert (verdict.decided_by, verdict.reason) == (WHY["actor"], WHY["reason"])
    assert actions()[-2:] == ["ledger.dispute_accepted", "ledger.unreserved"]


def test_what_is_accepted_is_not_booked_by_another_report(
    limited: Governed, make_job: MakeJob
) -> None:
    execution = limited.begin(make_job())
    resolve(limited, execution.job, BOGUS)
    act("accept", DisputedUse.objects.get().pk)
    limited.result(execution, usage=BOGUS)
    assert spent() == ONE_CONTEXT + REST


def test_what_is_dismissed_is_booked_nowhere(dispute: DisputedUse) -> None:
    act("dismiss", dispute.pk)

    assert not UnreservedUse.objects.exists()
    assert spent() == ONE_CONTEXT
    assert DisputeVerdict.objects.get().verdict == "dismissed"
    assert actions()[-1] == "ledger.dispute_dismissed"


@pytest.mark.parametrize("first", ["accept", "dismiss"])
@pytest.mark.parametrize("second", ["accept", "dismiss"])
def test_it_is_decided_once(dispute: DisputedUse, first: str, second: str) -> None:
    act(first, dispute.pk)
    before, cost = actions(), spent()
    with pytest.raises(CommandError, match="1 of 1 refused"):
        act(second, dispute.pk)
    assert (actions(), spent()) == (before, cost)


def settle(dispute: DisputedUse, verdict: str = "accepted", **over: Any) -> Any:
    asked = {"dispute_id": dispute.pk, "verdict": verdict} | WHY | over
    return executions.settle_dispute(**asked)


def test_one_that_is_not_there_and_a_word_without_a_reason_are_refused(
    dispute: DisputedUse,
) -> None:
    with pytest.raises(NotFound):
        settle(dispute, dispute_id=uuid7())
    with pytest.raises(InvalidArgument):
        settle(dispute, reason=" ")
    assert not DisputeVerdict.objects.exists()


@pytest.mark.django_db(transaction=True)
def test_two_who_decide_at_once_decide_one_after_the_other(dispute: DisputedUse) -> None:
    with ExitStack() as stack:
        with transaction.atomic():
            settle(dispute, "dismissed")
            second = stack.enter_context(beside(settle, dispute))
            assert waits(second)
        with pytest.raises(InvalidTransition):
            second.result(timeout=SECONDS)
    assert not UnreservedUse.objects.exists()


def test_the_database_keeps_what_was_accepted_and_booked_together(dispute: DisputedUse) -> None:
    said = {"dispute": dispute, "reason": "why", "decided_by": "user:x"}
    with pytest.raises(IntegrityError), transaction.atomic():
        DisputeVerdict.objects.create(
            verdict="accepted", decided_at=dispute.recorded_at, use=None, **said
        )


@pytest.mark.parametrize(
    ("tampering", "found"),
    [
        ("UPDATE governance_disputeduse SET cost = 0", {"dispute.cost"}),
        ("UPDATE governance_disputeduse SET counts = '{}'", {"dispute.counts.input_tokens"}),
        ("DELETE FROM governance_disputeverdict", {"dispute_verdict.row"}),
        (
            "UPDATE governance_disputeverdict SET dispute_id = gen_random_uuid()",
            {"dispute_verdict.event", "dispute_verdict.row"},
        ),
        ("UPDATE governance_resolution SET disputed = false", {"resolution.disputed"}),
    ],
)
def test_what_is_changed_by_hand_is_found(
    dispute: DisputedUse, tampering: str, found: set[str]
) -> None:
    settle(dispute, "dismissed")
    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(tampering)
        cursor.execute("SET session_replication_role = origin")
    assert found <= {each.check for each in proofs.verify()}


# --- the console -----------------------------------------------------------------------------


def test_it_waits_in_the_inbox_until_somebody_decides(dispute: DisputedUse, as_: Any) -> None:
    client = as_("governor")
    page = reverse("admin:governance_disputeduse_change", args=(dispute.pk,))
    inbox = reverse("admin:console_inbox")
    assert page in client.get(inbox).content.decode()
    shown = client.get(page).content.decode()
    assert "waits for a governor" in shown and str(10**9 - CONTEXT) in shown
    settle(dispute, "dismissed")
    assert page not in client.get(inbox).content.decode()
    assert "dismissed" in client.get(page).content.decode()


REWRITTEN = [
    "UPDATE governance_disputeduse SET model_id = model_id + 7",
    "UPDATE governance_disputeduse SET price_id = price_id + 7",
    "UPDATE governance_disputeduse SET agent = 'eve'",
    "UPDATE governance_disputeduse SET recorded_by = 'eve'",
    "UPDATE governance_disputeduse SET recorded_at = recorded_at - interval '40 days'",
    "UPDATE governance_disputeverdict SET reason = 'eve'",
    "UPDATE governance_disputeverdict SET decided_by = 'eve'",
    "UPDATE governance_disputeverdict SET decided_at = decided_at - interval '40 days'",
    "UPDATE governance_unreserveduse SET speed = 'eve'",
    "UPDATE governance_resolution SET usage_sent = '{\"input_tokens\": 1}'",
]


@pytest.mark.parametrize("statement", REWRITTEN)
def test_a_dispute_that_was_rewritten_is_found(dispute, statement):
    executions.settle_dispute(dispute_id=dispute.pk, verdict="accepted", **WHY)
    spent()

    with connection.cursor() as cursor:
        cursor.execute("SET session_replication_role = replica")
        cursor.execute(statement)
        cursor.execute("SET session_replication_role = origin")

    with pytest.raises(AssertionError):
        spent()
