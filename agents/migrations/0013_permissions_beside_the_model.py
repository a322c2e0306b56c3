from django.db import migrations


class Migration(migrations.Migration):
    """Forget the permissions as options of the fleet: verbs declare them. Their rows stay."""

    dependencies = [("agents", "0002_triggers")]

    operations = [
        migrations.AlterModelOptions(name="fleet", options={"verbose_name_plural": "fleet"})
    ]
