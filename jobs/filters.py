"""What lists of jobs can be narrowed by, as the API takes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.contrib.postgres.search import SearchQuery
from django.core.exceptions import ValidationError
from django.db.models import Exists, OuterRef, Q, QuerySet
from django.db.models.functions import Now
from django_filters import (
    BooleanFilter,
    CharFilter,
    ChoiceFilter,
    Filter,
    FilterSet,
    IsoDateTimeFilter,
)

from agents.models import RiskTier
from governance.core.fields import INSTANT_BOUNDS, bounded
from jobs.models import LABELS_MAX, Attempt, Job, Priority, Task
from jobs.models.jobs import LAST_CHANGED_AT, title_words


class FlagField(forms.NullBooleanField):
    """`true` or `false`. Any other word is a fault; Django takes it for none, and lists all."""

    widget = forms.TextInput

    def to_python(self, value: Any) -> Any:
        if value in self.empty_values:
            return None
        found = {"true": True, "false": False}.get(value.lower())
        if found is None:
            raise ValidationError("It must be true or false.")
        return found


class FlagFilter(BooleanFilter):
    """Narrows a list to rows of which something holds, or does not."""

    field_class = FlagField


class LabelsField(forms.Field):
    """Labels as `key:value`; several have all to match."""

    widget = forms.MultipleHiddenInput

    def to_python(self, value: Any) -> dict[str, str]:
        given = [value] if isinstance(value, str) else list(value or ())
        if len(given) > LABELS_MAX:
            raise ValidationError(f"At most {LABELS_MAX} labels.")
        wanted: dict[str, str] = {}
        for text in given:
            key, colon, of_key = text.partition(":")
            if not (key and colon) or "\0" in text or wanted.setdefault(key, of_key) != of_key:
                raise ValidationError("It must be key:value, and one value for a key.")
        return wanted


class LabelsFilter(Filter):
    """Narrows a list to jobs that have all of these labels."""

    field_class = LabelsField
    repeatable = True

    def filter(self, qs: QuerySet[Job], value: dict[str, str]) -> QuerySet[Job]:
        return qs.filter(task__labels__contains=value) if value else qs


def _worded(text: str) -> None:
    if not any(character.isalnum() for character in text):
        raise ValidationError("There is no word in it.")


def _bounded(at: datetime) -> None:
    if not bounded(at):
        raise ValidationError(f"It must be {INSTANT_BOUNDS}.")


class JobFilter(FilterSet):
    """Filters of jobs.

    Served by job_by_state_idx, job_by_agent_idx, job_by_submitter_idx, job_hold_idx,
    job_finished_idx and job_updated_idx; task_labels_idx, task_title_idx and task_by_source_idx;
    and attempt_by_worker_idx.
    """

    state = ChoiceFilter(choices=Job.State.choices)
    status = ChoiceFilter(choices=Job.State.choices, field_name="state")
    owner = CharFilter(field_name="agent__name")
    task_type = CharFilter(field_name="job_type__name")
    risk_tier = ChoiceFilter(choices=RiskTier.choices)
    priority = ChoiceFilter(choices=[(p.label, p.label) for p in Priority], method="by_priority")
    paused = FlagFilter()
    on_hold = FlagFilter(method="by_hold")
    task_id = CharFilter(max_length=100)
    task_id_prefix = CharFilter(field_name="task_id", lookup_expr="startswith", max_length=100)
    created_after = IsoDateTimeFilter(
        field_name="created_at", lookup_expr="gte", validators=[_bounded]
    )
    created_before = IsoDateTimeFilter(
        field_name="created_at", lookup_expr="lt", validators=[_bounded]
    )

    finished_after = IsoDateTimeFilter(
        field_name="finished_at", lookup_expr="gte", validators=[_bounded]
    )
    updated_after = IsoDateTimeFilter(
        method="by_change", validators=[_bounded], help_text="Changed at that instant or later."
    )
    label = LabelsFilter(help_text="Labels as key:value; all have to match.")
    source = CharFilter(field_name="task__source", max_length=60)
    title = CharFilter(
        method="by_words",
        max_length=200,
        validators=[_worded],
        help_text="Words that the title has, all of them, in any order.",
    )
    worker_id = CharFilter(
        method="by_worker",
        max_length=120,
        help_text="The worker of the running attempt, or of the last one.",
    )

    class Meta:
        model = Job
        fields: list[str] = []

    def by_hold(self, jobs: QuerySet[Job], name: str, value: bool) -> QuerySet[Job]:
        held_back = Q(hold_until__gt=Now())
        return jobs.filter(held_back) if value else jobs.exclude(held_back)

    def by_priority(self, jobs: QuerySet[Job], name: str, value: Any) -> QuerySet[Job]:
        return jobs.filter(priority=Priority[value.upper()])

    def by_change(self, jobs: QuerySet[Job], name: str, value: datetime) -> QuerySet[Job]:
        return jobs.alias(changed_at=LAST_CHANGED_AT).filter(changed_at__gte=value)

    def by_words(self, jobs: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        words = SearchQuery(value, config="simple", search_type="plain")
        # Not by a join, which would be an outer one, with the rows that have no title: no index.
        tasks = Task.objects.alias(words=title_words("title")).filter(words=words)
        return jobs.filter(Exists(tasks.filter(job=OuterRef("pk"))))

    def by_worker(self, jobs: QuerySet[Job], name: str, value: str) -> QuerySet[Job]:
        current = Attempt.objects.filter(job=OuterRef("pk"), number=OuterRef("attempt"))
        return jobs.filter(Exists(current.filter(worker_id=value)))
