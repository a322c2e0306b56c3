"""Job types and sources: added and changed by people, never deleted, never senseless."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import IntegrityError, transaction
from django.urls import reverse

from agents.principals import Principal
from governance.core.errors import DomainError, InvalidArgument, InvalidTransition, NotFound
from governance.core.models import AuditEvent
from governance.evidence.trail import verify
from jobs import transitions
from jobs.models import JobType, Source
from jobs.transitions import TypeSettings
from jobs.transitions.job_types import SCHEMA_BYTES_MAX, schema_fault
from tests.console import confirm
from tests.work import ANNA

TEXT = {
    "type": "object",
    "required": ["text"],
    "properties": {"text": {"type": "string"}},
}


def trail(subject: str) -> list[dict[str, Any]]:
    found = AuditEvent.objects.filter(subject=subject).exclude(action="job_type.installed")
    found = found.exclude(action="source.installed").order_by("seq")
    return [json.loads(bytes(event.body)) for event in found]


@contextmanager
def refused(refusal: type[DomainError]) -> Iterator[pytest.ExceptionInfo[DomainError]]:
    """Assert that the block is refused, and changes no type, no source and no trail."""

    def rows() -> list[Any]:
        return [
            list(JobType.objects.order_by("pk").values()),
            list(Source.objects.order_by("pk").values()),
            AuditEvent.objects.count(),
        ]

    before = rows()
    with pytest.raises(DomainError) as caught:
        yield caught
    assert type(caught.value) is refusal, caught.value
    assert rows() == before


class TestANewJobType:
    def test_takes_tasks_for_its_agent_at_once(self, make_job: Any) -> None:
        settings = TypeSettings(agent="hermes", max_attempts=4, inputs_schema=TEXT)

        transitions.register_job_type(name="summary", settings=settings, **ANNA)

        job = make_job(task_type="summary", inputs={"text": "long"})
        assert (job.agent.name, job.max_attempts) == ("hermes", 4)
        [event] = trail("job_type:summary")
        assert (event["action"], event["actor"]) == ("job_type.registered", "user:anna")
        assert event["after"]["inputs_schema"] == TEXT
        assert event["after"]["max_attempts_ceiling"] == 10
        assert verify().whole

    def test_needs_an_agent(self, world: None) -> None:
        with refused(InvalidArgument):
            transitions.register_job_type(name="summary", settings=TypeSettings(), **ANNA)
        with refused(InvalidArgument):
            transitions.register_job_type(
                name="summary", settings=TypeSettings(agent="nobody"), **ANNA
            )

    @pytest.mark.parametrize("name", ["", "Summary", "a b", "-a", "a" * 61, "sum/mary", "ä"])
    def test_has_a_name_that_can_be_written_anywhere(self, world: None, name: str) -> None:
        with refused(InvalidArgument):
            transitions.register_job_type(name=name, settings=TypeSettings(agent="hermes"), **ANNA)

    def test_does_not_replace_another(self, world: None) -> None:
        with refused(InvalidTransition):
            transitions.register_job_type(
                name="rewrite", settings=TypeSettings(agent="hermes"), **ANNA
            )

    def test_needs_a_reason(self, world: None) -> None:
        with refused(InvalidArgument):
            transitions.register_job_type(
                name="summary", settings=TypeSettings(agent="hermes"), actor="user:anna", reason=" "
            )


class TestAJobType:
    def test_changes_for_new_tasks_and_leaves_the_jobs_that_are_there(
        self, make_job: Any, openclaw: Principal
    ) -> None:
        before = make_job()

        transitions.configure_job_type(
            name="content_prep", settings=TypeSettings(agent="openclaw", max_attempts=5), **ANNA
        )

        after = make_job()
        before.refresh_from_db()
        assert (before.agent.name, before.max_attempts) == ("hermes", 3)
        assert (after.agent.name, after.max_attempts) == ("openclaw", 5)
        [event] = trail("job_type:content_prep")
        assert event["action"] == "job_type.configured"
        assert event["before"] == {"agent": "hermes", "max_attempts": 3}
        assert event["after"] == {"agent": "openclaw", "max_attempts": 5}

    def test_that_is_disabled_takes_no_new_tasks(self, make_job: Any) -> None:
        transitions.configure_job_type(
            name="content_prep", settings=TypeSettings(enabled=False), **ANNA
        )

        with pytest.raises(InvalidArgument) as refusal:
            make_job()

        assert [fault.pointer for fault in refusal.value.errors] == ["/task_type"]

    def test_loses_its_attempt_timeout_by_a_zero(self, job_type: Any) -> None:
        job_type("rewrite", attempt_timeout_seconds=60)

        row = transitions.configure_job_type(
            name="rewrite", settings=TypeSettings(attempt_timeout_seconds=0), **ANNA
        )

        assert row.attempt_timeout_seconds is None

    def test_that_would_stay_as_it_is_is_not_changed(self, world: None) -> None:
        with refused(InvalidArgument):
            transitions.configure_job_type(
                name="rewrite", settings=TypeSettings(max_attempts=3, enabled=True), **ANNA
            )
        with refused(NotFound):
            transitions.configure_job_type(
                name="nothing", settings=TypeSettings(max_attempts=4), **ANNA
            )

    @pytest.mark.parametrize(
        ("settings", "pointers"),
        [
            ({"max_attempts": 11}, ["/max_attempts_ceiling"]),
            ({"max_attempts_ceiling": 2}, ["/max_attempts_ceiling"]),
            ({"max_attempts_ceiling": 1001}, ["/max_attempts_ceiling"]),
            ({"max_attempts": 0}, ["/max_attempts"]),
            ({"lease_seconds": 59}, ["/lease_seconds"]),
            ({"lease_seconds": 3601}, ["/lease_seconds"]),
            ({"attempt_timeout_seconds": -1}, ["/attempt_timeout_seconds"]),
            ({"backoff_base_seconds": 3601}, ["/backoff_base_seconds"]),
            ({"approval_valid_seconds": 0}, ["/approval_valid_seconds"]),
            ({"runtime": "a b"}, ["/runtime"]),
            (
                {"lease_seconds": 1, "inputs_schema": {"type": "nonsense"}},
                ["/lease_seconds", "/inputs_schema"],
            ),
        ],
    )
    def test_is_told_every_setting_that_makes_no_sense(
        self, world: None, settings: dict[str, Any], pointers: list[str]
    ) -> None:
        with refused(InvalidArgument) as refusal:
            transitions.configure_job_type(
                name="rewrite", settings=TypeSettings(**settings), **ANNA
            )

        assert [fault.pointer for fault in refusal.value.errors] == pointers


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ([], "JSON object"),
        ({"type": 7}, "no JSON Schema"),
        ({"pattern": "("}, "no JSON Schema"),
        ({"$ref": "https://example.org/schema.json"}, "leads out"),
        ({"properties": {"a": {"$ref": "#/$defs/missing"}}}, "leads nowhere"),
        ({"$ref": "#"}, "never end"),
        ({"const": "a\0b"}, "U+0000"),
        ({"const": float("nan")}, "not JSON"),
        ({"description": "x" * SCHEMA_BYTES_MAX}, "At most"),
    ],
)
def test_a_schema_that_intake_could_not_use_is_refused(schema: Any, told: str) -> None:
    assert told in schema_fault(schema)


def test_a_schema_may_refer_to_itself() -> None:
    tree = {"$defs": {"node": {"items": {"$ref": "#/$defs/node"}}}, "$ref": "#/$defs/node"}

    assert schema_fault(tree) == ""
    assert schema_fault({"$id": "https://example.org/a", **tree}) == ""
    assert schema_fault({}) == ""


class TestASource:
    def test_is_added_disabled_and_enabled(self, make_job: Any) -> None:
        with pytest.raises(InvalidArgument):
            make_job(source="newsletter")

        transitions.register_source(name="newsletter", **ANNA)
        assert make_job(source="newsletter").task.source == "newsletter"
        transitions.configure_source(name="newsletter", enabled=False, **ANNA)

        with pytest.raises(InvalidArgument):
            make_job(source="newsletter")
        assert [event["action"] for event in trail("source:newsletter")] == [
            "source.registered",
            "source.configured",
        ]
        assert verify().whole

    def test_is_refused_where_it_makes_no_sense(self, world: None) -> None:
        with refused(InvalidTransition):
            transitions.register_source(name="manual", **ANNA)
        with refused(InvalidArgument):
            transitions.register_source(name="No Name", **ANNA)
        with refused(InvalidTransition):
            transitions.configure_source(name="manual", enabled=True, **ANNA)
        with refused(NotFound):
            transitions.configure_source(name="nothing", enabled=True, **ANNA)

    def test_is_never_deleted(self, world: None) -> None:
        with pytest.raises(IntegrityError, match="never deleted"), transaction.atomic():
            Source.objects.filter(name="manual").delete()


class TestInTheConsole:
    def test_a_governor_adds_a_type_and_changes_it(self, as_: Any) -> None:
        client = as_("governor")

        confirm(
            client,
            "jobs.jobtype",
            "make",
            "new",
            name="summary",
            agent="hermes",
            model_use="allowed",
            effects="external",
            enabled="yes",
        )
        confirm(
            client, "jobs.jobtype", "configure", "summary", max_attempts="5", model_use="required"
        )
        confirm(client, "jobs.jobtype", "set_schema", "summary", inputs_schema=json.dumps(TEXT))

        row = JobType.objects.get(name="summary")
        assert (row.max_attempts, row.model_use, row.inputs_schema) == (5, "required", TEXT)
        assert {event["actor"] for event in trail("job_type:summary")} == {"user:governor"}
        page = client.get(reverse("admin:jobs_jobtype_change", args=(row.pk,))).content.decode()
        assert "audit chain verified" in page
        assert page.count("job_type.configured") == 2

    def test_the_form_shows_the_schema_that_is_in_force(self, as_: Any, job_type: Any) -> None:
        job_type("rewrite", inputs_schema=TEXT)

        page = as_("governor").get(
            reverse("admin:jobs_jobtype_act", args=("set_schema",)), {"key": "rewrite"}
        )

        assert "required" in page.content.decode()
        assert page.context["fields"].initial == {"inputs_schema": TEXT}

    def test_a_senseless_schema_is_told_at_its_field(self, as_: Any) -> None:
        page = confirm(
            as_("governor"), "jobs.jobtype", "set_schema", "rewrite", inputs_schema='{"type": 7}'
        )

        assert page.status_code == 422
        assert "It is no JSON Schema" in page.content.decode()
        assert trail("job_type:rewrite") == []

    def test_a_governor_adds_a_source_and_disables_it(self, as_: Any) -> None:
        client = as_("governor")

        confirm(client, "jobs.source", "make", "new", name="newsletter")
        confirm(client, "jobs.source", "disable", "newsletter")

        assert Source.objects.get(name="newsletter").enabled is False

    @pytest.mark.parametrize("group", ["viewer", "operator", "approver"])
    def test_nobody_else_is_let(self, as_: Any, group: str) -> None:
        client = as_(group)

        for model, act in (("jobtype", "make"), ("jobtype", "configure"), ("source", "disable")):
            url = reverse(f"admin:jobs_{model}_act", args=(act,))
            assert client.get(url, {"key": "rewrite"}).status_code == 403
            assert client.post(url, {}).status_code == 403
        assert not trail("job_type:rewrite")


class TestAtAShell:
    def test_a_type_is_added_and_changed(self, world: None, tmp_path: Path) -> None:
        schema, out = tmp_path / "schema.json", StringIO()
        schema.write_text(json.dumps(TEXT))
        why = ("--reason", "as agreed", "--actor", "command:anna", "--json")

        call_command("configure_job_type", "summary", "--register", "--agent", "hermes", *why,
                     stdout=StringIO())  # fmt: skip
        call_command("configure_job_type", "summary", "--inputs-schema", str(schema),
                     "--lease-seconds", "600", *why, stdout=out)  # fmt: skip

        told = json.loads(out.getvalue())
        assert (told["agent"], told["lease_seconds"], told["inputs_schema"]) == (
            "hermes",
            600,
            TEXT,
        )
        assert [event["actor"] for event in trail("job_type:summary")] == ["command:anna"] * 2

    def test_a_source_is_added_and_disabled(self, world: None) -> None:
        call_command("configure_source", "newsletter", "--register", "--reason", "x")
        call_command("configure_source", "newsletter", "--no-enabled", "--reason", "x")

        assert Source.objects.get(name="newsletter").enabled is False

    @pytest.mark.parametrize(
        "command",
        [
            ("configure_job_type", "rewrite", "--max-attempts", "0", "--reason", "x"),
            ("configure_job_type", "rewrite", "--inputs-schema", "/no/such", "--reason", "x"),
            ("configure_job_type", "rewrite", "--max-attempts", "4"),
            ("configure_source", "manual", "--reason", "x"),
        ],
    )
    def test_what_is_wrong_is_refused_with_words(self, world: None, command: Any) -> None:
        before = AuditEvent.objects.count()

        with pytest.raises(CommandError):
            call_command(*command, stdout=StringIO())

        assert AuditEvent.objects.count() == before
