from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import CheckConstraint, F, Q

SCOPES = [
    ("global", "Global"),
    ("agent", "Agent"),
    ("job_type", "Job Type"),
    ("job", "Job"),
    ("submitter", "Submitter"),
    ("label", "Label"),
    ("model", "Model"),
    ("provider", "Provider"),
]
WINDOWS = [
    ("hour", "Hour"),
    ("day", "Day"),
    ("week", "Week"),
    ("month", "Month"),
    ("none", "None"),
]
KEYED = ["agent", "job_type", "job", "submitter", "label", "model", "provider"]
# Each takes the place of a narrower one, so that no row of before breaks it.
SAID = """
COMMENT ON CONSTRAINT budget_key_iff_scoped ON governance_budget IS
'A budget of a scope names whom it is for, the global one nobody. No move writes another: disable
it, and set it anew.';
COMMENT ON CONSTRAINT budget_window_is_known ON governance_budget IS
'A budget is of an hour, day, week or month, or without a window. No move writes another.';
COMMENT ON CONSTRAINT budget_label_has_a_value ON governance_budget IS
'A budget of a label names its value: name=value, or name=* for each. No move writes another.';
COMMENT ON CONSTRAINT budget_window_ends ON governance_budgetwindow IS
'A window ends after it has begun, unless its budget has none. No move writes another.';
"""


def widened(model: str, name: str, field: models.Field) -> migrations.AlterField:
    return migrations.AlterField(model_name=model, name=name, field=field)


def replaced(model: str, check: CheckConstraint) -> list[migrations.operations.base.Operation]:
    return [
        migrations.RemoveConstraint(model_name=model, name=check.name),
        AddConstraintNotValid(model_name=model, constraint=check),
    ]


class Migration(migrations.Migration):
    """Let budgets be for submitters, labels, models and providers, of an hour and of a week."""

    dependencies = [("governance", "0019_spend_by_hour")]

    operations = [
        widened("budget", "scope", models.CharField(max_length=9, choices=SCOPES)),
        widened("budget", "key", models.CharField(max_length=401, blank=True)),
        widened("budget", "window", models.CharField(max_length=5, choices=WINDOWS)),
        widened("budgetwindow", "counted_for", models.CharField(max_length=401, blank=True)),
        widened("budgetwindow", "kind", models.CharField(max_length=5, choices=WINDOWS)),
        widened("noroom", "scope", models.CharField(max_length=9, choices=SCOPES)),
        widened("noroom", "key", models.CharField(max_length=401, blank=True)),
        *replaced(
            "budget",
            CheckConstraint(
                condition=Q(scope="global", key="") | (Q(scope__in=KEYED) & ~Q(key="")),
                name="budget_key_iff_scoped",
            ),
        ),
        *replaced(
            "budget",
            CheckConstraint(
                condition=Q(window__in=["hour", "day", "week", "month", "none"]),
                name="budget_window_is_known",
            ),
        ),
        *replaced(
            "budgetwindow",
            CheckConstraint(
                condition=Q(ends_at=None, kind="none")
                | Q(kind__in=["hour", "day", "week", "month"], ends_at__gt=F("starts_at")),
                name="budget_window_ends",
            ),
        ),
        AddConstraintNotValid(
            model_name="budget",
            constraint=CheckConstraint(
                condition=~Q(scope="label") | Q(key__regex="^[^=]+=."),
                name="budget_label_has_a_value",
            ),
        ),
        migrations.RunSQL(SAID, reverse_sql=migrations.RunSQL.noop),
    ]
