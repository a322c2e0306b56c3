"""What the database refuses of the ground's tables as of the first release."""

from django.db import migrations

FORWARD = """
CREATE OR REPLACE FUNCTION fencepost_append_only() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION '% is append-only', TG_TABLE_NAME USING ERRCODE = 'restrict_violation';
END
$$;

CREATE OR REPLACE FUNCTION fencepost_never_deleted() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'rows of % are never deleted', TG_TABLE_NAME
        USING ERRCODE = 'restrict_violation';
END
$$;

CREATE OR REPLACE FUNCTION governance_fact_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION governance_factstream_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NEW.sequence < OLD.sequence OR NEW.name <> OLD.name THEN
        RAISE EXCEPTION 'stream %: its counter never falls', OLD.name
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_reservation_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION governance_resolution_guard() RETURNS trigger LANGUAGE plpgsql AS $$
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
$$;

CREATE OR REPLACE FUNCTION governance_price_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - 'ends_at' IS DISTINCT FROM to_jsonb(OLD) - 'ends_at'
       OR OLD.ends_at IS NOT NULL THEN
        RAISE EXCEPTION 'a price does not change; it ends once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_routepolicy_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF to_jsonb(NEW) - '{retired_at,audit_seq,audit_head}'::text[]
       IS DISTINCT FROM to_jsonb(OLD) - '{retired_at,audit_seq,audit_head}'::text[]
       OR (OLD.retired_at IS NOT NULL AND NEW.retired_at IS DISTINCT FROM OLD.retired_at) THEN
        RAISE EXCEPTION 'a route policy does not change; it is retired once'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_budgetwindow_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.budget_id, NEW.counted_for, NEW.kind, NEW.starts_at, NEW.ends_at)
       IS DISTINCT FROM
       (OLD.budget_id, OLD.counted_for, OLD.kind, OLD.starts_at, OLD.ends_at) THEN
        RAISE EXCEPTION 'a budget window keeps its place'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_budget_guard() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF (NEW.scope, NEW.key, NEW."window") IS DISTINCT FROM (OLD.scope, OLD.key, OLD."window") THEN
        RAISE EXCEPTION 'a budget keeps its scope, key and window'
            USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN NEW;
END
$$;

CREATE TRIGGER governance_auditevent_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_auditevent
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_auditcheckpoint_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_auditcheckpoint
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_auditcheckpointleaf_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_auditcheckpointleaf
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_prunedfact_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_prunedfact
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_pricetier_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_pricetier
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_routepolicymodel_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_routepolicymodel
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_routedecision_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_routedecision
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_reservationhold_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_reservationhold
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_resolution_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_resolution
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_fact_guard
    BEFORE DELETE OR UPDATE ON governance_fact
    FOR EACH ROW EXECUTE FUNCTION governance_fact_guard();

CREATE TRIGGER governance_fact_no_truncate
    BEFORE TRUNCATE ON governance_fact
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_factsink_never_deleted
    BEFORE DELETE OR TRUNCATE ON governance_factsink
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_factstream_never_deleted
    BEFORE DELETE OR TRUNCATE ON governance_factstream
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_factstream_guard
    BEFORE UPDATE ON governance_factstream
    FOR EACH ROW EXECUTE FUNCTION governance_factstream_guard();

CREATE TRIGGER governance_languagemodel_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_languagemodel
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_price_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_price
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_price_guard
    BEFORE UPDATE ON governance_price
    FOR EACH ROW EXECUTE FUNCTION governance_price_guard();

CREATE TRIGGER governance_routepolicy_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_routepolicy
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_routepolicy_guard
    BEFORE UPDATE ON governance_routepolicy
    FOR EACH ROW EXECUTE FUNCTION governance_routepolicy_guard();

CREATE TRIGGER governance_reservation_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_reservation
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_reservation_guard
    BEFORE INSERT OR UPDATE ON governance_reservation
    FOR EACH ROW EXECUTE FUNCTION governance_reservation_guard();

CREATE TRIGGER governance_resolution_guard
    BEFORE INSERT ON governance_resolution
    FOR EACH ROW EXECUTE FUNCTION governance_resolution_guard();

CREATE TRIGGER governance_budget_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_budget
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_budget_guard
    BEFORE UPDATE ON governance_budget
    FOR EACH ROW EXECUTE FUNCTION governance_budget_guard();

CREATE TRIGGER governance_budgetwindow_no_delete
    BEFORE DELETE OR TRUNCATE ON governance_budgetwindow
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_budgetwindow_guard
    BEFORE UPDATE ON governance_budgetwindow
    FOR EACH ROW EXECUTE FUNCTION governance_budgetwindow_guard();
"""

BACKWARD = """
DROP TRIGGER governance_budgetwindow_guard ON governance_budgetwindow;
DROP TRIGGER governance_budgetwindow_no_delete ON governance_budgetwindow;
DROP TRIGGER governance_budget_guard ON governance_budget;
DROP TRIGGER governance_budget_no_delete ON governance_budget;
DROP TRIGGER governance_resolution_guard ON governance_resolution;
DROP TRIGGER governance_reservation_guard ON governance_reservation;
DROP TRIGGER governance_reservation_no_delete ON governance_reservation;
DROP TRIGGER governance_routepolicy_guard ON governance_routepolicy;
DROP TRIGGER governance_routepolicy_no_delete ON governance_routepolicy;
DROP TRIGGER governance_price_guard ON governance_price;
DROP TRIGGER governance_price_no_delete ON governance_price;
DROP TRIGGER governance_languagemodel_no_delete ON governance_languagemodel;
DROP TRIGGER governance_factstream_guard ON governance_factstream;
DROP TRIGGER governance_factstream_never_deleted ON governance_factstream;
DROP TRIGGER governance_factsink_never_deleted ON governance_factsink;
DROP TRIGGER governance_fact_no_truncate ON governance_fact;
DROP TRIGGER governance_fact_guard ON governance_fact;
DROP TRIGGER governance_resolution_append_only ON governance_resolution;
DROP TRIGGER governance_reservationhold_append_only ON governance_reservationhold;
DROP TRIGGER governance_routedecision_append_only ON governance_routedecision;
DROP TRIGGER governance_routepolicymodel_append_only ON governance_routepolicymodel;
DROP TRIGGER governance_pricetier_append_only ON governance_pricetier;
DROP TRIGGER governance_prunedfact_append_only ON governance_prunedfact;
DROP TRIGGER governance_auditcheckpointleaf_append_only ON governance_auditcheckpointleaf;
DROP TRIGGER governance_auditcheckpoint_append_only ON governance_auditcheckpoint;
DROP TRIGGER governance_auditevent_append_only ON governance_auditevent;
DROP FUNCTION governance_budget_guard;
DROP FUNCTION governance_budgetwindow_guard;
DROP FUNCTION governance_routepolicy_guard;
DROP FUNCTION governance_price_guard;
DROP FUNCTION governance_resolution_guard;
DROP FUNCTION governance_reservation_guard;
DROP FUNCTION governance_factstream_guard;
DROP FUNCTION governance_fact_guard;
DROP FUNCTION fencepost_never_deleted;
DROP FUNCTION fencepost_append_only;
"""


class Migration(migrations.Migration):
    replaces = [
        ("governance", "0002_append_only"),
        ("governance", "0006_money_guards"),
        ("governance", "0007_doubt_is_not_released"),
        ("governance", "0008_sinks_kept"),
        ("governance", "0012_pruned_facts_kept"),
        # The last of all: what depends on it comes after the tables and the triggers.
        ("governance", "0013_bulk_item_revisions"),
    ]

    dependencies = [("governance", "0002_money")]

    operations = [migrations.RunSQL(FORWARD, reverse_sql=BACKWARD)]
