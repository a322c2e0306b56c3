from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("governance", "0010_held_streams_listed"),
    ]

    operations = [
        migrations.CreateModel(
            name="PrunedFact",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("fact_id", models.CharField(max_length=120)),
                ("principal", models.CharField(max_length=160)),
                ("content_sha256", models.CharField(max_length=64)),
                ("receipt_id", models.UUIDField()),
                ("sequence", models.PositiveBigIntegerField()),
                ("recorded_at", models.DateTimeField()),
            ],
            options={
                "constraints": [
                    models.UniqueConstraint(
                        fields=("principal", "fact_id"), name="pruned_fact_once"
                    )
                ],
            },
        ),
    ]
