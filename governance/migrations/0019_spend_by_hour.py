"""Sums of what was spent by hour, for the console's page of money: the sweeper fills them."""

from decimal import Decimal

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("governance", "0018_corrections_of_unreserved_uses"),
    ]

    operations = [
        migrations.CreateModel(
            name="SpendHour",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("hour", models.DateTimeField()),
                ("agent", models.CharField(max_length=60)),
                ("job_type", models.CharField(max_length=60)),
                ("model", models.CharField(blank=True, max_length=181)),
                (
                    "cost",
                    models.DecimalField(decimal_places=12, default=Decimal("0"), max_digits=24),
                ),
                (
                    "unreserved",
                    models.DecimalField(decimal_places=12, default=Decimal("0"), max_digits=24),
                ),
                (
                    "corrected",
                    models.DecimalField(decimal_places=12, default=Decimal("0"), max_digits=24),
                ),
                ("calls", models.BigIntegerField()),
                ("uses", models.BigIntegerField()),
                ("corrections", models.BigIntegerField()),
                ("flagged", models.BigIntegerField()),
                ("unpriced", models.BigIntegerField()),
                ("input_tokens", models.DecimalField(decimal_places=0, max_digits=38)),
                ("output_tokens", models.DecimalField(decimal_places=0, max_digits=38)),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("hour", "agent", "job_type", "model"), name="spend_hour_once"
                    )
                ],
            },
        ),
        migrations.CreateModel(
            name="SpendHourCursor",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("settled_until", models.DateTimeField(null=True)),
                ("barrier", models.BigIntegerField(null=True)),
                ("barrier_until", models.DateTimeField(null=True)),
                ("counted_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.CheckConstraint(
                        condition=models.Q(("id", 1)), name="spend_hour_cursor_is_one_row"
                    ),
                    models.CheckConstraint(
                        condition=models.Q(
                            models.Q(("barrier", None), ("barrier_until", None)),
                            models.Q(("barrier__isnull", False), ("barrier_until__isnull", False)),
                            _connector="OR",
                        ),
                        name="spend_hour_cursor_barrier_is_whole",
                    ),
                ],
            },
        ),
    ]
