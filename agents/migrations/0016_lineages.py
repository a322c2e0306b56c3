import json
import uuid
from collections.abc import Iterator
from typing import Any

import django.db.models.deletion
from django.contrib.postgres.functions import RandomUUID
from django.db import migrations, models

ACTIVATED = ("session.activated", "session.rebound", "session.awaiting_approval")


def fill(apps: Any, schema_editor: Any) -> None:
    """Give successors the lineage of what they replaced, and sessions that of their credential.

    Read from the audit trail: what it does not tell stays a lineage of its own, or open.
    """
    event = apps.get_model("governance", "AuditEvent")
    credential, session, approval = (
        apps.get_model("agents", name) for name in ("Credential", "Session", "CellApproval")
    )
    lineages = {
        prefix: uuid.uuid4() for prefix in credential.objects.values_list("prefix", flat=True)
    }
    for kind in ("agent", "submitter"):
        for name in apps.get_model("agents", kind.title()).objects.values_list("name", flat=True):
            chain = event.objects.filter(subject=f"{kind}:{name}").order_by("seq")
            for old, new in _rotations(chain):
                if old in lineages and new in lineages:
                    lineages[new] = lineages[old]
            for session_id, prefix in _activations(chain):
                if prefix in lineages:
                    found = session.objects.filter(session_id=session_id, kind="activated")
                    found.update(lineage=lineages[prefix])
    for prefix, lineage in lineages.items():
        credential.objects.filter(prefix=prefix).update(lineage=lineage)
    for row in approval.objects.filter(withdrawn_at=None):
        of_cell = session.objects.filter(
            agent_id=row.agent_id, cell_id=row.cell_id, kind="activated", state="current"
        )
        row.lineage = of_cell.values_list("lineage", flat=True).first()
        row.save(update_fields=["lineage"])


def _rotations(chain: Any) -> Iterator[tuple[Any, Any]]:
    for body in _bodies(chain.filter(action="credential.rotated")):
        yield (body.get("before") or {}).get("prefix"), (body.get("after") or {}).get("prefix")


def _activations(chain: Any) -> Iterator[tuple[Any, Any]]:
    for body in _bodies(chain.filter(action__in=ACTIVATED)):
        details = body.get("details") or {}
        try:
            yield uuid.UUID(str(details.get("session_id"))), details.get("credential")
        except ValueError:
            continue


def _bodies(events: Any) -> Iterator[dict[str, Any]]:
    for raw in events.values_list("body", flat=True).iterator():
        try:
            body = json.loads(bytes(raw))
        except ValueError:
            continue
        if isinstance(body, dict):
            yield body


class Migration(migrations.Migration):
    """Say to which lineage of credentials, and to which certificate, sessions and cells belong."""

    dependencies = [
        ("agents", "0015_task_prefixes"),
        ("governance", "0003_triggers"),
    ]

    operations = [
        migrations.AddField(
            model_name="agent",
            name="require_certificates",
            field=models.BooleanField(db_default=False, default=False),
        ),
        migrations.AddField(
            model_name="credential",
            name="lineage",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="credential",
            name="former_certificate_sha256",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="session",
            name="lineage",
            field=models.UUIDField(editable=False, null=True),
        ),
        migrations.AddField(
            model_name="session",
            name="certificate_sha256",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.AddField(
            model_name="cellapproval",
            name="lineage",
            field=models.UUIDField(blank=True, editable=False, null=True),
        ),
        migrations.AddField(
            model_name="cellapproval",
            name="certificate_sha256",
            field=models.CharField(blank=True, db_default="", default="", max_length=64),
        ),
        migrations.CreateModel(
            name="FormerSession",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("former_id", models.UUIDField(unique=True)),
                ("generation", models.PositiveBigIntegerField()),
                ("dispatcher_epoch", models.UUIDField()),
                ("ended_at", models.DateTimeField()),
                (
                    "session",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.PROTECT,
                        related_name="former",
                        to="agents.session",
                    ),
                ),
            ],
        ),
        migrations.RunPython(fill, migrations.RunPython.noop, elidable=False),
        # Not with the column: a default that differs by row would write the table anew.
        migrations.AlterField(
            model_name="credential",
            name="lineage",
            field=models.UUIDField(db_default=RandomUUID(), default=uuid.uuid4, editable=False),
        ),
        migrations.RemoveConstraint(model_name="session", name="session_one_implicit_per_worker"),
        migrations.AddConstraint(
            model_name="session",
            constraint=models.UniqueConstraint(
                condition=models.Q(("kind", "implicit")),
                fields=("agent", "worker_id", "lineage"),
                name="session_one_implicit_per_holder",
                nulls_distinct=False,
            ),
        ),
        migrations.AddIndex(
            model_name="credential",
            index=models.Index(fields=["lineage"], name="credential_lineage_idx"),
        ),
        migrations.AddIndex(
            model_name="session",
            index=models.Index(
                condition=models.Q(("state", "superseded"), _negated=True),
                fields=["lineage"],
                name="session_lineage_idx",
            ),
        ),
    ]
