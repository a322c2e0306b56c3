"""The check-up says what is wrong, in words, before anything is claimed."""

import json
import socket
import subprocess
import sys
from email.utils import formatdate
from http.server import BaseHTTPRequestHandler
from time import time

import pytest

from fencepost_worker.__main__ import main
from fencepost_worker.testing import StandInProvider
from tests.worker.conftest import TOKEN, problem
from tests.worker.test_confinement import NOBODY, as_root

MODEL = {"provider": "local", "model": "stand-in", "api": "openai"}


def type_row(name, model_use="required", models=(MODEL,)):
    return {"task_type": name, "model_use": model_use, "effects": "external", "models": [*models]}


@pytest.fixture
def provider():
    with StandInProvider(key="sk-real") as standin:
        yield standin


@pytest.fixture
def described(plane):
    """Teach the scripted control plane what a check-up asks for."""
    plane.bootstrap = {
        "admission": {"state": "open"},
        "inhibit": None,
        "cells_need_approval": False,
        "job_types": [type_row("draft"), type_row("plain", "none", ())],
    }
    plane.sessions = []
    plane.routes["/bootstrap$"] = lambda seen: (200, plane.bootstrap)
    plane.routes["/status$"] = lambda seen: (200, {"sessions": plane.sessions})
    return plane


@pytest.fixture
def look(described, provider, tmp_path, capsys):
    """Return a function that checks, and returns the exit code and what was found by subject."""
    (tmp_path / "local.key").write_text("sk-real")
    config = tmp_path / "worker.toml"

    def run(
        *options,
        program=(sys.executable,),
        api="openai",
        base_url=provider.base_url_openai,
        key="local.key",
        **over,
    ):
        config.write_text(
            f'[providers.local]\napi = "{api}"\nbase_url = "{base_url}"\napi_key_file = "{key}"\n'
        )
        settings = {
            "--url": described.url, "--token": TOKEN, "--agent": "hermes",
            "--data": str(tmp_path / "data"), "--config": str(config),
        }  # fmt: skip
        settings |= {f"--{name.replace('_', '-')}": value for name, value in over.items()}
        words = [word for pair in settings.items() if pair[1] is not None for word in pair]
        code = main(["check", *words, "--json", *options, "--", *program])
        document = json.loads(capsys.readouterr().out)
        assert document["usable"] == (code == 0)
        for each in document["findings"]:
            assert bool(each["way_out"]) == (each["state"] != "ok"), each
        found = {each["subject"]: (each["state"], each["detail"]) for each in document["findings"]}
        return code, found

    return run


def test_a_worker_that_can_work_is_told_so(look, described):
    code, found = look()

    assert code == 0
    assert {name for name, (state, _) in found.items() if state == "ok"} >= {
        "program", "data folder", "control plane", "clock", "token", "agent", "session",
        "provider local", "model local stand-in of draft",
    }  # fmt: skip
    # Nothing was begun.
    assert {seen.method for seen in described.seen} == {"GET"}


def test_it_is_one_line_for_each_thing(described, tmp_path, capsys):
    words = ["--url", described.url, "--token", TOKEN, "--agent", "hermes"]
    code = main(["check", *words, "--data", str(tmp_path / "data"), "--", "no-such-program"])

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    told = [line.partition(" - ")[0] for line in lines]
    assert "wrong  program: no-such-program is not a program" in told
    assert "wrong  type draft: this worker has no providers of models" in told
    assert all(line.split()[0] in ("ok", "doubt", "wrong") for line in lines)


def test_an_address_where_nobody_listens(look):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        code, found = look(url=f"http://127.0.0.1:{probe.getsockname()[1]}")

    assert code == 1
    assert found["control plane"][0] == "wrong"
    assert "refused" in found["control plane"][1]


def test_a_certificate_that_is_not_trusted(look, tmp_path):
    import ssl
    import threading
    from http.server import HTTPServer

    made = ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"]
    made += ["-keyout", str(tmp_path / "k.pem"), "-out", str(tmp_path / "c.pem")]
    subprocess.run([*made, "-subj", "/CN=localhost"], check=True, capture_output=True)
    server = HTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(tmp_path / "c.pem", tmp_path / "k.pem")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    try:
        code, found = look(url=f"https://localhost:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()

    assert code == 1
    assert "certificate is not trusted" in found["control plane"][1]


@pytest.mark.parametrize(
    ("status", "body", "said"),
    [
        (401, problem(401, "UNAUTHENTICATED", "UNAUTHENTICATED", "reauthenticate"), "not accepted"),
        (403, problem(403, "PERMISSION_DENIED", "WRONG_OWNER", "stop"), "not one of the agent"),
    ],
)
def test_a_token_that_is_not_the_agents(look, described, status, body, said):
    described.routes["/bootstrap$"] = lambda seen: (status, body)

    code, found = look()

    assert (code, found["token"][0]) == (1, "wrong")
    assert said in found["token"][1]


@pytest.mark.parametrize(("seconds", "said"), [(-120, "ahead of"), (120, "behind")])
def test_a_clock_that_is_wrong(look, monkeypatch, seconds, said):
    monkeypatch.setattr(
        BaseHTTPRequestHandler,
        "date_time_string",
        lambda self, timestamp=None: formatdate(time() + seconds, usegmt=True),
    )

    code, found = look()

    assert (code, found["clock"][0]) == (1, "wrong")
    assert (
        f"120 s {said} the control plane's" in found["clock"][1] or "s " + said in found["clock"][1]
    )


def test_a_cell_that_waits_for_approval_and_an_agent_that_is_closed(look, described):
    described.sessions = [{"cell_id": "cell-1", "state": "pending"}]
    described.bootstrap["admission"] = {"state": "closed"}

    code, found = look("--cell-id", "cell-1")

    assert code == 1
    assert found["session"] == ("wrong", "the cell cell-1 waits for an operator's approval")
    assert found["agent"][0] == "doubt"


@pytest.mark.parametrize(
    ("key", "said"),
    [("other.key", "does not accept its key (401)"), ("none.key", "its key file cannot be read")],
)
def test_a_key_that_the_provider_does_not_take(look, tmp_path, key, said):
    (tmp_path / "other.key").write_text("sk-other")

    code, found = look(key=key)

    assert (code, found["provider local"][0]) == (1, "wrong")
    assert said in found["provider local"][1]
    assert "sk-" not in json.dumps(found)


def test_a_provider_where_nobody_listens(look):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        code, found = look(base_url=f"http://127.0.0.1:{probe.getsockname()[1]}/v1")

    assert (code, found["provider local"][0]) == (1, "wrong")
    assert found["model local stand-in of draft"][0] == "doubt"


@pytest.mark.parametrize(
    ("row", "state"),
    [
        (MODEL | {"provider": "elsewhere"}, "wrong"),
        (MODEL | {"api": "anthropic"}, "wrong"),
        (MODEL | {"model": "unheard-of"}, "doubt"),
    ],
)
def test_a_model_that_cannot_be_reached_by_this_worker(look, described, row, state):
    described.bootstrap["job_types"] = [type_row("draft", models=[row])]

    code, found = look()

    assert found[f"model {row['provider']} {row['model']} of draft"][0] == state
    assert code == (state == "wrong")


def test_a_policy_without_a_model(look, described):
    described.bootstrap["job_types"] = [type_row("draft", models=[])]

    code, found = look()

    assert (code, found["type draft"]) == (1, ("wrong", "its policy allows no model"))


def test_what_nobody_here_enforces_is_said(look):
    _, found = look()
    assert found["programs"][0] == "doubt"
    assert "a key of its own goes around the gateway" in found["outgoing traffic"][1]

    _, found = look("--runtime", "http", "--endpoint", "http://127.0.0.1:1")
    assert found["model calls"][0] == "doubt"


def test_an_account_that_is_none(look):
    code, found = look(run_as="no-such-account")
    assert (code, found["programs"][0]) == (1, "wrong")
    assert "reach" not in found


@pytest.fixture
def apart(tmp_path):
    """Return a folder that every account can go into, with a program in it."""
    for folder in (tmp_path, *tmp_path.parents[:3]):
        folder.chmod(folder.stat().st_mode | 0o011)
    program = tmp_path / "agent.sh"
    program.write_text("true")
    program.chmod(0o644)
    return program


@as_root
def test_the_account_of_programs_gets_to_its_program_and_to_no_secret(look, apart, tmp_path):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    for secret in (token, tmp_path / "local.key", tmp_path / "worker.toml"):
        secret.touch()
        secret.chmod(0o600)
    (tmp_path / "data" / "journal").mkdir(parents=True, mode=0o700)

    program = ["/bin/sh", str(apart)]
    code, found = look(
        run_as=NOBODY,
        token=None,
        token_file=str(token),
        program=program,
    )

    assert (code, found["programs"]) == (0, ("ok", f"run as {NOBODY}"))
    assert (found["reach"][0], found["secrets"][0]) == ("ok", "ok")


@as_root
@pytest.mark.parametrize("readable", ["local.key", "worker.toml", "token", "data/journal"])
def test_a_secret_that_the_account_of_programs_can_read(look, apart, tmp_path, readable):
    token = tmp_path / "token"
    token.write_text(TOKEN)
    (tmp_path / "data" / "journal").mkdir(parents=True)
    for name in ("local.key", "worker.toml", "token", "data/journal"):
        path = tmp_path / name
        if not path.is_dir():
            path.touch()
        path.chmod(0o755 if name == readable else 0o700)

    program = ["/bin/sh", str(apart)]
    code, found = look(
        run_as=NOBODY,
        token=None,
        token_file=str(token),
        program=program,
    )

    assert (code, found["secrets"]) == (1, ("wrong", f"{NOBODY} can read {tmp_path / readable}"))


@as_root
@pytest.mark.parametrize("lacking", ["program", "script", "way"])
def test_what_the_account_of_programs_cannot_get_to(look, apart, tmp_path, lacking):
    program = tmp_path / "own"
    program.write_text("#!/bin/sh\n")
    program.chmod(0o700 if lacking == "program" else 0o755)
    apart.chmod(0o600 if lacking == "script" else 0o644)
    if lacking == "way":
        (tmp_path / "closed").mkdir(mode=0o700)
    data = tmp_path / ("closed" if lacking == "way" else ".") / "data"
    expected = {"program": program, "script": apart, "way": tmp_path / "closed"}[lacking]

    code, found = look(run_as=NOBODY, data=str(data), program=[str(program), str(apart)])

    assert code == 1
    assert found["reach"] == ("wrong", f"{NOBODY} cannot get to {expected}")
