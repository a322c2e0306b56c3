from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("governance", "0009_named_in_lists"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="streamhold",
            options={"verbose_name": "held fact stream"},
        ),
        migrations.AddIndex(
            model_name="streamhold",
            index=models.Index(
                condition=models.Q(("parked_at__isnull", False)),
                fields=["parked_at", "stream"],
                name="stream_hold_parked_idx",
            ),
        ),
    ]
