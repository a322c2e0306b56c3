from django.contrib.postgres.indexes import GinIndex
from django.contrib.postgres.operations import AddIndexConcurrently
from django.contrib.postgres.search import SearchVector
from django.db import migrations, models
from django.db.models import Index
from django.db.models.functions import Coalesce


class Migration(migrations.Migration):
    """Let lists be narrowed by label, words of the title, source, worker and last change.

    Jobs of before have no instant of their last change, and are found by that of their state.
    """

    atomic = False

    dependencies = [("jobs", "0025_deferrals_hold")]

    operations = [
        migrations.AddField("job", "updated_at", models.DateTimeField(null=True, blank=True)),
        AddIndexConcurrently(
            "job", Index(Coalesce("updated_at", "state_since"), name="job_updated_idx")
        ),
        AddIndexConcurrently(
            "task",
            GinIndex(fields=["labels"], opclasses=["jsonb_path_ops"], name="task_labels_idx"),
        ),
        AddIndexConcurrently(
            "task", GinIndex(SearchVector("title", config="simple"), name="task_title_idx")
        ),
        AddIndexConcurrently("task", Index(fields=["source", "job"], name="task_by_source_idx")),
        AddIndexConcurrently(
            "attempt", Index(fields=["worker_id", "-job"], name="attempt_by_worker_idx")
        ),
    ]
