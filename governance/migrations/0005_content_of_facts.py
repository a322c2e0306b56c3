from django.db import migrations, models
from django.db.models import Q, UniqueConstraint

STATED = UniqueConstraint(
    fields=["principal", "fact_id"], condition=Q(relayed=True), name="fact_id_once_stated"
)
KEPT = UniqueConstraint(
    fields=["principal", "fact_id", "stream", "type", "content_sha256"],
    condition=Q(relayed=False),
    name="fact_kept_once",
)


class Migration(migrations.Migration):
    """Let evidence leave its id free, and keep the whole content of facts that are pruned.

    The indexes are made beside the constraint before, which holds until they are there.
    """

    atomic = False

    dependencies = [("governance", "0004_answer_outcome")]

    operations = [
        migrations.AddField(
            model_name="prunedfact",
            name="stream",
            field=models.CharField(max_length=160, blank=True, db_default=""),
        ),
        migrations.AddField(
            model_name="prunedfact",
            name="type",
            field=models.CharField(max_length=120, blank=True, db_default=""),
        ),
        migrations.RunSQL(
            "CREATE UNIQUE INDEX CONCURRENTLY fact_id_once_stated"
            " ON governance_fact (principal, fact_id) WHERE relayed",
            "DROP INDEX CONCURRENTLY fact_id_once_stated",
            state_operations=[migrations.AddConstraint("fact", STATED)],
        ),
        migrations.RunSQL(
            "CREATE UNIQUE INDEX CONCURRENTLY fact_kept_once ON governance_fact"
            " (principal, fact_id, stream, type, content_sha256) WHERE NOT relayed",
            "DROP INDEX CONCURRENTLY fact_kept_once",
            state_operations=[migrations.AddConstraint("fact", KEPT)],
        ),
        migrations.RemoveConstraint(model_name="fact", name="fact_id_once"),
    ]
