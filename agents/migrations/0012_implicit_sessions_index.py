from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0011_pending_sessions_index"),
    ]

    operations = [
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("kind", "implicit")),
                fields=["agent", "created_at"],
                name="session_implicit_made_idx",
            ),
        ),
    ]
