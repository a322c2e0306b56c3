"""What lists of jobs can be narrowed by, as the API takes it."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from django import forms
from django.core.exceptions import ValidationError
from django.db.models import Q, QuerySet
from django.db.models.functions import Now
from django_filters import BooleanFilter, CharFilter, ChoiceFilter, FilterSet, IsoDateTimeFilter

from agents.models import RiskTier
from governance.core.fields import INSTANT_BOUNDS, bounded
from jobs.models import Job, Priority


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


def _bounded(at: datetime) -> None:
    if not bounded(at):
        raise ValidationError(f"It must be {INSTANT_BOUNDS}.")


class JobFilter(FilterSet):
    """Filters of jobs.

    Served by job_by_state_idx, job_by_agent_idx, job_by_submitter_idx and job_hold_idx.
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

    class Meta:
        model = Job
        fields: list[str] = []

    def by_hold(self, jobs: QuerySet[Job], name: str, value: bool) -> QuerySet[Job]:
        held_back = Q(hold_until__gt=Now())
        return jobs.filter(held_back) if value else jobs.exclude(held_back)

    def by_priority(self, jobs: QuerySet[Job], name: str, value: Any) -> QuerySet[Job]:
        return jobs.filter(priority=Priority[value.upper()])
