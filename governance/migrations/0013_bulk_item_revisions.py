from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("governance", "0012_pruned_facts_kept")]

    operations = [
        migrations.AddField("bulkitem", "revision", models.BigIntegerField(null=True, blank=True)),
    ]
