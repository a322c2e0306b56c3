from django.db import migrations

# What may have been billed is never given back as if it had not been called.
NOT_FROM_DOUBT = """
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
END $$;
"""

FROM_DOUBT = """
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
"""


class Migration(migrations.Migration):
    dependencies = [("governance", "0006_money_guards")]
    operations = [migrations.RunSQL(NOT_FROM_DOUBT, reverse_sql=FROM_DOUBT)]
