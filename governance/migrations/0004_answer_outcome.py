from django.db import migrations, models


class Migration(migrations.Migration):
    """Records keep an answer's outcome, of which each face makes its own status."""

    dependencies = [("governance", "0003_triggers")]

    operations = [
        migrations.AddField(
            "idempotencyrecord",
            "outcome",
            models.CharField(blank=True, db_default="", max_length=40),
        ),
        migrations.AlterField(
            "idempotencyrecord", "status", models.PositiveSmallIntegerField(null=True)
        ),
    ]
