"""Reflections, which are workers' notes on jobs, and skills: the patterns that recur in them."""

from __future__ import annotations

from django.db import models
from django.db.models import Q

from agents.models import Agent
from jobs.models.jobs import Job


class Reflection(models.Model):
    """A worker's note on a job: numbered per job, append-only."""

    job = models.ForeignKey(Job, models.PROTECT, related_name="reflections", db_index=False)
    number = models.PositiveIntegerField()
    attempt = models.PositiveIntegerField()
    agent = models.ForeignKey(Agent, models.PROTECT, related_name="reflections")
    what_worked = models.TextField(blank=True)
    what_failed = models.TextField(blank=True)
    pattern_observed = models.TextField(blank=True)
    context_type = models.CharField(max_length=100, blank=True)
    tool_sequence = models.JSONField(default=list)
    success_signal = models.TextField(blank=True)
    failure_signal = models.TextField(blank=True)
    sensitivity_level = models.CharField(max_length=20, default="internal")
    content_sha256 = models.CharField(max_length=64)
    created_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["job", "number"], name="reflection_number_once"),
            models.CheckConstraint(condition=Q(number__gte=1), name="reflection_counts_from_1"),
        ]

    def __str__(self) -> str:
        return f"reflection {self.number} of job {self.job_id}"


class Skill(models.Model):
    """A pattern that recurred in reflections of an agent, with how well it served since.

    `confidence` is in [0, 1].
    """

    agent = models.ForeignKey(Agent, models.PROTECT, related_name="skills")
    task_type = models.CharField(max_length=60)
    context_type = models.CharField(max_length=100, blank=True)
    pattern = models.TextField()
    pattern_sha256 = models.CharField(max_length=64)
    tool_sequence = models.JSONField(default=list)
    occurrences = models.PositiveIntegerField()
    successes = models.PositiveIntegerField(default=0)
    failures = models.PositiveIntegerField(default=0)
    confidence = models.FloatField()
    created_at = models.DateTimeField()
    updated_at = models.DateTimeField()

    class Meta:
        constraints = [
            models.UniqueConstraint(
                fields=["agent", "task_type", "context_type", "pattern_sha256"],
                name="skill_pattern_once",
            ),
            models.CheckConstraint(
                condition=Q(confidence__gte=0, confidence__lte=1),
                name="skill_confidence_is_share",
            ),
        ]
        indexes = [
            models.Index(
                fields=["task_type", "context_type", "-confidence"],
                name="skill_find_idx",
            )
        ]

    def __str__(self) -> str:
        return self.pattern[:60]
