from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("governance", "0022_limits")]

    operations = [ValidateConstraint(model_name="noroom", name="no_room_has_one_cause")]
