from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("agents", "0008_named_in_lists"),
    ]

    operations = [
        migrations.AlterModelOptions(
            name="fleet",
            options={
                "permissions": (
                    (
                        "approve_execution",
                        "Can approve, reject or withdraw the execution of a held job",
                    ),
                    ("review_job", "Can accept, reject or send back what a job delivered"),
                    (
                        "extend_retries",
                        "Can send a failed job back for rework and extend its attempts",
                    ),
                    ("stop_job", "Can stop a job"),
                    ("pause_job", "Can pause and resume a job"),
                    ("resolve_escalation", "Can resolve an escalated job"),
                    ("reconcile_execution", "Can reconcile an execution whose outcome is unknown"),
                    ("view_payloads", "Can see inputs, results and error texts"),
                    ("export_lists", "Can export lists"),
                    ("set_admission", "Can open, drain and close an agent"),
                    ("inhibit_fleet", "Can set and lift a maintenance inhibit"),
                    ("switch_runtime", "Can switch the runtime of an agent"),
                    ("configure_agent", "Can change the settings of an agent"),
                    ("approve_cell", "Can approve a cell of an agent"),
                    ("manage_credentials", "Can create, rotate and revoke credentials"),
                    ("rotate_epoch", "Can rotate the dispatcher epoch"),
                    ("adjust_budget", "Can change budgets, model routes and prices"),
                    ("authorize_live", "Can authorize live execution"),
                    ("release_facts", "Can release a held stream of facts"),
                ),
                "verbose_name_plural": "fleet",
            },
        ),
    ]
