from django.contrib.postgres.operations import (
    AddIndexConcurrently,
    RemoveIndexConcurrently,
    ValidateConstraint,
)
from django.db import migrations
from django.db.models import F, Index, Q
from django.db.models.functions import Greatest

CLAIMABLE = Q(state="queued", paused=False)


class Migration(migrations.Migration):
    """Put the index of claims in the order in which holds let jobs be claimed.

    It is made beside the one before, which serves claims until it is there.
    """

    atomic = False

    dependencies = [("jobs", "0014_hold_until")]

    operations = [
        ValidateConstraint(model_name="job", name="job_hold_ends_while_unclaimed"),
        AddIndexConcurrently(
            model_name="job",
            index=Index(fields=["-id"], name="job_hold_idx", condition=Q(hold_until__isnull=False)),
        ),
        AddIndexConcurrently(
            model_name="job",
            index=Index(
                F("agent"),
                F("priority").desc(),
                Greatest("available_at", "hold_until"),
                F("id"),
                name="job_claim_after_hold_idx",
                condition=CLAIMABLE,
            ),
        ),
        RemoveIndexConcurrently(model_name="job", name="job_claim_idx"),
        migrations.RenameIndex(
            model_name="job", old_name="job_claim_after_hold_idx", new_name="job_claim_idx"
        ),
    ]
