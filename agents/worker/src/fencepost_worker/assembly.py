"""Assembly: the parts of a worker, put together by its options."""

import argparse
import logging
import os
import socket
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from uuid_utils.compat import uuid7

from fencepost_worker import durable, processes
from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.adapters.command import CommandAdapter
from fencepost_worker.adapters.function import FunctionAdapter
from fencepost_worker.adapters.http import Endpoint, HttpAdapter
from fencepost_worker.breaker import Breaker
from fencepost_worker.client import ControlPlane, Session
from fencepost_worker.confinement import Confinement, Unconfinable
from fencepost_worker.envelopes import KeyRing, read_keys
from fencepost_worker.exchange import ExternalAgentExchange
from fencepost_worker.executor import ExternalAgentExecutor
from fencepost_worker.functions.jobs import Skills
from fencepost_worker.functions.registry import Functions
from fencepost_worker.gateway.providers import Providers, ProvidersUnreadable, read_providers
from fencepost_worker.gateway.server import Gateway
from fencepost_worker.governed import ControlPlaneAuthority
from fencepost_worker.journal import Journal
from fencepost_worker.loop import Plan, Worker
from fencepost_worker.model_access import ModelAccess
from fencepost_worker.network import CertificatesUnusable, Network
from fencepost_worker.options import Unusable
from fencepost_worker.redaction import Secrets
from fencepost_worker.session import ActivatedSession
from fencepost_worker.uploads import Uploads
from fencepost_worker.workspace import Workspaces

log = logging.getLogger("fencepost_worker")

MAX_WORKER_ID_CHARS = 120
#: Their work runs on this machine, and its model calls go through the worker's gateway.
LOCAL_RUNTIMES = frozenset({CommandAdapter.runtime, FunctionAdapter.runtime})
GONE_RUNTIME = (
    "the openai runtime is gone: a program of the command runtime asks models through the worker's"
    " gateway (--config with providers)"
)


@dataclass(frozen=True)
class _Parts:
    """What a runtime's adapter is made of."""

    data: Path
    plane: ControlPlane
    providers: Providers
    network: Network
    uploads: Uploads | None
    functions: Functions | None


def build(options: argparse.Namespace, *, functions: Functions | None = None) -> Worker:
    """Put a worker together.

    :param functions: what the `function` runtime calls.
    :raises Unusable: the options contradict each other or lack something.
    """
    data = options.data.resolve()
    if options.concurrency < 1:
        raise Unusable("--concurrency must be at least 1")
    providers, network = providers_of(options), network_of(options)
    for shortcoming in processes.shortcomings():
        log.warning("on this system: %s", shortcoming)
    plane = ControlPlane(
        url=options.url,
        session=session_of(options, data=data, has_models=bool(providers)),
        network=network,
    )
    uploads = Uploads(plane=plane, network=network) if _may_upload(options, providers) else None
    adapter = _adapter(options, _Parts(data, plane, providers, network, uploads, functions))
    return Worker(
        plane=plane,
        journal=Journal(data / "journal"),
        adapter=adapter,
        keys=KeyRing(plane=plane, pinned=pinned_keys(options.trusted_keys)),
        uploads=uploads,
        secrets=_secrets(options, providers),
        breaker=Breaker(refusals_max=options.refusals_max, rest_s=options.rest_seconds),
        plan=_plan(options),
    )


def _plan(options: argparse.Namespace) -> Plan:
    return Plan(
        agent=options.agent,
        lease_seconds=options.lease_seconds,
        task_types=tuple(name for name in options.task_types.split(",") if name),
        wait_seconds=options.wait_seconds,
        concurrency=options.concurrency,
        max_jobs=options.max_jobs,
        until_empty=options.once,
    )


def providers_of(options: argparse.Namespace) -> Providers:
    """Return the providers of models of the options' file.

    :raises Unusable: they cannot be read, or the runtime runs nothing that could call them.
    """
    try:
        # As the variables are now: functions see others under the same names while they run.
        providers = read_providers(options.config, dict(os.environ))
    except ProvidersUnreadable as error:
        raise Unusable(f"--config: {error}") from error
    return providers if options.runtime in LOCAL_RUNTIMES else Providers()


def network_of(options: argparse.Namespace) -> Network:
    """Return how others are reached: proxies and certificates.

    :raises Unusable: a certificate cannot be used.
    """
    try:
        return Network(ca=options.ca, cert=options.cert, key=options.key)
    except CertificatesUnusable as error:
        raise Unusable(str(error)) from error


def _secrets(options: argparse.Namespace, providers: Providers) -> Secrets:
    files = [options.token_file, options.api_key_file, *(each.key_file for each in providers)]
    return Secrets([options.token], files=[path for path in files if path is not None])


def token_of(options: argparse.Namespace) -> dict[str, Any]:
    """Return what a `Session` is given to prove itself by.

    :raises Unusable: no token is given, or two are.
    """
    if bool(options.token) == bool(options.token_file):
        raise Unusable("one of --token and --token-file is needed")
    return {"token": options.token, "token_file": options.token_file}


def session_of(options: argparse.Namespace, *, data: Path, has_models: bool) -> Session:
    """Return who calls the control plane: a session that is activated, where work is governed.

    :raises Unusable: no token is given, or two are.
    """
    token = token_of(options)
    worker_id = options.worker_id or _stable_worker_id(data, options.agent)
    if not _has_session(options, has_models=has_models):
        return Session(worker_id=worker_id, **token)
    return ActivatedSession(
        worker_id=worker_id,
        agent=options.agent,
        cell_id=options.cell_id or worker_id,
        runtime=options.runtime,
        path=data / "session.json",
        **token,
    )


def _has_session(options: argparse.Namespace, *, has_models: bool) -> bool:
    functions = options.runtime == FunctionAdapter.runtime
    return bool(options.cell_id) or _is_governed(options) or has_models or functions


def _may_upload(options: argparse.Namespace, providers: Providers) -> bool:
    """Return whether artifacts leave the data folder: grants are for activated sessions only."""
    return _has_session(options, has_models=bool(providers)) and not options.no_uploads


def _is_governed(options: argparse.Namespace) -> bool:
    """Return whether effects need permits: those that leave this machine always do."""
    return bool(options.governed) or options.runtime not in LOCAL_RUNTIMES


def _adapter(options: argparse.Namespace, parts: _Parts) -> RuntimeAdapter:
    authority = ControlPlaneAuthority(
        plane=parts.plane,
        mode=options.mode,
        always=_is_governed(options),
        has_models=bool(parts.providers),
    )
    executor = ExternalAgentExecutor(
        exchange=ExternalAgentExchange(parts.data / "exchange"), authority=authority
    )
    if options.runtime in LOCAL_RUNTIMES:
        return _local_adapter(options, parts, executor=executor, authority=authority)
    if options.runtime != "http":
        gone = options.runtime == "openai"
        raise Unusable(GONE_RUNTIME if gone else "--runtime is command or http")
    if not options.endpoint:
        raise Unusable("the http runtime needs --endpoint")
    endpoint = Endpoint(
        url=options.endpoint,
        key_file=options.api_key_file,
        silence_s=options.silence_seconds,
        network=parts.network,
    )
    return HttpAdapter(executor=executor, endpoint=endpoint, workspaces=Workspaces(parts.data))


def _local_adapter(
    options: argparse.Namespace,
    parts: _Parts,
    *,
    executor: ExternalAgentExecutor,
    authority: ControlPlaneAuthority,
) -> RuntimeAdapter:
    """Return the adapter of a runtime whose work may call models through the worker's gateway."""
    confinement = confinement_of(options, parts.providers)
    models = None
    if parts.providers:
        gateway = Gateway(parts.plane, parts.providers)
        models = ModelAccess(gateway=gateway, plane=parts.plane, authority=authority)
    if options.runtime == CommandAdapter.runtime:
        return CommandAdapter(
            executor=executor,
            workspaces=Workspaces(parts.data, account=confinement.account),
            program=options.program,
            confinement=confinement,
            models=models,
        )
    if not parts.functions:
        raise Unusable("no function is registered: write @worker.job(TYPE) before one")
    return FunctionAdapter(
        executor=executor,
        workspaces=Workspaces(parts.data),
        functions=parts.functions,
        skills=Skills(plane=parts.plane),
        uploads=parts.uploads,
        confinement=confinement,
        models=models,
    )


def confinement_of(options: argparse.Namespace, providers: Providers) -> Confinement:
    """Return what programs are given of this process.

    :raises Unusable: it cannot be as the options say.
    """
    keys = [each.key_variable for each in providers if each.key_variable]
    try:
        return Confinement.of(
            passed=options.pass_variables, run_as=options.run_as, secret_names=keys
        )
    except Unconfinable as error:
        raise Unusable(str(error)) from error


def pinned_keys(path: Path | None) -> dict[str, Ed25519PublicKey] | None:
    """Return the keys in the file, by their names; None without a file.

    :raises Unusable: it holds none.
    """
    if path is None:
        return None
    try:
        return read_keys(durable.read_document(path) or {})
    except (ValueError, durable.Unreadable) as error:
        raise Unusable(f"--trusted-keys: {error}") from error


def _stable_worker_id(data: Path, agent: str) -> str:
    """Return a name that is the same after a restart: claims are replayed under it."""
    path = data / "worker-id"
    if not path.exists():
        name = f"{agent}@{socket.gethostname()[:60]}-{uuid7().hex[-8:]}"
        durable.replace(path, name[-MAX_WORKER_ID_CHARS:].encode())
    return path.read_text()
