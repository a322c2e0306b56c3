"""Assembly: the parts of a worker, put together by its options."""

import argparse
import logging
import socket
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from uuid_utils.compat import uuid7

from fencepost_worker import durable, processes
from fencepost_worker.adapters import RuntimeAdapter
from fencepost_worker.adapters.command import CommandAdapter
from fencepost_worker.adapters.http import Endpoint, HttpAdapter
from fencepost_worker.asking import Asking
from fencepost_worker.breaker import Breaker
from fencepost_worker.client import ControlPlane, Session
from fencepost_worker.confinement import Confinement, Unconfinable
from fencepost_worker.envelopes import KeyRing, read_keys
from fencepost_worker.exchange import ExternalAgentExchange
from fencepost_worker.executor import ExternalAgentExecutor
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
GONE_RUNTIME = (
    "the openai runtime is gone: a program of the command runtime asks models through the worker's"
    " gateway (--config with providers)"
)


def build(options: argparse.Namespace) -> Worker:
    """Put a worker together.

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
    adapter = _adapter(options, data=data, plane=plane, providers=providers, network=network)
    plan = _plan(options)
    return Worker(
        plane=plane,
        journal=Journal(data / "journal"),
        adapter=adapter,
        keys=KeyRing(plane=plane, pinned=pinned_keys(options.trusted_keys)),
        uploads=Uploads(plane=plane, network=network) if _may_upload(options, providers) else None,
        secrets=_secrets(options, providers),
        asking=Asking(
            plane=plane,
            agent=plan.agent,
            named=plan.task_types,
            unserved=adapter.unserved,
            breaker=Breaker(refusals_max=options.refusals_max, rest_s=options.rest_seconds),
        ),
        plan=plan,
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
        providers = read_providers(options.config)
    except ProvidersUnreadable as error:
        raise Unusable(f"--config: {error}") from error
    return providers if getattr(options, "runtime", "command") == "command" else Providers()


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


def session_of(options: argparse.Namespace, *, data: Path, has_models: bool) -> Session:
    """Return who calls the control plane: a session that is activated, where work is governed.

    :raises Unusable: no token is given, or two are.
    """
    if bool(options.token) == bool(options.token_file):
        raise Unusable("one of --token and --token-file is needed")
    worker_id = options.worker_id or _stable_worker_id(data, options.agent)
    if not _has_session(options, has_models=has_models):
        return Session(worker_id=worker_id, token=options.token, token_file=options.token_file)
    return ActivatedSession(
        worker_id=worker_id,
        agent=options.agent,
        cell_id=options.cell_id or worker_id,
        runtime=options.runtime,
        path=data / "session.json",
        token=options.token,
        token_file=options.token_file,
    )


def _has_session(options: argparse.Namespace, *, has_models: bool) -> bool:
    return bool(options.cell_id) or _is_governed(options) or has_models


def _may_upload(options: argparse.Namespace, providers: Providers) -> bool:
    """Return whether artifacts leave the data folder: grants are for activated sessions only."""
    return _has_session(options, has_models=bool(providers)) and not options.no_uploads


def _is_governed(options: argparse.Namespace) -> bool:
    """Return whether effects need permits: those that leave this machine always do."""
    return bool(options.governed) or options.runtime != "command"


def _adapter(
    options: argparse.Namespace,
    *,
    data: Path,
    plane: ControlPlane,
    providers: Providers,
    network: Network,
) -> RuntimeAdapter:
    authority = ControlPlaneAuthority(
        plane=plane,
        mode=options.mode,
        always=_is_governed(options),
        has_models=bool(providers),
    )
    executor = ExternalAgentExecutor(
        exchange=ExternalAgentExchange(data / "exchange"), authority=authority
    )
    if options.runtime == "command":
        confinement = confinement_of(options, providers)
        models = None
        if providers:
            gateway = Gateway(plane, providers)
            models = ModelAccess(gateway=gateway, plane=plane, authority=authority)
        return CommandAdapter(
            executor=executor,
            workspaces=Workspaces(data, account=confinement.account),
            program=options.program,
            confinement=confinement,
            models=models,
        )
    if options.runtime != "http":
        gone = options.runtime == "openai"
        raise Unusable(GONE_RUNTIME if gone else "--runtime is command or http")
    if not options.endpoint:
        raise Unusable("the http runtime needs --endpoint")
    endpoint = Endpoint(
        url=options.endpoint,
        key_file=options.api_key_file,
        silence_s=options.silence_seconds,
        network=network,
    )
    return HttpAdapter(executor=executor, endpoint=endpoint)


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
