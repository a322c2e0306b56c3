import django.db.models.deletion
from django.db import migrations, models
from django.db.models import CheckConstraint, F, Q, UniqueConstraint

SCOPES = [
    ("global", "Global"),
    ("agent", "Agent"),
    ("job_type", "Job Type"),
    ("job", "Job"),
]


class Migration(migrations.Migration):
    """Keep for which scopes there is no room, and until when."""

    dependencies = [("governance", "0010_routes_decided_again")]

    operations = [
        migrations.CreateModel(
            name="NoRoom",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("scope", models.CharField(max_length=8, choices=SCOPES)),
                ("key", models.CharField(max_length=100, blank=True)),
                ("amount", models.DecimalField(max_digits=24, decimal_places=12)),
                ("reason", models.CharField(max_length=60)),
                ("noted_at", models.DateTimeField()),
                ("until", models.DateTimeField()),
                (
                    "budget",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="no_room",
                        to="governance.budget",
                    ),
                ),
                (
                    "window",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="no_room",
                        to="governance.budgetwindow",
                    ),
                ),
            ],
            options={
                "verbose_name_plural": "no room",
                "constraints": [
                    UniqueConstraint(fields=["scope", "key"], name="no_room_once"),
                    CheckConstraint(
                        condition=Q(scope="global", key="") | (~Q(scope="global") & ~Q(key="")),
                        name="no_room_key_iff_scoped",
                    ),
                    CheckConstraint(
                        condition=Q(until__gt=F("noted_at"), amount__gte=0), name="no_room_ends"
                    ),
                ],
            },
        ),
    ]
