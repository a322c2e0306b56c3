from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import Index, Q


class Migration(migrations.Migration):
    """Let the inbox find the queued jobs whose risk tier their agent is no longer allowed."""

    atomic = False

    dependencies = [("jobs", "0015_claim_after_hold")]

    operations = [
        AddIndexConcurrently(
            model_name="job",
            index=Index(
                fields=["agent", "risk_tier", "state_since"],
                name="job_risk_idx",
                condition=Q(state="queued") & ~Q(risk_tier="low"),
            ),
        ),
    ]
