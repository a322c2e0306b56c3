from django.db import migrations, models


class Migration(migrations.Migration):
    """Keep which types a process does not ask for now, as its heartbeats say."""

    dependencies = [("agents", "0017_keep_lineages_and_ids")]

    operations = [
        migrations.AddField("presence", "not_asking", models.JSONField(null=True, blank=True)),
    ]
