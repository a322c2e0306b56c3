import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid, ValidateConstraint
from django.db import migrations, models
from django.db.models import CheckConstraint, Q

PROTECT = django.db.models.deletion.PROTECT
FORWARD = """
CREATE OR REPLACE FUNCTION governance_adjustment_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    adjusted governance_adjustment := NEW;
BEGIN
    IF NEW.needs_confirmation THEN
        RETURN NEW;
    END IF;

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

    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_adjustmentverdict_guard() RETURNS trigger
LANGUAGE plpgsql AS $$
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

    RETURN NEW;
END
$$;
"""
BACKWARD = """
CREATE OR REPLACE FUNCTION governance_adjustment_guard() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    adjusted governance_adjustment := NEW;
BEGIN
    IF NEW.needs_confirmation THEN
        RETURN NEW;
    END IF;

    -- Whoever adjusts the same call waits here, and then sees what the one before has made of it.
    PERFORM 1 FROM governance_reservation r WHERE r.reservation_id = adjusted.resolution_id
        FOR NO KEY UPDATE;
    IF (SELECT e.cost FROM governance_resolution e WHERE e.reservation_id = adjusted.resolution_id)
       + (SELECT coalesce(sum(a.amount), 0) FROM governance_adjustment a
           LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id
          WHERE a.resolution_id = adjusted.resolution_id
            AND (NOT a.needs_confirmation OR v.verdict = 'confirmed'))
       + adjusted.amount < 0 THEN
        RAISE EXCEPTION 'the cost of a call does not fall below 0'
            USING ERRCODE = 'restrict_violation';
    END IF;

    RETURN NEW;
END
$$;

CREATE OR REPLACE FUNCTION governance_adjustmentverdict_guard() RETURNS trigger
LANGUAGE plpgsql AS $$
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

    -- Whoever adjusts the same call waits here, and then sees what the one before has made of it.
    PERFORM 1 FROM governance_reservation r WHERE r.reservation_id = adjusted.resolution_id
        FOR NO KEY UPDATE;
    IF (SELECT e.cost FROM governance_resolution e WHERE e.reservation_id = adjusted.resolution_id)
       + (SELECT coalesce(sum(a.amount), 0) FROM governance_adjustment a
           LEFT JOIN governance_adjustmentverdict v ON v.adjustment_id = a.adjustment_id
          WHERE a.resolution_id = adjusted.resolution_id
            AND (NOT a.needs_confirmation OR v.verdict = 'confirmed'))
       + adjusted.amount < 0 THEN
        RAISE EXCEPTION 'the cost of a call does not fall below 0'
            USING ERRCODE = 'restrict_violation';
    END IF;

    RETURN NEW;
END
$$;
"""


class Migration(migrations.Migration):
    """Correct what was used and not reserved by a row too, and keep the cost of its counters."""

    dependencies = [("governance", "0017_disputed_uses")]

    operations = [
        migrations.AddField(
            model_name="unreserveduse", name="cost_split", field=models.JSONField(null=True)
        ),
        migrations.AddField(
            model_name="adjustment",
            name="use",
            field=models.ForeignKey(
                null=True,
                on_delete=PROTECT,
                related_name="adjustments",
                to="governance.unreserveduse",
            ),
        ),
        migrations.AlterField(
            model_name="adjustment",
            name="resolution",
            field=models.ForeignKey(
                null=True,
                on_delete=PROTECT,
                related_name="adjustments",
                to="governance.resolution",
            ),
        ),
        AddConstraintNotValid(
            model_name="adjustment",
            constraint=CheckConstraint(
                condition=Q(resolution__isnull=False, use__isnull=True)
                | Q(resolution__isnull=True, use__isnull=False),
                name="adjustment_is_of_one",
            ),
        ),
        ValidateConstraint(model_name="adjustment", name="adjustment_is_of_one"),
        migrations.RunSQL(FORWARD, reverse_sql=BACKWARD),
    ]
