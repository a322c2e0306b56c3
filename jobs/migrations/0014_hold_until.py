from datetime import UTC, datetime

from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import CheckConstraint, Q


class Migration(migrations.Migration):
    dependencies = [("jobs", "0003_triggers")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="hold_until",
            field=models.DateTimeField(null=True, blank=True),
        ),
        AddConstraintNotValid(
            model_name="job",
            constraint=CheckConstraint(
                condition=Q(hold_until=None)
                | Q(
                    state__in=["held", "queued"],
                    hold_until__gte=datetime(1970, 1, 1, tzinfo=UTC),
                    hold_until__lt=datetime(9000, 1, 1, tzinfo=UTC),
                ),
                name="job_hold_ends_while_unclaimed",
            ),
        ),
    ]
