from django.db import migrations, models
from django.db.models import CheckConstraint, Q

MODEL_USES = ("none", "allowed", "required")
EFFECTS = ("model_only", "external")

# A type that used a model must call one. One that did not was never kept from it: its routes were
# granted, and only its permits needed none.
FORWARD = "UPDATE jobs_jobtype SET model_use = 'required' WHERE uses_model"
BACKWARD = "UPDATE jobs_jobtype SET uses_model = true WHERE model_use = 'required'"
LEAVE = "ALTER TABLE jobs_jobtype ALTER COLUMN uses_model SET DEFAULT false"
TAKE_BACK = "ALTER TABLE jobs_jobtype ALTER COLUMN uses_model DROP DEFAULT"


def words(names: tuple[str, ...]) -> list[tuple[str, str]]:
    return [(name, name.replace("_", " ").title()) for name in names]


def effects() -> models.CharField:
    return models.CharField(
        max_length=10, choices=words(EFFECTS), default="external", db_default="external"
    )


class Migration(migrations.Migration):
    """Say of each type whether its work calls models, and whether it touches anything else."""

    dependencies = [("jobs", "0029_claim_by_type")]

    operations = [
        migrations.AddField(
            model_name="jobtype",
            name="model_use",
            field=models.CharField(
                max_length=8, choices=words(MODEL_USES), default="allowed", db_default="allowed"
            ),
        ),
        migrations.AddField(model_name="jobtype", name="effects", field=effects()),
        migrations.AddField(model_name="execution", name="effects", field=effects()),
        migrations.RunSQL(FORWARD, BACKWARD),
        # Processes of the release before read the column while they are being replaced.
        migrations.SeparateDatabaseAndState(
            database_operations=[migrations.RunSQL(LEAVE, TAKE_BACK)],
            state_operations=[migrations.RemoveField(model_name="jobtype", name="uses_model")],
        ),
        migrations.AddConstraint(
            model_name="jobtype",
            constraint=CheckConstraint(
                condition=Q(model_use__in=MODEL_USES, effects__in=EFFECTS),
                name="job_type_model_use_is_known",
            ),
        ),
    ]
