"""The check-up of a worker: what would keep it from working, one line for each thing.

Nothing is claimed, activated or reserved; of providers only their lists of models are asked for.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import quote

import httpx2

from fencepost_worker import durable
from fencepost_worker.adapters.command import ProgramMissing, resolved_program
from fencepost_worker.asking import NO_PROVIDERS, REQUIRED
from fencepost_worker.assembly import confinement_of, network_of, pinned_keys, providers_of
from fencepost_worker.client import PROTOCOL_VERSION
from fencepost_worker.confinement import close_memory
from fencepost_worker.gateway.faces import Face
from fencepost_worker.gateway.providers import KeyMissing, Provider, Providers
from fencepost_worker.network import Network, cause
from fencepost_worker.options import Unusable

ANSWER_TIMEOUT_SECONDS = 10.0
#: A clock that is further off makes keys and times that others do not take.
CLOCK_SKEW_SECONDS_MAX = 5.0
OK, DOUBT, WRONG = "ok", "doubt", "wrong"
ANTHROPIC_VERSION = "2023-06-01"
KEY_REFUSED_STATUSES = frozenset({401, 403})


@dataclass(frozen=True)
class Finding:
    """What was found of one thing: `ok`, `doubt` where it cannot be told, or `wrong`."""

    subject: str
    state: str
    detail: str

    @property
    def line(self) -> str:
        """Return it as a line for a person."""
        return f"{self.state:5}  {self.subject}: {self.detail}"


def check(options: argparse.Namespace) -> tuple[str, int]:
    """Return what was found, as lines or as JSON, and the exit code: 1 where something is wrong."""
    found = list(findings(options))
    wrong = any(each.state == WRONG for each in found)
    if options.json:
        document = {"usable": not wrong, "findings": [asdict(each) for each in found]}
        return json.dumps(document, indent=2), int(wrong)
    return "\n".join(each.line for each in found), int(wrong)


def findings(options: argparse.Namespace) -> Iterator[Finding]:
    """Yield what is found of this machine, of the control plane and of the providers."""
    yield from _machine(options)
    try:
        providers = providers_of(options)
    except Unusable as error:
        yield Finding("providers", WRONG, str(error))
        providers = Providers()
    try:
        network = network_of(options)
    except Unusable as error:
        yield Finding("certificates", WRONG, str(error))
        network = Network()
    with network.client(timeout=ANSWER_TIMEOUT_SECONDS) as http:
        types: list[dict[str, Any]] = []
        yield from _plane(http, options, types)
        listed: dict[str, set[str] | None] = {}
        for provider in providers:
            finding, models = _provider(http, provider)
            listed[provider.name] = models
            yield finding
    for job_type in types:
        yield from _job_type(job_type, providers, listed)


# This machine -------------------------------------------------------------------------------------


def _machine(options: argparse.Namespace) -> Iterator[Finding]:
    if options.runtime == "command":
        try:
            yield Finding("program", OK, resolved_program(options.program)[0])
        except ProgramMissing as error:
            yield Finding("program", WRONG, str(error))
        yield from _confined(options)
    try:
        pinned_keys(options.trusted_keys)
        yield _folder(options.data)
    except Unusable as error:
        yield Finding("trusted keys", WRONG, str(error))


def _confined(options: argparse.Namespace) -> Iterator[Finding]:
    try:
        confinement = confinement_of(options, Providers())
    except Unusable as error:
        yield Finding("programs", WRONG, str(error))
        return
    if confinement.account is not None:
        yield Finding("programs", OK, f"run as {confinement.account.name}")
    elif close_memory():
        detail = "run as this account: they can read its files, and not the worker's memory"
        yield Finding("programs", DOUBT, f"{detail}; --run-as parts them")
    else:
        yield Finding("programs", DOUBT, "run as this account, and can read all that it can")
    detail = "a program that brings a key of its own goes around the gateway, where traffic may"
    yield Finding("outgoing traffic", DOUBT, f"is not the worker's to hold: {detail}")


def _folder(data: Path) -> Finding:
    existing = next(path for path in (data.resolve(), *data.resolve().parents) if path.exists())
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        return Finding("data folder", WRONG, f"{existing} cannot be written to")
    if (data / "lock").exists():
        try:
            durable.FolderLock(data.resolve()).release()
        except durable.FolderBusy:
            return Finding("data folder", DOUBT, f"a worker runs on {data}")
        except OSError as error:
            return Finding("data folder", WRONG, f"{data}: {error.strerror}")
    return Finding("data folder", OK, str(data))


# The control plane --------------------------------------------------------------------------------


def _plane(
    http: httpx2.Client, options: argparse.Namespace, types: list[dict[str, Any]]
) -> Iterator[Finding]:
    """Yield what is found of the control plane; put the agent's types into `types`."""
    base = options.url.rstrip("/")
    try:
        answer = http.get(f"{base}/.well-known/fencepost/keys.json")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        yield Finding("control plane", WRONG, cause(error, base))
        return
    if answer.status_code != 200:
        detail = f"{base} answers {answer.status_code}, and is no control plane"
        yield Finding("control plane", WRONG, detail)
        return
    yield Finding("control plane", OK, f"{base} answers")
    yield _clock(answer)
    try:
        token = options.token or options.token_file.read_text().strip()
    except (AttributeError, OSError):
        yield Finding("token", WRONG, "none is given, or its file cannot be read")
        return
    headers = {"Authorization": f"Bearer {token}", "Fencepost-Protocol": PROTOCOL_VERSION}
    agent = f"{base}/v1/agents/{quote(options.agent, safe='')}"
    try:
        answer = http.get(f"{agent}/bootstrap", headers=headers)
        document = _object(answer)
        yield _token(options.agent, answer, document)
        if answer.status_code != 200:
            return
        yield _standing(document)
        types += [row for row in document.get("job_types") or [] if isinstance(row, dict)]
        status = http.get(f"{agent}/status", headers=headers)
        yield _session(options, document, status)
    except httpx2.HTTPError as error:
        yield Finding("control plane", WRONG, cause(error, base))


def _clock(answer: httpx2.Response) -> Finding:
    try:
        theirs = parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, TypeError, ValueError):
        return Finding("clock", DOUBT, "the control plane does not say what time it is")
    # Its second has begun up to a second ago.
    skew = (datetime.now(UTC) - theirs).total_seconds() - 0.5
    if abs(skew) > CLOCK_SKEW_SECONDS_MAX:
        where = "ahead of" if skew > 0 else "behind"
        return Finding("clock", WRONG, f"{abs(skew):.0f} s {where} the control plane's")
    return Finding("clock", OK, "as the control plane's")


def _token(agent: str, answer: httpx2.Response, document: Mapping[str, Any]) -> Finding:
    if answer.status_code == 200:
        return Finding("token", OK, f"is the agent {agent}'s")
    detail = document.get("detail") or document.get("title") or f"status {answer.status_code}"
    if answer.status_code == 401:
        detail = f"is not accepted: {detail}"
    elif answer.status_code in (403, 404):
        detail = f"is not one of the agent {agent}: {detail}"
    return Finding("token", WRONG, str(detail))


def _standing(document: Mapping[str, Any]) -> Finding:
    admission = document.get("admission")
    state = admission.get("state") if isinstance(admission, dict) else None
    if document.get("inhibit"):
        return Finding("agent", DOUBT, "maintenance holds its work back")
    if state not in (None, "open"):
        return Finding("agent", DOUBT, f"its admission is {state}: it gets no new work")
    return Finding("agent", OK, "is open for work")


def _session(
    options: argparse.Namespace, bootstrap: Mapping[str, Any], status: httpx2.Response
) -> Finding:
    sessions = _object(status).get("sessions")
    cells = {
        row.get("cell_id"): row.get("state")
        for row in (sessions if isinstance(sessions, list) else [])
        if isinstance(row, dict)
    }
    cell = options.cell_id
    if cells.get(cell) == "pending":
        return Finding("session", WRONG, f"the cell {cell} waits for an operator's approval")
    if cell and cells.get(cell) == "current":
        return Finding("session", OK, f"the cell {cell} has one")
    if bootstrap.get("cells_need_approval"):
        return Finding("session", DOUBT, "a new cell waits until an operator approves it")
    return Finding("session", OK, "none is needed before it starts")


# Providers ----------------------------------------------------------------------------------------


def _provider(http: httpx2.Client, provider: Provider) -> tuple[Finding, set[str] | None]:
    """Return what is found of a provider, and the models that it lists, where it does."""
    subject = f"provider {provider.name}"
    try:
        headers = provider.headers()
    except KeyMissing as error:
        return Finding(subject, WRONG, str(error)), None
    if provider.api is Face.ANTHROPIC:
        headers["anthropic-version"] = ANTHROPIC_VERSION
    try:
        answer = http.get(provider.list_url, headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return Finding(subject, WRONG, cause(error, provider.address)), None
    if answer.status_code in KEY_REFUSED_STATUSES:
        detail = f"{provider.address} does not accept its key ({answer.status_code})"
        return Finding(subject, WRONG, detail), None
    rows = _object(answer).get("data")
    if answer.status_code != 200 or not isinstance(rows, list):
        detail = f"{provider.address} answers {answer.status_code} to who asks for its models"
        return Finding(subject, DOUBT, detail), None
    accepted = Finding(subject, OK, f"{provider.address} accepts its key")
    # What is listed there may be deployed; which deployments there are, nobody says.
    if provider.names_model:
        return accepted, None
    return accepted, {str(row.get("id")) for row in rows if isinstance(row, dict)}


def _job_type(
    job_type: Mapping[str, Any],
    providers: Providers,
    listed: Mapping[str, set[str] | None],
) -> Iterator[Finding]:
    name, use = str(job_type.get("task_type")), job_type.get("model_use")
    needs = use == REQUIRED
    if use == "none" or (not needs and not providers):
        return
    if not providers:
        yield Finding(f"type {name}", WRONG, NO_PROVIDERS)
        return
    models = [row for row in job_type.get("models") or [] if isinstance(row, dict)]
    if not models:
        yield Finding(f"type {name}", WRONG if needs else DOUBT, "its policy allows no model")
    for row in models:
        provider = providers.get(str(row.get("provider")))
        subject = f"model {row.get('provider')} {row.get('model')} of {name}"
        yield _model(subject, row, provider, listed)


def _model(
    subject: str,
    row: Mapping[str, Any],
    provider: Provider | None,
    listed: Mapping[str, set[str] | None],
) -> Finding:
    if provider is None:
        return Finding(subject, WRONG, "this worker does not have its provider")
    if row.get("api") not in (None, str(provider.api)):
        return Finding(subject, WRONG, f"is asked over {row['api']}, the provider {provider.api}")
    models = listed.get(provider.name)
    if models is None:
        return Finding(subject, DOUBT, "its provider does not say whether it has it")
    if row.get("model") not in models:
        return Finding(subject, DOUBT, "is not among those that its provider lists")
    return Finding(subject, OK, "its provider has it")


def _object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
