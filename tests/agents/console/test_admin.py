"""The console's pages of agents: admission, inhibits, cells, credentials, and who may act."""

from __future__ import annotations

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from agents.models import (
    Agent,
    Credential,
    Fleet,
    MaintenanceInhibit,
    RuntimeSwitch,
    Session,
    Submitter,
)
from agents.principals import identify
from agents.transitions import inhibits
from governance.console.models import BulkItem, BulkRun
from governance.core import clock, verbs
from governance.core.models import AuditEvent
from tests import console
from tests.console import token_in

MODELS = (
    "agents.agent", "agents.fleet", "agents.maintenanceinhibit", "agents.runtimeswitch",
    "agents.session", "agents.credential",
)  # fmt: skip


def confirm(client: Client, model: str, act: str, key: Any, /, **fields: Any) -> Any:
    return console.confirm(client, f"agents.{model}", act, key, **fields)


def outcome() -> str:
    return BulkItem.objects.latest("id").outcome


@pytest.mark.parametrize(
    ("name", "state"), [("drain", "draining"), ("close", "closed"), ("open", "open")]
)
def test_admission_is_set_with_a_reason(as_: Any, name: str, state: str) -> None:
    client = as_("operator")
    if state == "open":
        confirm(client, "agent", "close", "hermes")
    before = Agent.objects.get(name="hermes").admission_generation

    confirm(client, "agent", name, "hermes")

    agent = Agent.objects.get(name="hermes")
    assert (agent.admission, agent.admission_generation) == (state, before + 1)
    event = AuditEvent.objects.filter(subject="agent:hermes").latest("seq")
    assert (event.actor, event.reason) == ("user:operator", "as agreed")


def test_an_inhibit_is_shown_on_every_page_until_it_is_lifted(as_: Any) -> None:
    client = as_("operator")
    confirm(client, "fleet", "inhibit_all", 1, minutes=30)
    row = MaintenanceInhibit.objects.get()

    assert "no new work for the whole fleet" in client.get("/admin/inbox/").content.decode()
    assert row.ends_at is not None
    assert round((row.ends_at - row.starts_at).total_seconds()) == 1800

    confirm(client, "maintenanceinhibit", "lift", row.pk)
    assert "no new work for" not in client.get("/admin/inbox/").content.decode()


def test_an_endless_inhibit_waits_in_the_inbox(as_: Any) -> None:
    inhibits.inhibit(agent="hermes", actor="user:bo", reason="new disks")

    inbox = as_("viewer").get("/admin/inbox/").content.decode()

    assert "inhibit of hermes: new disks" in inbox


def test_the_epoch_is_rotated_by_a_governor_only(as_: Any) -> None:
    before = Fleet.objects.get().dispatcher_epoch
    url = reverse("admin:agents_fleet_act", args=("rotate_epoch",))

    assert as_("operator").get(url, {"key": "1"}).status_code == 403
    confirm(as_("governor"), "fleet", "rotate_epoch", 1)

    assert Fleet.objects.get().dispatcher_epoch != before


def test_a_runtime_switch_is_begun_goes_on_and_is_given_up(as_: Any) -> None:
    client = as_("governor")
    confirm(client, "agent", "switch_runtime", "hermes", runtime="http")
    switch = RuntimeSwitch.objects.get()
    assert (switch.state, switch.to_runtime) == ("running", "http")

    confirm(client, "runtimeswitch", "advance", switch.pk)
    switch.refresh_from_db()
    assert switch.step == "fresh"
    assert "it waits for every worker of hermes" in BulkItem.objects.latest("id").detail

    confirm(client, "runtimeswitch", "give_up", switch.pk)
    switch.refresh_from_db()
    assert (switch.state, switch.error) == ("failed", "as agreed")
    assert switch.inhibit.lifted_at is None


def test_a_pending_cell_is_approved(as_: Any) -> None:
    agent = Agent.objects.get(name="hermes")
    session = Session.objects.create(
        session_id="01a22860-5a8d-71d0-a848-8d11d33ca3ea", agent=agent, kind="activated",
        state="pending", cell_id="cell-7", boot_id="b1", dispatcher_epoch=agent_epoch(),
        created_at=clock.now(),
    )  # fmt: skip
    client = as_("governor")
    assert "cell cell-7" in client.get("/admin/inbox/").content.decode()

    confirm(client, "session", "approve_cell", session.session_id)

    session.refresh_from_db()
    assert session.state == "current"
    client.get("/admin/inbox/")  # shows and so drops the message of the act
    assert "cell cell-7" not in client.get("/admin/inbox/").content.decode()


def test_a_cell_is_released_by_a_governor_only(as_: Any) -> None:
    agent = Agent.objects.get(name="hermes")
    session = Session.objects.create(
        session_id="01a22860-5a8d-71d0-a848-8d11d33ca3eb", agent=agent, kind="activated",
        state="current", cell_id="cell-7", boot_id="b1", dispatcher_epoch=agent_epoch(),
        lineage="01a22860-5a8d-71d0-a848-8d11d33ca3ec", certificate_sha256="ab" * 32,
        created_at=clock.now(),
    )  # fmt: skip
    page = reverse("admin:agents_session_change", args=(session.pk,))
    assert "Release the cell" not in as_("operator").get(page).content.decode()
    client = as_("governor")
    shown = client.get(page).content.decode()
    for text in ("Release the cell", str(session.lineage), "ab" * 32):
        assert text in shown

    confirm(client, "session", "release_cell", session.session_id)

    session.refresh_from_db()
    assert session.state == "superseded"


def agent_epoch() -> Any:
    return Fleet.objects.get().dispatcher_epoch


def new_credential(client: Client, **over: Any) -> Any:
    url = reverse("admin:agents_credential_new", args=("agent", "hermes"))
    page = client.get(url)
    asked = {
        "selection": token_in(page), "reason": "as agreed", "scopes": ["work"], "expires_days": 30,
    }  # fmt: skip
    return client.post(url, asked | over), url, asked


def token_shown(page: Any) -> str:
    found = re.search(r'aria-label="token">(fp_[^<]+)<', page.content.decode())
    assert found is not None
    return found.group(1)


def test_a_token_is_shown_once_and_works(as_: Any) -> None:
    client = as_("governor")

    page, url, asked = new_credential(client)
    again = client.post(url, asked, follow=True)

    principal = identify(token=token_shown(page))
    assert (principal.text, principal.scopes) == ("agent:hermes", frozenset({"work"}))
    assert "no-store" in page["Cache-Control"]
    assert "fp_" not in again.content.decode()
    assert Credential.objects.count() == 1
    stored = str(list(BulkRun.objects.values())) + str(list(BulkItem.objects.values()))
    assert token_shown(page) not in stored


def test_a_credential_is_rotated_and_revoked(as_: Any) -> None:
    client = as_("governor")
    page, _, _ = new_credential(client)
    old = Credential.objects.get()
    url = reverse("admin:agents_credential_rotate", args=(old.prefix,))
    rotated = client.post(
        url,
        {"selection": token_in(client.get(url)), "reason": "as agreed", "overlap_seconds": 60},
    )
    assert identify(token=token_shown(page)).name == "hermes"
    assert identify(token=token_shown(rotated)).name == "hermes"

    confirm(client, "credential", "revoke", old.prefix)

    old.refresh_from_db()
    assert old.revoked_by == "user:governor"


@pytest.mark.parametrize("group", ["viewer", "operator", "approver"])
def test_only_governors_make_credentials(as_: Any, group: str) -> None:
    client = as_(group)

    for url in (
        reverse("admin:agents_credential_new", args=("agent", "hermes")),
        reverse("admin:agents_credential_new", args=("submitter", "ops")),
    ):
        assert client.get(url).status_code in {403, 404}
        assert client.post(url, {"reason": "x"}).status_code in {403, 404}
    assert Credential.objects.count() == 0


def test_a_viewer_sees_the_fleet_and_may_do_nothing_to_it(as_: Any) -> None:
    client = as_("viewer")
    agent = Agent.objects.get(name="hermes")
    before = AuditEvent.objects.count()

    page = client.get(reverse("admin:agents_agent_change", args=(agent.pk,))).content.decode()

    assert "audit chain verified" in page
    assert "/act/" not in page
    for model in MODELS:
        name = model.partition(".")[2]
        for verb in verbs.on(model):
            url = reverse(f"admin:agents_{name}_act", args=(verb.name,))
            assert client.get(url, {"key": "1"}).status_code == 403
            assert client.post(url, {"selection": "x", "reason": "x"}).status_code == 403
    assert AuditEvent.objects.count() == before


def test_an_agent_is_registered_and_its_settings_changed(as_: Any) -> None:
    client = as_("governor")
    confirm(client, "agent", "make", "new", name="scribe", max_risk_tier="low")

    confirm(client, "agent", "configure", "scribe", approve_cells="yes", fresh_seconds=30)

    agent = Agent.objects.get(name="scribe")
    assert (agent.approve_cells, agent.fresh_seconds, agent.enabled) == (True, 30, True)
    confirm(client, "agent", "configure", "scribe", enabled="no")
    agent.refresh_from_db()
    assert (agent.enabled, agent.approve_cells) == (False, True)


def test_a_submitter_is_registered_with_who_answers_for_it(as_: Any) -> None:
    confirm(as_("governor"), "submitter", "make", "new", name="crm", owner="governor")

    owner = Submitter.objects.get(name="crm").owner
    assert owner is not None and owner.get_username() == "governor"


def test_an_act_on_a_row_that_does_not_exist_says_so(as_: Any) -> None:
    confirm(as_("operator"), "agent", "close", "nobody")

    assert outcome() == "failed"


def test_an_act_names_its_row_as_people_do(as_: Any) -> None:
    client, fleet = as_("governor"), Fleet.objects.get()
    url = reverse("admin:agents_fleet_act", args=("rotate_epoch",))
    page = client.get(url, {"key": str(fleet.pk)})
    assert ">fleet</a>" in page.content.decode()

    done = client.get(confirm(client, "fleet", "rotate_epoch", fleet.pk).url)

    assert "Rotate the epoch: fleet: the epoch is" in done.content.decode()
