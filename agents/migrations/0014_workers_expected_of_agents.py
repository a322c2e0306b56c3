from django.db import migrations, models


class Migration(migrations.Migration):
    """Let the guard count: how many workers of an agent are expected. One, as before."""

    dependencies = [("agents", "0013_permissions_beside_the_model")]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="workers_expected",
            field=models.PositiveSmallIntegerField(db_default=1, default=1),
        ),
        # A table of a few rows, which this migration has just filled: nothing to repair.
        migrations.AddConstraint(
            model_name="agent",
            constraint=models.CheckConstraint(
                condition=models.Q(("workers_expected__gte", 1)), name="agent_expects_a_worker"
            ),
        ),
    ]
