from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations, models
from django.db.models import Index, Q


class Migration(migrations.Migration):
    """Let spend be read by time, and tell once of what is exhausted or has been in doubt for long.

    The indexes are made beside the work.
    """

    atomic = False

    dependencies = [("governance", "0011_no_room")]

    operations = [
        migrations.AddField(
            model_name="budgetwindow", name="exhausted_at", field=models.DateTimeField(null=True)
        ),
        migrations.CreateModel(
            name="AgedReservation",
            fields=[
                (
                    "reservation",
                    models.OneToOneField(
                        on_delete=models.PROTECT,
                        primary_key=True,
                        related_name="aged",
                        serialize=False,
                        to="governance.reservation",
                    ),
                ),
                ("aged_at", models.DateTimeField()),
            ],
        ),
        AddIndexConcurrently(
            "resolution", Index(fields=["resolved_at", "reservation"], name="resolution_time_idx")
        ),
        AddIndexConcurrently(
            "reservation",
            Index(
                fields=["reserved_at"],
                name="reservation_doubt_idx",
                condition=Q(state="in_doubt"),
            ),
        ),
        AddIndexConcurrently(
            "budgetwindow",
            Index(fields=["budget", "kind", "starts_at", "-id"], name="budget_window_newest_idx"),
        ),
        AddIndexConcurrently(
            "budgetwindow",
            Index(
                fields=["ends_at"],
                name="budget_window_told_idx",
                condition=Q(warned_at__isnull=False) | Q(exhausted_at__isnull=False),
            ),
        ),
    ]
