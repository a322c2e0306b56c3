"""Agents are entered into the books and configured."""

from __future__ import annotations

import io
import json

import pytest
from django.core.management import CommandError, call_command

from agents.models import Agent, Submitter
from agents.transitions.principals import (
    Settings,
    configure_agent,
    register_agent,
    register_submitter,
)
from governance.core.errors import InvalidArgument, NotFound
from governance.core.models import AuditEvent

BY = {"actor": "user:anna", "reason": "policy"}


def test_a_changed_setting_is_an_event_with_before_and_after(world):
    configure_agent(name="hermes", settings=Settings(approve_cells=True), **BY)
    assert Agent.objects.get(name="hermes").approve_cells
    event = AuditEvent.objects.get(action="agent.configured")
    told = json.loads(bytes(event.body))
    assert (told["before"], told["after"]) == ({"approve_cells": False}, {"approve_cells": True})


@pytest.mark.parametrize(
    ("name", "settings", "refusal"),
    [
        ("nobody", Settings(expected=False), NotFound),
        ("hermes", Settings(), InvalidArgument),
        ("hermes", Settings(expected=True), InvalidArgument),
        ("hermes", Settings(max_risk_tier="extreme"), InvalidArgument),
        ("hermes", Settings(fresh_seconds=0), InvalidArgument),
        ("hermes", Settings(fresh_seconds=600), InvalidArgument),
        ("hermes", Settings(stale_seconds=10**6), InvalidArgument),
        ("hermes", Settings(workers_expected=0), InvalidArgument),
        ("hermes", Settings(workers_expected=1001), InvalidArgument),
    ],
)
def test_a_setting_that_makes_no_sense_is_refused(world, name, settings, refusal):
    before = (list(Agent.objects.values()), AuditEvent.objects.count())
    with pytest.raises(refusal):
        configure_agent(name=name, settings=settings, **BY)
    assert (list(Agent.objects.values()), AuditEvent.objects.count()) == before


def run(*command):
    out = io.StringIO()
    call_command("configure_agent", *command, "--reason", "x", "--json", stdout=out)
    return json.loads(out.getvalue())


def test_the_command_enters_and_configures(world):
    told = run("apollo", "--register", "--no-expected", "--max-risk-tier", "low")
    assert (told["expected"], told["max_risk_tier"]) == (False, "low")
    assert Agent.objects.get(name="apollo").enabled
    assert run("apollo", "--register") == {"agent": "apollo"}
    with pytest.raises(CommandError):
        run("apollo", "--no-expected")


@pytest.mark.parametrize("register", [register_agent, register_submitter])
@pytest.mark.parametrize("name", ["", "a b", "her\u202emes", "hermes\n", "a/b", "ä", "x" * 61])
def test_a_name_is_made_of_plain_letters(world, register, name):
    before = (Agent.objects.count(), Submitter.objects.count(), AuditEvent.objects.count())

    with pytest.raises(InvalidArgument) as refusal:
        register(name=name, **BY)

    assert [fault.pointer for fault in refusal.value.errors] == ["/name"]
    assert before == (Agent.objects.count(), Submitter.objects.count(), AuditEvent.objects.count())
