from __future__ import annotations

import io
import json
from datetime import timedelta

import pytest
from django.contrib.auth import authenticate
from django.contrib.auth.models import Group
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from agents.models import Agent, Credential, Submitter
from agents.principals import identify
from agents.transitions import credentials
from governance.core import permissions
from governance.core.errors import (
    ClientCertificateMismatch,
    InvalidArgument,
    InvalidTransition,
    NotFound,
    PermissionDenied,
    Unauthenticated,
)
from governance.core.models import AuditEvent
from jobs import bootstrap
from jobs.models import JobType

BY = {"actor": "user:anna", "reason": "rotation day"}


def prefix_of(token: str) -> str:
    return token.removeprefix("fp_").partition(".")[0]


def events_of(subject: str) -> list[str]:
    return list(
        AuditEvent.objects.filter(subject=subject).order_by("seq").values_list("action", flat=True)
    )


def test_a_token_names_its_agent_and_its_scopes(hermes_token):
    principal = identify(token=hermes_token)

    assert principal.text == "agent:hermes"
    assert principal.id == Agent.objects.get(name="hermes").pk
    assert principal.scopes == {"work", "read", "admit"}
    assert hermes_token.startswith("fp_")
    assert Credential.objects.filter(hashed_key__contains=hermes_token).count() == 0


def test_a_submitter_names_the_person_who_answers_for_it(issue, django_user_model):
    token = issue(submitter="ops")
    anna = django_user_model.objects.create_user("anna")
    Submitter.objects.filter(name="ops").update(owner=anna)

    principal = identify(token=token)

    assert (principal.text, principal.requested_by) == ("submitter:ops", "anna")
    assert principal.scopes == {"submit", "read"}


def test_a_known_token_costs_one_round_trip(hermes_token):
    identify(token=hermes_token)
    with CaptureQueriesContext(
        connection,
    ) as queries:
        identify(token=hermes_token)
    assert len(queries) == 1


def test_use_is_noted_once_a_minute(hermes_token):
    identify(token=hermes_token)
    first = Credential.objects.get(prefix=prefix_of(hermes_token)).last_used_at
    identify(token=hermes_token)
    row = Credential.objects.get(prefix=prefix_of(hermes_token))
    assert first is not None
    assert row.last_used_at == first
    row.last_used_at = first - timedelta(seconds=61)
    row.save()
    identify(token=hermes_token)
    assert Credential.objects.get(pk=row.pk).last_used_at > first


@pytest.mark.django_db(transaction=True)
def test_noting_the_use_waits_for_nobody(hermes_token, on_other_connection):
    from django.db import transaction

    with transaction.atomic():
        Credential.objects.select_for_update().get(prefix=prefix_of(hermes_token))
        assert on_other_connection(identify, token=hermes_token).name == "hermes"


@pytest.mark.parametrize(
    "spoil",
    [
        lambda token: "",
        lambda token: token[:-1] + ("a" if token[-1] != "a" else "b"),
        lambda token: token.removeprefix("fp_"),
        lambda token: "fp_" + "x" * 12 + "." + "y" * 43,
        lambda token: "fp_nothing",
        lambda token: token + "\x00",
        lambda token: token.replace(".", "\u00e4"),
    ],
)
def test_a_token_that_is_not_exactly_right_is_refused(hermes_token, spoil):
    with pytest.raises(Unauthenticated):
        identify(token=spoil(hermes_token))


def test_an_expired_token_is_refused(hermes_token):
    row = Credential.objects.get(prefix=prefix_of(hermes_token))
    row.expires_at = row.created_at
    row.save()
    with pytest.raises(Unauthenticated, match="expired"):
        identify(token=hermes_token)


def test_the_token_of_a_disabled_agent_is_refused(hermes_token):
    Agent.objects.filter(name="hermes").update(enabled=False)
    with pytest.raises(PermissionDenied):
        identify(token=hermes_token)


def test_a_bound_credential_needs_its_certificate(issue):
    token = issue(agent="hermes", certificate_sha256="AB:" * 31 + "CD")

    assert identify(token=token, certificate_sha256="ab" * 31 + "cd").name == "hermes"
    for other in ("", "ab" * 32):
        with pytest.raises(ClientCertificateMismatch):
            identify(token=token, certificate_sha256=other)


def test_a_scope_that_the_credential_lacks_is_refused(issue):
    principal = identify(token=issue(agent="hermes", scopes=["read"]))
    principal.require("read")
    with pytest.raises(PermissionDenied):
        principal.require("work")


def test_revoking_ends_a_token_at_once_and_for_ever(hermes_token):
    prefix = prefix_of(hermes_token)
    credentials.revoke(prefix=prefix, **BY)

    with pytest.raises(Unauthenticated, match="revoked"):
        identify(token=hermes_token)
    before = events_of("agent:hermes")
    revoked_at = Credential.objects.get(prefix=prefix).revoked_at
    for again in (credentials.revoke, credentials.rotate):
        with pytest.raises(InvalidTransition, match="revoked already") as refused:
            again(prefix=prefix, **BY)
        assert refused.value.effect == "none"
    with pytest.raises(CommandError, match=r"^It is revoked already\. \(INVALID_TRANSITION\)$"):
        run("revoke_credential", prefix, "--reason", "due")
    assert events_of("agent:hermes") == before
    assert before[-1] == "credential.revoked"
    assert Credential.objects.get(prefix=prefix).revoked_at == revoked_at


def test_rotation_leaves_the_old_token_until_the_overlap_has_passed(issue):
    token = issue(agent="hermes", scopes=["work"], certificate_sha256="ab" * 32)
    issued = credentials.rotate(prefix=prefix_of(token), overlap_seconds=60, **BY)

    with_it = {"certificate_sha256": "ab" * 32}
    assert identify(token=token, **with_it).name == "hermes"
    assert identify(token=issued.token, **with_it).scopes == {"work"}
    old = Credential.objects.get(prefix=prefix_of(token))
    assert old.expires_at - issued.credential.created_at == timedelta(seconds=60)
    assert events_of("agent:hermes")[-1] == "credential.rotated"


def test_rotation_without_an_overlap_ends_the_old_token(hermes_token):
    credentials.rotate(prefix=prefix_of(hermes_token), overlap_seconds=0, **BY)
    with pytest.raises(Unauthenticated, match="expired"):
        identify(token=hermes_token)


@pytest.mark.parametrize(
    ("asked", "refusal"),
    [
        ({"agent": "nobody"}, NotFound),
        ({"agent": "hermes", "submitter": "ops"}, InvalidArgument),
        ({}, InvalidArgument),
        ({"agent": "hermes", "scopes": ["submit"]}, InvalidArgument),
        ({"agent": "hermes", "scopes": []}, InvalidArgument),
        ({"agent": "hermes", "expires_days": 0}, InvalidArgument),
        ({"agent": "hermes", "certificate_sha256": "zz"}, InvalidArgument),
        ({"agent": "hermes", "reason": "  "}, InvalidArgument),
    ],
)
def test_a_credential_that_makes_no_sense_is_not_made(world, asked, refusal):
    before = (Credential.objects.count(), AuditEvent.objects.count())
    with pytest.raises(refusal):
        credentials.create(**(BY | asked))
    assert (Credential.objects.count(), AuditEvent.objects.count()) == before


def run(*command: str) -> dict:
    out = io.StringIO()
    call_command(*command, "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_commands_print_the_token_once(world):
    made = run("create_credential", "hermes")
    assert identify(token=made["token"]).text == "agent:hermes"

    made = run("create_credential", "--submitter", "ops", "--scopes", "submit,control")
    assert identify(token=made["token"]).scopes == {"submit", "control"}

    rotated = run("rotate_credential", made["prefix"], "--reason", "due")
    run("revoke_credential", made["prefix"], "--reason", "due")
    assert identify(token=rotated["token"]).text == "submitter:ops"
    with pytest.raises(Unauthenticated):
        identify(token=made["token"])


def test_a_refused_command_is_one_line(world):
    with pytest.raises(CommandError, match=r"There is no agent nobody. \(NOT_FOUND\)"):
        run("create_credential", "nobody")


def test_an_operator_gets_a_password_and_the_verbs_of_the_group(world, django_user_model):
    made = run("create_operator", "anna", "--group", "approver")

    anna = authenticate(None, username="anna", password=made["password"]) or (
        django_user_model.objects.get(username="anna")
    )
    assert anna.check_password(made["password"])
    assert anna.is_staff and not anna.is_superuser
    assert anna.has_perm("agents.approve_execution")
    assert not anna.has_perm("agents.stop_job")
    assert anna.has_perm("jobs.view_job")
    assert not anna.has_perm("jobs.change_job")
    with pytest.raises(CommandError, match="already"):
        run("create_operator", "anna", "--group", "approver")
    again = run("create_operator", "anna", "--reset-password")
    assert django_user_model.objects.get(username="anna").check_password(again["password"])
    assert events_of("fleet") == [
        "fleet.installed",
        "operator.created",
        "operator.password_reset",
    ]


def test_the_groups_hold_the_verbs_of_the_table(world):
    declared = {permission.codename for permission in permissions.declared()}
    for name in permissions.GROUPS:
        held = set(Group.objects.get(name=name).permissions.values_list("codename", flat=True))
        assert held & declared == permissions.held_by(name)
        assert not any(codename.startswith(("add_", "change_", "delete_")) for codename in held)


def test_installing_twice_changes_nothing(world):
    before = (AuditEvent.objects.count(), JobType.objects.count(), Agent.objects.count())
    bootstrap.install()
    assert (AuditEvent.objects.count(), JobType.objects.count(), Agent.objects.count()) == before
    assert JobType.objects.get(name="implementation").agent.max_risk_tier == "high"
