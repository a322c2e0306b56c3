from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("governance", "0007_complete_prices")]

    operations = [
        ValidateConstraint(model_name="resolution", name="resolution_counts_are_not_negative"),
        ValidateConstraint(model_name="resolution", name="resolution_odd_usage_is_estimated"),
    ]
