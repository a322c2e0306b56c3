"""Credentials that are bound to a client certificate; real certificates, made on the spot."""

from __future__ import annotations

import base64
import datetime as dt
import hashlib
import ipaddress
import os
import socket
import ssl
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from django.conf import settings
from django.db import connection

from governance.web.client_certificates import ENVIRON_KEY, ClientCertificates
from tests.client import Api, refused

START_SECONDS = 30


def make(name, *, issuer=None, issuer_key=None):
    """Return a certificate and its key; self-signed, and a CA, without an issuer."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = dt.datetime.now(dt.UTC)
    alternatives = [x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]
    certificate = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(alternatives), critical=False)
        .sign(issuer_key or key, hashes.SHA256())
    )
    return certificate, key


def store(folder: Path, name, pair):
    certificate, key = pair
    paths = (folder / f"{name}.crt", folder / f"{name}.key")
    paths[0].write_bytes(certificate.public_bytes(Encoding.PEM))
    paths[1].write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    return [str(path) for path in paths]


def der(pair):
    return pair[0].public_bytes(Encoding.DER)


def sha(pair):
    return hashlib.sha256(der(pair)).hexdigest()


@pytest.fixture(scope="module")
def authority():
    return make("test authority")


@pytest.fixture(scope="module")
def mine(authority):
    return make("hermes", issuer=authority[0], issuer_key=authority[1])


@pytest.fixture(scope="module")
def other(authority):
    return make("somebody", issuer=authority[0], issuer_key=authority[1])


def seen(environ, **options):
    """Return what the application behind the middleware is told, and its environ."""
    told = {}

    def application(environ, start_response):
        told.update(environ)
        return []

    ClientCertificates(application, **options)(dict(environ), lambda *_: None)
    return told


PROXY = {"header": "Client-Cert", "proxies": ["10.0.0.0/8", "::1"]}


def forms(pair):
    pem = pair[0].public_bytes(Encoding.PEM).decode()
    fingerprint = sha(pair)
    return [
        f":{base64.b64encode(der(pair)).decode()}:",
        quote(pem),
        fingerprint,
        ":".join(fingerprint[i : i + 2] for i in range(0, 64, 2)).upper(),
    ]


def test_the_word_of_a_trusted_proxy_counts_in_every_form(mine):
    for text in forms(mine):
        told = seen({"REMOTE_ADDR": "10.1.2.3", "HTTP_CLIENT_CERT": text}, **PROXY)
        assert told[ENVIRON_KEY] == sha(mine)
        assert "HTTP_CLIENT_CERT" not in told


@pytest.mark.parametrize("address", ["192.0.2.1", "", "nonsense", "11.0.0.1"])
def test_the_word_of_anybody_else_is_dropped(mine, address):
    for text in forms(mine):
        told = seen({"REMOTE_ADDR": address, "HTTP_CLIENT_CERT": text}, **PROXY)
        assert told[ENVIRON_KEY] == ""
        assert "HTTP_CLIENT_CERT" not in told


def test_without_configuration_no_header_counts(mine):
    told = seen({"REMOTE_ADDR": "10.1.2.3", "HTTP_CLIENT_CERT": forms(mine)[0]})
    assert told[ENVIRON_KEY] == ""


@pytest.mark.parametrize("text", ["", ":notbase64!:", "zz", "a" * 63, "x" * 20_000, "%00"])
def test_what_is_no_certificate_is_none(text):
    told = seen({"REMOTE_ADDR": "10.1.2.3", "HTTP_CLIENT_CERT": text}, **PROXY)
    assert told[ENVIRON_KEY] == ""


def test_two_certificates_in_one_header_are_none(mine, other):
    both = ",".join([forms(mine)[0], forms(other)[0]])
    told = seen({"REMOTE_ADDR": "10.1.2.3", "HTTP_CLIENT_CERT": both}, **PROXY)
    assert told[ENVIRON_KEY] == ""


def test_mapped_addresses_and_unix_sockets_can_be_trusted(mine):
    text = forms(mine)[0]
    mapped = {"REMOTE_ADDR": "::ffff:10.1.2.3", "HTTP_CLIENT_CERT": text}
    assert seen(mapped, **PROXY)[ENVIRON_KEY] == sha(mine)
    local = {"REMOTE_ADDR": "", "HTTP_CLIENT_CERT": text}
    assert seen(local, header="Client-Cert", proxies=["unix"])[ENVIRON_KEY] == sha(mine)


def test_a_proxy_that_is_no_address_is_refused():
    with pytest.raises(ValueError, match=r"proxy\.example"):
        ClientCertificates(lambda *_: [], header="Client-Cert", proxies=["proxy.example"])


@pytest.mark.django_db
def test_a_header_cannot_make_the_fingerprint(issue, mine):
    token = issue(agent="hermes", certificate_sha256=sha(mine))
    caller = Api(token, **{ENVIRON_KEY: sha(mine), "Client-Cert": forms(mine)[0]})
    sent = caller.get("/v1/agents/hermes/status")
    assert refused(sent) == (401, "CLIENT_CERTIFICATE_MISMATCH")


@pytest.fixture
def served(authority, tmp_path):
    """The service under gunicorn with TLS, on the test's database; gives its address."""
    crt, key = store(
        tmp_path, "server", make("server", issuer=authority[0], issuer_key=authority[1])
    )
    ca, _ = store(tmp_path, "ca", authority)
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    database = connection.settings_dict
    dsn = (
        f"postgresql://{database['USER']}@/{database['NAME']}"
        f"?host={quote(database['HOST'], safe='')}&port={database['PORT']}"
    )
    log = (tmp_path / "log").open("wb")
    process = subprocess.Popen(
        [
            *(sys.executable, "-m", "gunicorn", "-c", "python:governance.gunicorn_conf"),
            "governance.wsgi",
        ],
        cwd=settings.BASE_DIR,
        env=os.environ
        | {
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "FENCEPOST_DSN": dsn,
            "FENCEPOST_BIND": f"127.0.0.1:{port}",
            "FENCEPOST_THREADS": "4",
            "FENCEPOST_TLS_CERT": crt,
            "FENCEPOST_TLS_KEY": key,
            "FENCEPOST_TLS_CLIENT_CA": ca,
            "WEB_CONCURRENCY": "1",
        },
        stdout=log,
        stderr=log,
    )
    # A connection that is refused is tried again until the port is open.
    transport = httpx2.HTTPTransport(verify=trusting(authority, tmp_path), retries=8)
    try:
        with httpx2.Client(transport=transport, timeout=START_SECONDS) as client:
            client.get(f"https://127.0.0.1:{port}/healthz")
        yield f"https://127.0.0.1:{port}", tmp_path
    except httpx2.ConnectError:
        pytest.fail((tmp_path / "log").read_text())
    finally:
        process.terminate()
        process.wait(START_SECONDS)
        log.close()


def trusting(authority, folder, pair=None):
    ca, _ = store(folder, "ca", authority)
    context = ssl.create_default_context(cafile=ca)
    if pair is not None:
        context.load_cert_chain(*store(folder, "client", pair))
    return context


@pytest.mark.django_db(transaction=True)
def test_over_tls_the_certificate_and_the_token_must_both_match(
    issue, authority, mine, other, served
):
    address, folder = served
    bound = issue(agent="hermes", certificate_sha256=sha(mine))
    free = issue(agent="hermes")

    def ask(token, pair):
        with httpx2.Client(verify=trusting(authority, folder, pair), timeout=30) as client:
            answers = [
                client.get(
                    f"{address}/v1/agents/hermes/status",
                    headers={"Authorization": f"Bearer {token}", "Client-Cert": forms(mine)[0]},
                )
                for _ in range(2)
            ]
        # The second one goes over the same connection.
        [answer] = {(each.status_code, each.json().get("reason")) for each in answers}
        return answer

    assert ask(bound, mine) == (200, None)
    assert ask(bound, other) == (401, "CLIENT_CERTIFICATE_MISMATCH")
    assert ask(bound, None) == (401, "CLIENT_CERTIFICATE_MISMATCH")
    assert ask(free, None) == (200, None)
    assert ask(free, other) == (200, None)


@pytest.mark.django_db(transaction=True)
def test_over_tls_a_certificate_of_an_unknown_authority_is_no_connection(world, authority, served):
    address, folder = served
    forged = make("hermes")
    with (
        httpx2.Client(verify=trusting(authority, folder, forged), timeout=30) as client,
        pytest.raises(httpx2.TransportError),
    ):
        client.get(f"{address}/v1/agents/hermes/status")
