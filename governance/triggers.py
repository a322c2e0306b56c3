"""What the database refuses of the ground's tables: audit, facts, money."""

from __future__ import annotations

from governance.core import stated
from governance.core.stated import StatedTable
from governance.core.triggers import (
    APPEND_ONLY,
    NEVER_DELETED,
    Function,
    Trigger,
    append_only,
    declare,
    never_deleted,
    row_trigger,
)

FACT_RULES = Function(
    "governance_fact_guard",
    "A fact's content never changes, only what is noted of its way outside; one that was not "
    "published is not deleted.",
    """
BEGIN
    IF TG_OP = 'DELETE' THEN
        IF OLD.published_at IS NULL THEN
            RAISE EXCEPTION 'a fact that was not published is not deleted'
                USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN OLD;
    END IF;
    IF (NEW.fact_id, NEW.principal, NEW.stream, NEW.sequence, NEW.type, NEW.data,
        NEW.content_sha256, NEW.receipt_id, NEW.recorded_at, NEW.relayed)
       IS DISTINCT FROM
       (OLD.fact_id, OLD.principal, OLD.stream, OLD.sequence, OLD.type, OLD.data,
        OLD.content_sha256, OLD.receipt_id, OLD.recorded_at, OLD.relayed) THEN
        RAISE EXCEPTION 'the content of a fact does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
FACTSTREAM_RULES = Function(
    "governance_factstream_guard",
    "The counter of a stream never falls: its numbers are used once.",
    """
BEGIN
    IF NEW.sequence < OLD.sequence OR NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'stream %: its counter never falls', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
RESERVATION_RULES = Function(
    "governance_reservation_guard",
    "A reservation begins open and ends once, by its resolution; nothing but its state "
    "changes, and what is in doubt may have been billed and is not released.",
    """
BEGIN
    IF TG_OP = 'INSERT' THEN
        IF NEW.state NOT IN ('held', 'in_doubt') THEN
            RAISE EXCEPTION 'a reservation begins open' USING ERRCODE = 'restrict_violation';
        END IF;
        RETURN NEW;
    END IF;
    IF to_jsonb(NEW) - 'state' IS DISTINCT FROM to_jsonb(OLD) - 'state' THEN
        RAISE EXCEPTION 'only the state of a reservation changes'
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state = OLD.state THEN
        RETURN NEW;
    END IF;
    IF OLD.state NOT IN ('held', 'in_doubt') OR NEW.state = 'held'
       OR (OLD.state = 'in_doubt' AND NEW.state = 'released') THEN
        RAISE EXCEPTION 'a reservation does not go from % to %', OLD.state, NEW.state
            USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.state <> 'in_doubt' AND NOT EXISTS (
        SELECT 1 FROM governance_resolution r
        WHERE r.reservation_id = NEW.reservation_id AND r.ended_as = NEW.state
    ) THEN
        RAISE EXCEPTION 'a reservation ends by its resolution'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
RESOLUTION_RULES = Function(
    "governance_resolution_guard",
    "Only an open reservation is resolved.",
    """
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM governance_reservation r
        WHERE r.reservation_id = NEW.reservation_id AND r.state IN ('held', 'in_doubt')
    ) THEN
        RAISE EXCEPTION 'only an open reservation is resolved'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
_COUNTED = """
    -- Whoever adjusts the same cost waits here, and then sees what the one before has made of it.
    PERFORM 1 FROM governance_reservation r WHERE r.reservation_id = adjusted.resolution_id
        FOR NO KEY UPDATE;
    PERFORM 1 FROM governance_unreserveduse u WHERE u.use_id = adjusted.use_id FOR NO KEY UPDATE;
    IF coalesce(
           (SELECT e.cost FROM governance_resolution e
             WHERE e.reservation_id = adjusted.resolution_id),
           (SELECT u.cost FROM governance_unreserveduse u WHERE u.use_id = adjusted.use_id), 0)
       + (SELECT coalesce(sum(a.amount), 0) FROM governance_adjustment a
           LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id
          WHERE (a.resolution_id = adjusted.resolution_id OR a.use_id = adjusted.use_id)
            AND (NOT a.needs_confirmation OR v.verdict = 'confirmed'))
       + adjusted.amount < 0 THEN
        RAISE EXCEPTION 'the cost of a call does not fall below 0'
            USING ERRCODE = 'restrict_violation';
    END IF;
"""
ADJUSTMENT_RULES = Function(
    "governance_adjustment_guard",
    "What a call cost does not fall below 0 by the adjustments that count.",
    f"""
DECLARE
    adjusted governance_adjustment := NEW;
BEGIN
    IF NEW.needs_confirmation THEN
        RETURN NEW;
    END IF;
{_COUNTED}
    RETURN NEW;
END
""",
)
ADJUSTMENTVERDICT_RULES = Function(
    "governance_adjustmentverdict_guard",
    "Only what needs it is confirmed or declined, and confirmed only by somebody else than who "
    "made it; what the call cost does not fall below 0.",
    f"""
DECLARE
    adjusted governance_adjustment;
BEGIN
    SELECT * INTO adjusted FROM governance_adjustment a WHERE a.adjustment_id = NEW.adjustment_id;
    IF NOT adjusted.needs_confirmation THEN
        RAISE EXCEPTION 'the adjustment counts already' USING ERRCODE = 'restrict_violation';
    END IF;
    IF NEW.verdict <> 'confirmed' THEN
        RETURN NEW;
    END IF;
    IF NEW.decided_by = adjusted.made_by THEN
        RAISE EXCEPTION 'nobody confirms an adjustment of their own'
            USING ERRCODE = 'restrict_violation';
    END IF;
{_COUNTED}
    RETURN NEW;
END
""",
)
PRICE_RULES = Function(
    "governance_price_guard",
    "A price does not change; it ends once.",
    """
BEGIN
    IF to_jsonb(NEW) - 'ends_at' IS DISTINCT FROM to_jsonb(OLD) - 'ends_at'
       OR OLD.ends_at IS NOT NULL THEN
        RAISE EXCEPTION 'a price does not change; it ends once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
ROUTEPOLICY_RULES = Function(
    "governance_routepolicy_guard",
    "A route policy does not change; it is retired once.",
    """
BEGIN
    IF to_jsonb(NEW) - '{retired_at,audit_seq,audit_head}'::text[]
       IS DISTINCT FROM to_jsonb(OLD) - '{retired_at,audit_seq,audit_head}'::text[]
       OR (OLD.retired_at IS NOT NULL AND NEW.retired_at IS DISTINCT FROM OLD.retired_at) THEN
        RAISE EXCEPTION 'a route policy does not change; it is retired once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
BUDGETWINDOW_RULES = Function(
    "governance_budgetwindow_guard",
    "Which counter a row is never changes; only the counters move.",
    """
BEGIN
    IF (NEW.budget_id, NEW.counted_for, NEW.kind, NEW.starts_at, NEW.ends_at)
       IS DISTINCT FROM
       (OLD.budget_id, OLD.counted_for, OLD.kind, OLD.starts_at, OLD.ends_at) THEN
        RAISE EXCEPTION 'a budget window keeps its place'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
BUDGET_RULES = Function(
    "governance_budget_guard",
    "A budget keeps its scope, key and window.",
    """
BEGIN
    IF (NEW.scope, NEW.key, NEW."window") IS DISTINCT FROM (OLD.scope, OLD.key, OLD."window") THEN
        RAISE EXCEPTION 'a budget keeps its scope, key and window'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
LIMIT_RULES = Function(
    "governance_limit_guard",
    "A limit keeps its scope and key.",
    """
BEGIN
    IF (NEW.scope, NEW.key) IS DISTINCT FROM (OLD.scope, OLD.key) THEN
        RAISE EXCEPTION 'a limit keeps its scope and key' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)
OUTSIDECHANGE_RULES = Function(
    "governance_outsidechange_guard",
    "What was changed outside does not change; it is appended once, and settled once.",
    """
BEGIN
    IF to_jsonb(NEW) - '{seq,settled_at}'::text[]
       IS DISTINCT FROM to_jsonb(OLD) - '{seq,settled_at}'::text[]
       OR (OLD.seq IS NOT NULL AND NEW.seq IS DISTINCT FROM OLD.seq)
       OR (OLD.settled_at IS NOT NULL AND NEW.settled_at IS DISTINCT FROM OLD.settled_at) THEN
        RAISE EXCEPTION 'what was changed outside does not change'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
""",
)

FUNCTIONS = (
    APPEND_ONLY,
    NEVER_DELETED,
    FACT_RULES,
    FACTSTREAM_RULES,
    RESERVATION_RULES,
    RESOLUTION_RULES,
    ADJUSTMENT_RULES,
    ADJUSTMENTVERDICT_RULES,
    PRICE_RULES,
    ROUTEPOLICY_RULES,
    BUDGETWINDOW_RULES,
    BUDGET_RULES,
    LIMIT_RULES,
    OUTSIDECHANGE_RULES,
    *stated.FUNCTIONS,
)


def _kept(table: str, *, ending: str = "no_delete") -> Trigger:
    """Declare that no row of `table` is deleted, named and worded as in the first release.

    Under another name, processes of that release would find the trigger missing, and themselves
    not ready, while they are being replaced.
    """
    return Trigger(
        f"{table}_{ending}",
        table,
        frozenset({"DELETE", "TRUNCATE"}),
        APPEND_ONLY,
        NEVER_DELETED.rule,
    )


# What a governor sets. The heads of chains that are not configuration - jobs, sinks, what is set
# aside - are written by moves of work.
_MODEL = (
    "SELECT 'model:' || m.provider || '/' || m.name, 'governance_languagemodel', m.id"
    " FROM governance_languagemodel m WHERE m.id = "
)
_POLICY = (
    "SELECT 'route_policy:' || p.id, 'governance_routepolicy', p.id"
    " FROM governance_routepolicy p WHERE p.id = "
)
STATED_TABLES = (
    StatedTable("governance_languagemodel", _MODEL + "($1->>'id')::bigint"),
    StatedTable("governance_price", _MODEL + "($1->>'model_id')::bigint", digested=("document",)),
    StatedTable(
        "governance_pricetier",
        _MODEL + "(SELECT model_id FROM governance_price WHERE id = ($1->>'price_id')::bigint)",
    ),
    StatedTable("governance_routepolicy", _POLICY + "($1->>'id')::bigint"),
    StatedTable("governance_routepolicymodel", _POLICY + "($1->>'policy_id')::bigint"),
    StatedTable(
        "governance_budget",
        "SELECT 'budget:' || b.id, 'governance_budget', b.id FROM governance_budget b"
        " WHERE b.id = ($1->>'id')::bigint",
    ),
    StatedTable(
        "governance_limit",
        "SELECT 'limit:' || l.id, 'governance_limit', l.id FROM governance_limit l"
        " WHERE l.id = ($1->>'id')::bigint",
    ),
)

TRIGGERS = (
    *stated.stated_tables(*STATED_TABLES),
    stated.APPENDED,
    *never_deleted("governance_outsidechange"),
    row_trigger("governance_outsidechange", OUTSIDECHANGE_RULES, "UPDATE"),
    *append_only(
        "governance_auditevent",
        "governance_auditcheckpoint",
        "governance_auditcheckpointleaf",
        "governance_prunedfact",
        "governance_pricetier",
        "governance_routepolicymodel",
        "governance_routedecision",
        "governance_reservationhold",
        "governance_resolution",
        "governance_budgetopening",
        "governance_adjustment",
        "governance_adjustmentverdict",
        "governance_adjustmentposting",
        "governance_agedreservation",
        "governance_unreserveduse",
        "governance_unreservedposting",
        "governance_disputeduse",
        "governance_disputeverdict",
    ),
    row_trigger("governance_fact", FACT_RULES, "UPDATE", "DELETE"),
    Trigger(
        "governance_fact_no_truncate",
        "governance_fact",
        frozenset({"TRUNCATE"}),
        APPEND_ONLY,
        "Facts go one by one, each by the rule for its row.",
    ),
    _kept("governance_factsink", ending="never_deleted"),
    _kept("governance_factstream", ending="never_deleted"),
    row_trigger("governance_factstream", FACTSTREAM_RULES, "UPDATE"),
    _kept("governance_languagemodel"),
    _kept("governance_price"),
    row_trigger("governance_price", PRICE_RULES, "UPDATE"),
    _kept("governance_routepolicy"),
    row_trigger("governance_routepolicy", ROUTEPOLICY_RULES, "UPDATE"),
    _kept("governance_reservation"),
    row_trigger("governance_reservation", RESERVATION_RULES, "INSERT", "UPDATE"),
    row_trigger("governance_resolution", RESOLUTION_RULES, "INSERT"),
    row_trigger("governance_adjustment", ADJUSTMENT_RULES, "INSERT"),
    row_trigger("governance_adjustmentverdict", ADJUSTMENTVERDICT_RULES, "INSERT"),
    _kept("governance_budget"),
    row_trigger("governance_budget", BUDGET_RULES, "UPDATE"),
    _kept("governance_limit"),
    row_trigger("governance_limit", LIMIT_RULES, "UPDATE"),
    _kept("governance_budgetwindow"),
    row_trigger("governance_budgetwindow", BUDGETWINDOW_RULES, "UPDATE"),
)

declare("governance", FUNCTIONS, TRIGGERS)
