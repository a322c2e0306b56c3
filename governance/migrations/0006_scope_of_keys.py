from django.contrib.postgres.operations import AddIndexConcurrently, RemoveIndexConcurrently
from django.db import migrations, models

SCOPE = models.UniqueConstraint(
    fields=["principal", "operation", "operation_id", "key"], name="idempotency_scope_once"
)


class Migration(migrations.Migration):
    """Let callers name an operation as a part of a key's scope, and keep records as keys need.

    Records of before have the default of both columns: the operation's own name, a digest of
    version 1. No row is written anew. The unique index is made beside the constraint before, which
    holds until it is there.
    """

    atomic = False

    dependencies = [("governance", "0005_content_of_facts")]

    operations = [
        migrations.AddField(
            "idempotencyrecord",
            "operation_id",
            models.CharField(blank=True, db_default="", max_length=120),
        ),
        migrations.AddField(
            "idempotencyrecord", "digest_version", models.SmallIntegerField(db_default=1)
        ),
        migrations.RunSQL(
            "CREATE UNIQUE INDEX CONCURRENTLY idempotency_scope_once"
            " ON governance_idempotencyrecord (principal, operation, operation_id, key)",
            "DROP INDEX CONCURRENTLY IF EXISTS idempotency_scope_once",
        ),
        migrations.RunSQL(
            "ALTER TABLE governance_idempotencyrecord ADD CONSTRAINT idempotency_scope_once"
            " UNIQUE USING INDEX idempotency_scope_once",
            "ALTER TABLE governance_idempotencyrecord DROP CONSTRAINT idempotency_scope_once",
            state_operations=[migrations.AddConstraint("idempotencyrecord", SCOPE)],
        ),
        migrations.RemoveConstraint("idempotencyrecord", "idempotency_key_once"),
        AddIndexConcurrently(
            "idempotencyrecord",
            models.Index(fields=["expires_at"], name="idempotency_expiry_idx"),
        ),
        RemoveIndexConcurrently("idempotencyrecord", "idempotency_age_idx"),
    ]
