from django.contrib.postgres.operations import AddConstraintNotValid
from django.db import migrations, models
from django.db.models import CheckConstraint, Q

COUNTERS = (
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "input_audio_tokens",
    "cached_audio_tokens",
    "output_audio_tokens",
    "searches",
)
NAMED = ("service_tier", "processing", "speed")


def add(name: str, field: models.Field) -> migrations.AddField:
    return migrations.AddField(model_name="resolution", name=name, field=field)


class Migration(migrations.Migration):
    """Keep the whole price, every counter, and what was reported that cannot be counted.

    Prices of before have no document, and stay what their rates and tiers say.
    """

    dependencies = [("governance", "0006_scope_of_keys")]

    operations = [
        migrations.AddField(
            model_name="price", name="document", field=models.JSONField(null=True, blank=True)
        ),
        migrations.AlterField(
            model_name="price",
            name="output_rate",
            field=models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True),
        ),
        migrations.AlterField(
            model_name="pricetier",
            name="output_rate",
            field=models.DecimalField(max_digits=24, decimal_places=12, null=True, blank=True),
        ),
        *(add(name, models.BigIntegerField(null=True)) for name in COUNTERS),
        *(
            add(name, models.CharField(max_length=60, blank=True, default="", db_default=""))
            for name in NAMED
        ),
        add("cost_split", models.JSONField(null=True)),
        add("usage_odd", models.BooleanField(default=False, db_default=False)),
        add("usage_sent", models.JSONField(null=True)),
        AddConstraintNotValid(
            model_name="resolution",
            constraint=CheckConstraint(
                condition=(Q(cache_write_tokens=None) | Q(cache_write_tokens__gte=0))
                & (Q(cache_write_1h_tokens=None) | Q(cache_write_1h_tokens__gte=0))
                & (Q(input_audio_tokens=None) | Q(input_audio_tokens__gte=0))
                & (Q(cached_audio_tokens=None) | Q(cached_audio_tokens__gte=0))
                & (Q(output_audio_tokens=None) | Q(output_audio_tokens__gte=0))
                & (Q(searches=None) | Q(searches__gte=0)),
                name="resolution_counts_are_not_negative",
            ),
        ),
        AddConstraintNotValid(
            model_name="resolution",
            constraint=CheckConstraint(
                condition=Q(usage_odd=False) | Q(usage_missing=True, cost_basis="estimate"),
                name="resolution_odd_usage_is_estimated",
            ),
        ),
    ]
