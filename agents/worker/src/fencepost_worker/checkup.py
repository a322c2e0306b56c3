"""The check-up of a worker: what would keep it from working, one line for each thing.

Nothing is claimed, activated or reserved; of providers only their lists of models are asked for.
"""

import argparse
import json
import os
from collections.abc import Iterator, Mapping, Sequence
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
from fencepost_worker.confinement import Confinement, close_memory
from fencepost_worker.gateway.faces import Face
from fencepost_worker.gateway.providers import KeyMissing, Provider, Providers
from fencepost_worker.network import Network, cause
from fencepost_worker.options import Unusable
from fencepost_worker.reach import ENTER, READ, NotLooked, reach_of

ANSWER_TIMEOUT_SECONDS = 10.0
#: A clock that is further off makes keys and times that others do not take.
CLOCK_SKEW_SECONDS_MAX = 5.0
OK, DOUBT, WRONG = "ok", "doubt", "wrong"
#: What is kept in the data folder that no program may read.
KEPT = ("journal", "exchange", "artifacts", "session.json", "worker-id")
PARTED_BY = "--run-as parts them"
REACHED_BY = "see to the address, the proxy (HTTPS_PROXY, NO_PROXY) or the authority (--ca)"
ANTHROPIC_VERSION = "2023-06-01"
KEY_REFUSED_STATUSES = frozenset({401, 403})


@dataclass(frozen=True)
class Finding:
    """What was found of one thing: `ok`, `doubt` where it cannot be told, or `wrong`.

    `way_out` says what to do about it; only what is ok needs none.
    """

    subject: str
    state: str
    detail: str
    way_out: str = ""

    @property
    def line(self) -> str:
        """Return it as a line for a person."""
        finding = f"{self.state:5}  {self.subject}: {self.detail}"
        return f"{finding} - {self.way_out}" if self.way_out else finding


def ok(subject: str, detail: str) -> Finding:
    """Return that a thing is as it should be."""
    return Finding(subject, OK, detail)


def doubt(subject: str, detail: str, way_out: str) -> Finding:
    """Return that a thing may be in the way, or is held by nobody here."""
    return Finding(subject, DOUBT, detail, way_out)


def wrong(subject: str, detail: str, way_out: str) -> Finding:
    """Return that a thing is in the way."""
    return Finding(subject, WRONG, detail, way_out)


def check(options: argparse.Namespace) -> tuple[str, int]:
    """Return what was found, as lines or as JSON, and the exit code: 1 where something is wrong."""
    found = list(findings(options))
    unusable = any(each.state == WRONG for each in found)
    if options.json:
        document = {"usable": not unusable, "findings": [asdict(each) for each in found]}
        return json.dumps(document, indent=2), int(unusable)
    return "\n".join(each.line for each in found), int(unusable)


def findings(options: argparse.Namespace) -> Iterator[Finding]:
    """Yield what is found of this machine, of the control plane and of the providers."""
    try:
        providers = providers_of(options)
    except Unusable as error:
        yield wrong("providers", str(error), "mend the file of --config")
        providers = Providers()
    yield from _machine(options, providers)
    try:
        network = network_of(options)
    except Unusable as error:
        yield wrong("certificates", str(error), "give readable PEM files that belong together")
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


def _machine(options: argparse.Namespace, providers: Providers) -> Iterator[Finding]:
    if options.runtime == "command":
        program: list[str] = []
        try:
            program = resolved_program(options.program)
            yield ok("program", program[0])
        except ProgramMissing as error:
            yield wrong("program", str(error), "put a program that is there after --")
        yield from _confined(options, providers, program)
    else:
        yield doubt(
            "model calls",
            "those of the agent at --endpoint are not this worker's to hold or to count",
            "run it as a program of the command runtime, or beside `fencepost-worker gateway`",
        )
    try:
        pinned_keys(options.trusted_keys)
    except Unusable as error:
        yield wrong("trusted keys", str(error), "give the file of keys that the plane publishes")
    yield _folder(options.data)


def _confined(
    options: argparse.Namespace, providers: Providers, program: Sequence[str]
) -> Iterator[Finding]:
    """Yield as whom programs run, and what keeps them from the worker's secrets, if anything."""
    try:
        confinement = confinement_of(options, providers)
    except Unusable as error:
        yield wrong("programs", str(error), "name another account or variable, or start as root")
        return
    if confinement.account is not None:
        yield ok("programs", f"run as {confinement.account.name}")
        yield from _parted(options, providers, program, confinement)
    elif close_memory():
        detail = "run as this account: they can read its files, and not the worker's memory"
        yield doubt("programs", detail, PARTED_BY)
    else:
        yield doubt("programs", "run as this account, and can read all that it can", PARTED_BY)
    yield doubt(
        "outgoing traffic",
        "is not the worker's to hold: a program that brings a key of its own goes around the"
        " gateway",
        "let a firewall's rule for the account of programs pass nothing but loopback",
    )


def _parted(
    options: argparse.Namespace,
    providers: Providers,
    program: Sequence[str],
    confinement: Confinement,
) -> Iterator[Finding]:
    """Yield what the account of programs can reach, and what it should not."""
    assert confinement.account is not None
    name = confinement.account.name
    files = [Path(word) for word in program[1:] if Path(word).is_absolute()]
    needed = [(Path(word), ENTER) for word in program[:1]]
    needed += [(path, READ) for path in files if path.is_file()]
    needed.append((_existing(options.data.resolve().parent), ENTER))
    secret = [path for path in _secret_files(options, providers) if path.exists()]
    try:
        can = reach_of(confinement, [*needed, *((path, READ) for path in secret)])
    except NotLooked as error:
        yield doubt("reach", f"of {name} could not be found out: {error}", "try it as that account")
        return
    lacking = [str(path) for (path, _), able in zip(needed, can, strict=False) if not able]
    open_to_all = [str(path) for path, able in zip(secret, can[len(needed) :], strict=True) if able]
    if lacking:
        detail = f"{name} cannot get to {', '.join(lacking)}"
        yield wrong("reach", detail, "open the way to others (chmod o+x), or move what it is for")
    else:
        yield ok("reach", f"{name} gets to the program and to its workspaces")
    if open_to_all:
        detail = f"{name} can read {', '.join(open_to_all)}"
        yield wrong("secrets", detail, "leave them to the worker's account alone (chmod go-rwx)")
    else:
        detail = f"{name} reads no configuration, key or journal of the worker: {len(secret)} tried"
        yield ok("secrets", detail)


def _secret_files(options: argparse.Namespace, providers: Providers) -> list[Path]:
    """Return what a program is not to read: configuration, keys, and the worker's memory."""
    named = [options.config, options.token_file, options.api_key_file, options.key]
    named += [provider.key_file for provider in providers]
    data = options.data.resolve()
    return [
        *(path.resolve() for path in named if path is not None),
        *(data / name for name in KEPT),
    ]


def _existing(path: Path) -> Path:
    return next(each for each in (path, *path.parents) if each.exists())


def _folder(data: Path) -> Finding:
    existing = _existing(data.resolve())
    if not os.access(existing, os.W_OK | os.X_OK) or not existing.is_dir():
        detail = f"{existing} cannot be written to"
        return wrong("data folder", detail, "give --data a folder of this account")
    if (data / "lock").exists():
        try:
            durable.FolderLock(data.resolve()).release()
        except durable.FolderBusy:
            detail = f"a worker runs on {data}"
            return doubt("data folder", detail, "give a second one a folder of its own")
        except OSError as error:
            detail = f"{data}: {error.strerror}"
            return wrong("data folder", detail, "give --data a folder of this account")
    return ok("data folder", str(data))


# The control plane --------------------------------------------------------------------------------


def _plane(
    http: httpx2.Client, options: argparse.Namespace, types: list[dict[str, Any]]
) -> Iterator[Finding]:
    """Yield what is found of the control plane; put the agent's types into `types`."""
    base = options.url.rstrip("/")
    try:
        answer = http.get(f"{base}/.well-known/fencepost/keys.json")
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        yield wrong("control plane", cause(error, base), REACHED_BY)
        return
    if answer.status_code != 200:
        detail = f"{base} answers {answer.status_code}, and is no control plane"
        yield wrong("control plane", detail, "give --url its base address")
        return
    yield ok("control plane", f"{base} answers")
    yield _clock(answer)
    try:
        token = options.token or options.token_file.read_text().strip()
    except (AttributeError, OSError):
        detail = "none is given, or its file cannot be read"
        yield wrong("token", detail, "give --token-file one of `manage.py create_credential`")
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
        yield wrong("control plane", cause(error, base), REACHED_BY)


def _clock(answer: httpx2.Response) -> Finding:
    try:
        theirs = parsedate_to_datetime(answer.headers["Date"])
    except (KeyError, TypeError, ValueError):
        detail = "the control plane does not say what time it is"
        return doubt("clock", detail, "look at this machine's clock, and let a proxy pass `Date`")
    # Its second has begun up to a second ago.
    skew = (datetime.now(UTC) - theirs).total_seconds() - 0.5
    if abs(skew) > CLOCK_SKEW_SECONDS_MAX:
        where = "ahead of" if skew > 0 else "behind"
        detail = f"{abs(skew):.0f} s {where} the control plane's"
        return wrong("clock", detail, "have both set by NTP")
    return ok("clock", f"as the control plane's, to {CLOCK_SKEW_SECONDS_MAX:.0f} s")


def _token(agent: str, answer: httpx2.Response, document: Mapping[str, Any]) -> Finding:
    if answer.status_code == 200:
        return ok("token", f"is the agent {agent}'s")
    detail = document.get("detail") or document.get("title") or f"status {answer.status_code}"
    way_out = "ask whoever runs the control plane, with this line"
    if answer.status_code == 401:
        detail = f"is not accepted: {detail}"
        way_out = "`manage.py create_credential` makes one, `rotate_credential` renews one"
    elif answer.status_code in (403, 404):
        detail = f"is not one of the agent {agent}: {detail}"
        way_out = f"give --agent the agent that it is of, or `manage.py create_credential {agent}`"
    return wrong("token", str(detail), way_out)


def _standing(document: Mapping[str, Any]) -> Finding:
    admission = document.get("admission")
    state = admission.get("state") if isinstance(admission, dict) else None
    if document.get("inhibit"):
        detail = "maintenance holds its work back"
        return doubt("agent", detail, "wait for its end, or lift the inhibit in the console")
    if state not in (None, "open"):
        detail = f"its admission is {state}: it gets no new work"
        return doubt("agent", detail, "open its admission in the console")
    return ok("agent", "is open for work")


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
        detail = f"the cell {cell} waits for an operator's approval"
        return wrong("session", detail, "approve it in the console, at the agent")
    if cell and cells.get(cell) == "current":
        return ok("session", f"the cell {cell} has one")
    if bootstrap.get("cells_need_approval"):
        detail = "a new cell waits until an operator approves it"
        return doubt("session", detail, "start it, and approve it in the console")
    return ok("session", "none is needed before it starts")


# Providers ----------------------------------------------------------------------------------------


def _provider(http: httpx2.Client, provider: Provider) -> tuple[Finding, set[str] | None]:
    """Return what is found of a provider, and the models that it lists, where it does."""
    subject = f"provider {provider.name}"
    try:
        headers = provider.headers()
    except KeyMissing as error:
        return wrong(subject, str(error), "mend its api_key_file or api_key_env"), None
    if provider.api is Face.ANTHROPIC:
        headers["anthropic-version"] = ANTHROPIC_VERSION
    try:
        answer = http.get(provider.list_url, headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL) as error:
        return wrong(subject, cause(error, provider.address), REACHED_BY), None
    if answer.status_code in KEY_REFUSED_STATUSES:
        detail = f"{provider.address} does not accept its key ({answer.status_code})"
        return wrong(subject, detail, "put a key of that provider into its file"), None
    rows = _object(answer).get("data")
    if answer.status_code != 200 or not isinstance(rows, list):
        detail = f"{provider.address} answers {answer.status_code} to who asks for its models"
        return doubt(subject, detail, "see that base_url is what the provider's SDK takes"), None
    accepted = ok(subject, f"{provider.address} accepts its key")
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
        yield wrong(f"type {name}", NO_PROVIDERS, "name one in --config: [providers.NAME]")
        return
    models = [row for row in job_type.get("models") or [] if isinstance(row, dict)]
    if not models:
        way_out = "allow one: `manage.py apply_governance`, or the policy's page"
        finding = wrong if needs else doubt
        yield finding(f"type {name}", "its policy allows no model", way_out)
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
        detail = "this worker does not have its provider"
        return wrong(subject, detail, f"add [providers.{row.get('provider')}] to --config")
    if row.get("api") not in (None, str(provider.api)):
        detail = f"is asked over {row['api']}, and [providers.{provider.name}] has {provider.api}"
        return wrong(subject, detail, "give the provider that api, at the address that speaks it")
    models = listed.get(provider.name)
    if models is None:
        detail = "its provider does not say whether it has it"
        return doubt(subject, detail, "ask it once for the model, with its own tools")
    if row.get("model") not in models:
        detail = "is not among those that its provider lists"
        return doubt(subject, detail, "see how it spells the name, and whether the key may use it")
    return ok(subject, "its provider has it")


def _object(answer: httpx2.Response) -> dict[str, Any]:
    try:
        document = answer.json()
    except ValueError:
        return {}
    return document if isinstance(document, dict) else {}
