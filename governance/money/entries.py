"""The entries of the books beside calls - uses, corrections, openings - as `proofs` compares them.

Lists are compared as text, since an array contains each of its parts.
"""

from __future__ import annotations

from governance.money.pricing import NAMED
from governance.money.proofs import AMOUNT, INSTANT, Compared, object_of
from governance.money.published import COUNTERS

#: A list of the event as text, where it has one.
TEXT_OF_WINDOWS = (
    "CASE WHEN e.d ? 'windows' THEN jsonb_build_object('windows', e.d->>'windows') ELSE '{}' END"
)
#: The windows of an entry as the event's list is written. In the braces stands the query of them.
WINDOWS = "to_jsonb(ARRAY({0} ORDER BY 1))::text"
COUNTS = object_of(**{name: f"u.{name}" for name in COUNTERS})
NONE_COUNTED = object_of(**dict.fromkeys(COUNTERS, "0"))

_USE = object_of(
    external_request_id="u.external_request_id",
    reservation_id="u.reservation_id",
    task_id="u.task_id",
    attempt="u.attempt",
    agent="u.agent",
    job_type="u.job_type",
    model_id="u.model_id",
    price_id="u.price_id",
    cost=AMOUNT.format("u.cost"),
    cost_basis="u.cost_basis",
    counts=COUNTS,
    **{name: f"nullif(u.{name}, '')" for name in NAMED},
    usage_odd="u.usage_odd",
    disputed="u.disputed",
    content_sha256="u.content_sha256",
    recorded_at=INSTANT.format("u.recorded_at"),
    by="u.recorded_by",
    windows=WINDOWS.format(
        "SELECT q.window_id FROM governance_unreservedposting q WHERE q.use_id = u.use_id"
    ),
)
USES = Compared(
    check="unreserved_use",
    actions=("ledger.unreserved",),
    rows=f"SELECT u.use_id::text AS id, 'job:' || u.job_id AS subject, {_USE} AS row"
    " FROM governance_unreserveduse u",
    key="use_id",
    # The event names what was counted, and nothing of what was not.
    words=f"e.d || {TEXT_OF_WINDOWS} || jsonb_build_object('by', e.actor,"
    f" 'usage_odd', e.d->'flags' ? 'usage_odd', 'disputed', e.d->'flags' ? 'disputed',"
    f" 'counts', {NONE_COUNTED} || (e.d->'counts'))",
)

_KIND = "CASE WHEN a.use_id IS NULL THEN 'reservation.' ELSE 'unreserved_use.' END"
_CORRECTED = {
    "reservation_id": "a.resolution_id",
    "use_id": "a.use_id",
    "amount": AMOUNT.format("a.amount"),
    "made_by": "a.made_by",
    "needs_confirmation": "a.needs_confirmation",
}
_POSTED = WINDOWS.format(
    "SELECT q.window_id FROM governance_adjustmentposting q WHERE q.adjustment_id = a.adjustment_id"
)
_MADE = object_of(
    **_CORRECTED,
    by="a.made_by",
    reason="a.reason",
    written_at=INSTANT.format("a.made_at"),
    # One that waits is posted by who confirms it.
    windows=f"CASE WHEN a.needs_confirmation THEN '[]' ELSE {_POSTED} END",
)
_DECIDED = object_of(
    **_CORRECTED,
    by="v.decided_by",
    reason="v.reason",
    written_at=INSTANT.format("v.decided_at"),
    windows=_POSTED,
)
_OF_JOB = (
    " LEFT JOIN governance_reservation r ON r.reservation_id = a.resolution_id"
    " LEFT JOIN governance_unreserveduse u ON u.use_id = a.use_id"
)
#: Each adjustment and each verdict is written with an event of its own; what these are known by is
#: the adjustment and the move.
ADJUSTMENTS = Compared(
    check="adjustment",
    actions=tuple(
        f"{kind}.{move}"
        for kind in ("reservation", "unreserved_use")
        for move in ("adjusted", "adjustment_asked", "adjustment_declined")
    ),
    rows=f"SELECT a.adjustment_id || ' ' || {_KIND}"
    " || CASE WHEN a.needs_confirmation THEN 'adjustment_asked' ELSE 'adjusted' END AS id,"
    f" 'job:' || coalesce(r.job_id, u.job_id) AS subject, {_MADE} AS row"
    f" FROM governance_adjustment a{_OF_JOB} UNION ALL"
    f" SELECT a.adjustment_id || ' ' || {_KIND}"
    " || CASE v.verdict WHEN 'confirmed' THEN 'adjusted' ELSE 'adjustment_declined' END AS id,"
    f" 'job:' || coalesce(r.job_id, u.job_id) AS subject, {_DECIDED} AS row"
    " FROM governance_adjustmentverdict v"
    f" LEFT JOIN governance_adjustment a ON a.adjustment_id = v.adjustment_id{_OF_JOB}",
    key="move",
    words=f"e.d || {TEXT_OF_WINDOWS} || jsonb_build_object("
    "'move', (e.d->>'adjustment_id') || ' ' || e.action, 'by', e.actor, 'reason', e.reason)",
)

_OPENED = object_of(
    spent=AMOUNT.format("sum(o.spent)"),
    by="min(o.opened_by)",
    # Of each window what it took over: the event of a budget for each names them by their digest.
    openings="count(*)",
    openings_sha256="encode(sha256(convert_to(string_agg(o.window_id || ' ' || o.spent, ','"
    " ORDER BY o.window_id), 'UTF8')), 'hex')",
)
#: All openings of a budget at an instant are of one event.
OPENINGS = Compared(
    check="budget_opening",
    actions=("budget.opened",),
    rows="SELECT to_jsonb(o.opened_at)#>>'{}' AS id, 'budget:' || w.budget_id AS subject,"
    f" {_OPENED} AS row FROM governance_budgetopening o"
    " LEFT JOIN governance_budgetwindow w ON w.id = o.window_id"
    " GROUP BY o.opened_at, w.budget_id",
    key="opened_at",
    words="e.d || jsonb_build_object('opened_at', e.at, 'by', e.actor)",
    member="after",
    # A budget that is enabled again may have taken over nothing but what is held.
    alone="coalesce(e.words->'openings', '0') = '0' AND e.words->>'spent' = '0.00'",
)
ENTRIES = (USES, ADJUSTMENTS, OPENINGS)
