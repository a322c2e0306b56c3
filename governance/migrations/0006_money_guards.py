from django.db import migrations

# What was decided, held and spent never changes; what was in force when it was decided stays.
NEVER_CHANGED = (
    "governance_routedecision",
    "governance_reservationhold",
    "governance_resolution",
    "governance_pricetier",
    "governance_routepolicymodel",
)
NEVER_DELETED = (
    "governance_languagemodel",
    "governance_price",
    "governance_routepolicy",
    "governance_budget",
    "governance_budgetwindow",
    "governance_reservation",
)

APPEND_ONLY = "\n".join(
    f"""
CREATE TRIGGER {table}_append_only BEFORE UPDATE OR DELETE OR TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""
    for table in NEVER_CHANGED
)
NO_DELETE = "\n".join(
    f"""
CREATE TRIGGER {table}_no_delete BEFORE DELETE OR TRUNCATE ON {table}
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();
"""
    for table in NEVER_DELETED
)

GUARDS = """
CREATE FUNCTION governance_reservation_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
    IF OLD.state NOT IN ('held', 'in_doubt') OR NEW.state = 'held' THEN
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
END $$;
CREATE TRIGGER governance_reservation_guard BEFORE INSERT OR UPDATE ON governance_reservation
    FOR EACH ROW EXECUTE FUNCTION governance_reservation_guard();

CREATE FUNCTION governance_resolution_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT EXISTS (
        SELECT 1 FROM governance_reservation r
        WHERE r.reservation_id = NEW.reservation_id AND r.state IN ('held', 'in_doubt')
    ) THEN
        RAISE EXCEPTION 'only an open reservation is resolved'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_resolution_guard BEFORE INSERT ON governance_resolution
    FOR EACH ROW EXECUTE FUNCTION governance_resolution_guard();

CREATE FUNCTION governance_price_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - 'ends_at' IS DISTINCT FROM to_jsonb(OLD) - 'ends_at'
       OR OLD.ends_at IS NOT NULL THEN
        RAISE EXCEPTION 'a price does not change; it ends once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_price_guard BEFORE UPDATE ON governance_price
    FOR EACH ROW EXECUTE FUNCTION governance_price_guard();

CREATE FUNCTION governance_routepolicy_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{retired_at,audit_seq,audit_head}'::text[]
       IS DISTINCT FROM to_jsonb(OLD) - '{retired_at,audit_seq,audit_head}'::text[]
       OR (OLD.retired_at IS NOT NULL AND NEW.retired_at IS DISTINCT FROM OLD.retired_at) THEN
        RAISE EXCEPTION 'a route policy does not change; it is retired once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_routepolicy_guard BEFORE UPDATE ON governance_routepolicy
    FOR EACH ROW EXECUTE FUNCTION governance_routepolicy_guard();

-- Which counter a row is never changes; only the counters move.
CREATE FUNCTION governance_budgetwindow_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.budget_id, NEW.counted_for, NEW.kind, NEW.starts_at, NEW.ends_at)
       IS DISTINCT FROM
       (OLD.budget_id, OLD.counted_for, OLD.kind, OLD.starts_at, OLD.ends_at) THEN
        RAISE EXCEPTION 'a budget window keeps its place'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_budgetwindow_guard BEFORE UPDATE ON governance_budgetwindow
    FOR EACH ROW EXECUTE FUNCTION governance_budgetwindow_guard();

CREATE FUNCTION governance_budget_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.scope, NEW.key, NEW."window") IS DISTINCT FROM (OLD.scope, OLD.key, OLD."window") THEN
        RAISE EXCEPTION 'a budget keeps its scope, key and window'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END $$;
CREATE TRIGGER governance_budget_guard BEFORE UPDATE ON governance_budget
    FOR EACH ROW EXECUTE FUNCTION governance_budget_guard();

-- Room for the counters to be updated in place.
ALTER TABLE governance_budgetwindow SET (fillfactor = 50);
"""

FUNCTIONS = (
    "governance_reservation_guard",
    "governance_resolution_guard",
    "governance_price_guard",
    "governance_routepolicy_guard",
    "governance_budgetwindow_guard",
    "governance_budget_guard",
)
REVERSE = "\n".join(
    [f"DROP FUNCTION {function}() CASCADE;" for function in FUNCTIONS]
    + [f"DROP TRIGGER {table}_append_only ON {table};" for table in NEVER_CHANGED]
    + [f"DROP TRIGGER {table}_no_delete ON {table};" for table in NEVER_DELETED]
    + ["ALTER TABLE governance_budgetwindow RESET (fillfactor);"]
)


class Migration(migrations.Migration):
    dependencies = [("governance", "0005_money")]
    operations = [migrations.RunSQL(APPEND_ONLY + NO_DELETE + GUARDS, reverse_sql=REVERSE)]
