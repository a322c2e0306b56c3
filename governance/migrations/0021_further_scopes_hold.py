from django.contrib.postgres.operations import ValidateConstraint
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [("governance", "0020_further_scopes")]

    operations = [
        ValidateConstraint(model_name="budget", name="budget_key_iff_scoped"),
        ValidateConstraint(model_name="budget", name="budget_window_is_known"),
        ValidateConstraint(model_name="budget", name="budget_label_has_a_value"),
        ValidateConstraint(model_name="budgetwindow", name="budget_window_ends"),
    ]
