from django.contrib.postgres.operations import AddIndexConcurrently
from django.db import migrations
from django.db.models import F, Index, Q
from django.db.models.functions import Greatest


class Migration(migrations.Migration):
    """Let claims walk the types of an agent one by one, past those that have no room."""

    atomic = False

    dependencies = [("jobs", "0028_open_calls"), ("governance", "0011_no_room")]

    operations = [
        AddIndexConcurrently(
            "job",
            Index(
                F("agent"),
                F("job_type"),
                F("priority").desc(),
                Greatest("hold_until", "available_at"),
                F("id"),
                name="job_claim_type_idx",
                condition=Q(state="queued", paused=False),
            ),
        ),
    ]
