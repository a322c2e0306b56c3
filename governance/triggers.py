"""What the database refuses of the ground's tables: audit, facts, money."""

from __future__ import annotations

from governance.core.triggers import (
    APPEND_ONLY,
    NEVER_DELETED,
    Function,
    Trigger,
    append_only,
    declare,
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

FUNCTIONS = (
    APPEND_ONLY,
    NEVER_DELETED,
    FACT_RULES,
    FACTSTREAM_RULES,
    RESERVATION_RULES,
    RESOLUTION_RULES,
    PRICE_RULES,
    ROUTEPOLICY_RULES,
    BUDGETWINDOW_RULES,
    BUDGET_RULES,
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


TRIGGERS = (
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
        "governance_unreserveduse",
        "governance_unreservedposting",
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
    _kept("governance_budget"),
    row_trigger("governance_budget", BUDGET_RULES, "UPDATE"),
    _kept("governance_budgetwindow"),
    row_trigger("governance_budgetwindow", BUDGETWINDOW_RULES, "UPDATE"),
)

declare("governance", FUNCTIONS, TRIGGERS)
