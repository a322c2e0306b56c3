from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import CheckConstraint, F, Q

OUTCOMES = (
    "completed",
    "failed",
    "escalated",
    "deferred",
    "lease_expired",
    "superseded",
    "timed_out",
    "deadline_exceeded",
    "stopped",
)


class Migration(migrations.Migration):
    """Count the attempts that do not count: those that were given back for want of room."""

    dependencies = [("jobs", "0022_bounded_instants_hold")]

    operations = [
        migrations.AddField(
            model_name="job",
            name="deferrals",
            field=models.IntegerField(default=0, db_default=0),
        ),
        migrations.AddField(
            model_name="job",
            name="unconfirmed_deferrals",
            field=models.IntegerField(default=0, db_default=0),
        ),
        migrations.AddField(
            model_name="jobtype",
            name="max_deferrals",
            field=models.PositiveIntegerField(default=20, db_default=20),
        ),
        migrations.AlterField(
            model_name="attempt",
            name="outcome",
            field=models.CharField(
                max_length=20,
                choices=[(name, name.replace("_", " ").title()) for name in OUTCOMES],
                null=True,
                blank=True,
            ),
        ),
        AddConstraintNotValid(
            model_name="job",
            constraint=CheckConstraint(
                condition=Q(attempt__lte=F("max_attempts") + F("deferrals")),
                name="job_counted_attempts_are_bounded",
            ),
        ),
        AddConstraintNotValid(
            model_name="job",
            constraint=CheckConstraint(
                condition=Q(
                    deferrals__gte=0, deferrals__lte=F("attempt"), unconfirmed_deferrals__gte=0
                ),
                name="job_deferrals_are_attempts",
            ),
        ),
        migrations.RemoveConstraint(model_name="job", name="job_attempts_are_bounded"),
    ]
