import django.db.models.deletion
from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import CheckConstraint, F, Q

PROTECT = django.db.models.deletion.PROTECT
# A warning above the cap could never come; at the cap it comes as late as that. Rows are repaired
# here because one that broke the rule could not be written at all any more, not even to note on
# its chain that it was used up.
REPAIR = """
UPDATE governance_budget SET soft_cap = cap WHERE soft_cap > cap
"""
SAID = """
COMMENT ON CONSTRAINT budget_warns_before_its_cap ON governance_budget IS
'A soft cap is at most the cap: UPDATE governance_budget SET soft_cap = cap WHERE soft_cap > cap.'
"""
FORWARD = """
CREATE OR REPLACE FUNCTION governance_adjustment_guard() RETURNS trigger
LANGUAGE plpgsql AS $$
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

CREATE TRIGGER governance_budgetopening_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_budgetopening
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_adjustment_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_adjustment
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_adjustmentverdict_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_adjustmentverdict
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_adjustmentposting_append_only
    BEFORE DELETE OR UPDATE OR TRUNCATE ON governance_adjustmentposting
    FOR EACH STATEMENT EXECUTE FUNCTION fencepost_append_only();

CREATE TRIGGER governance_adjustment_guard
    BEFORE INSERT ON governance_adjustment
    FOR EACH ROW EXECUTE FUNCTION governance_adjustment_guard();

CREATE TRIGGER governance_adjustmentverdict_guard
    BEFORE INSERT ON governance_adjustmentverdict
    FOR EACH ROW EXECUTE FUNCTION governance_adjustmentverdict_guard();
"""
BACKWARD = """
DROP TRIGGER governance_adjustmentverdict_guard ON governance_adjustmentverdict;
DROP TRIGGER governance_adjustment_guard ON governance_adjustment;
DROP TRIGGER governance_adjustmentposting_append_only ON governance_adjustmentposting;
DROP TRIGGER governance_adjustmentverdict_append_only ON governance_adjustmentverdict;
DROP TRIGGER governance_adjustment_append_only ON governance_adjustment;
DROP TRIGGER governance_budgetopening_append_only ON governance_budgetopening;
DROP FUNCTION governance_adjustmentverdict_guard;
DROP FUNCTION governance_adjustment_guard;
"""


def money() -> models.Field:
    return models.DecimalField(max_digits=24, decimal_places=12)


def actor() -> models.Field:
    return models.CharField(max_length=160)


class Migration(migrations.Migration):
    """Count what a window had seen before its budget did, and correct what calls cost by rows."""

    dependencies = [("governance", "0008_complete_prices_hold")]

    operations = [
        migrations.CreateModel(
            name="BudgetOpening",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("spent", money()),
                ("opened_by", actor()),
                ("opened_at", models.DateTimeField()),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=PROTECT, related_name="openings", to="governance.budgetwindow"
                    ),
                ),
            ],
            options={
                "constraints": [
                    CheckConstraint(condition=Q(spent__gte=0), name="budget_opening_not_negative")
                ]
            },
        ),
        migrations.CreateModel(
            name="Adjustment",
            fields=[
                ("adjustment_id", models.UUIDField(primary_key=True, serialize=False)),
                ("amount", money()),
                ("needs_confirmation", models.BooleanField()),
                ("reason", models.TextField()),
                ("made_by", actor()),
                ("made_at", models.DateTimeField()),
                (
                    "resolution",
                    models.ForeignKey(
                        on_delete=PROTECT, related_name="adjustments", to="governance.resolution"
                    ),
                ),
            ],
            options={
                "constraints": [
                    CheckConstraint(condition=~Q(amount=0), name="adjustment_moves_something"),
                    CheckConstraint(condition=~Q(reason=""), name="adjustment_has_reason"),
                ],
                "indexes": [
                    models.Index(
                        condition=Q(needs_confirmation=True),
                        fields=["made_at"],
                        name="adjustment_confirmed_idx",
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="AdjustmentVerdict",
            fields=[
                (
                    "adjustment",
                    models.OneToOneField(
                        on_delete=PROTECT,
                        primary_key=True,
                        related_name="verdict",
                        serialize=False,
                        to="governance.adjustment",
                    ),
                ),
                (
                    "verdict",
                    models.CharField(
                        choices=[("confirmed", "Confirmed"), ("declined", "Declined")],
                        max_length=9,
                    ),
                ),
                ("reason", models.TextField()),
                ("decided_by", actor()),
                ("decided_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    CheckConstraint(
                        condition=Q(verdict__in=["confirmed", "declined"]),
                        name="adjustment_verdict_is_known",
                    ),
                    CheckConstraint(condition=~Q(reason=""), name="adjustment_verdict_has_reason"),
                ]
            },
        ),
        migrations.CreateModel(
            name="AdjustmentPosting",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "adjustment",
                    models.ForeignKey(
                        db_index=False,
                        on_delete=PROTECT,
                        related_name="postings",
                        to="governance.adjustment",
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=PROTECT, related_name="adjustments", to="governance.budgetwindow"
                    ),
                ),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=["adjustment", "window"], name="adjustment_posting_once"
                    )
                ]
            },
        ),
        migrations.RunSQL(REPAIR, migrations.RunSQL.noop),
        AddConstraintNotValid(
            model_name="budget",
            constraint=CheckConstraint(
                condition=Q(cap=None) | Q(soft_cap=None) | Q(soft_cap__lte=F("cap")),
                name="budget_warns_before_its_cap",
            ),
        ),
        migrations.RunSQL(SAID, migrations.RunSQL.noop),
        migrations.RunSQL(FORWARD, BACKWARD),
    ]
