from django.contrib.postgres.operations import AddIndexConcurrently, ValidateConstraint
from django.db import migrations, models
from django.db.models import Q

ISSUED = models.UniqueConstraint(
    fields=["route_request_id"],
    condition=Q(decision="issued"),
    name="route_decision_issued_once",
)


class Migration(migrations.Migration):
    """Let a refusal leave its request free: only what is issued is issued once.

    The indexes are made beside the constraints before, which hold until they are there.
    """

    atomic = False

    dependencies = [("governance", "0009_openings_and_adjustments")]

    operations = [
        ValidateConstraint(model_name="budget", name="budget_warns_before_its_cap"),
        migrations.RunSQL(
            "CREATE UNIQUE INDEX CONCURRENTLY route_decision_issued_once"
            " ON governance_routedecision (route_request_id) WHERE decision = 'issued'",
            "DROP INDEX CONCURRENTLY route_decision_issued_once",
            state_operations=[migrations.AddConstraint("routedecision", ISSUED)],
        ),
        AddIndexConcurrently(
            model_name="routedecision",
            index=models.Index(
                fields=["external_request_id", "call"], name="route_decision_call_idx"
            ),
        ),
        migrations.RemoveConstraint(model_name="routedecision", name="route_decision_call_once"),
        migrations.AlterField(
            model_name="routedecision",
            name="route_request_id",
            field=models.CharField(max_length=90),
        ),
    ]
