"""Proxies, private authorities and client certificates, with real servers of each."""

import datetime
import json
import logging
import select
import socket
import ssl
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from fencepost_worker import __main__ as program_of_worker
from fencepost_worker.client import Call, ControlPlane, Refused, Session, Unreachable
from fencepost_worker.gateway.links import Links
from fencepost_worker.network import (
    MAX_CAUSE_CHARS,
    TOLD_AGAIN_SECONDS,
    CertificatesUnusable,
    Complaints,
    Network,
    cause,
    is_loopback,
    proxy_of,
)
from tests.worker.conftest import TOKEN, apart

ASK = Call("GET", "/v1/jobs/task-1")
#: A name that no resolver knows: what reaches it went through the proxy.
NOWHERE = "plane.invalid"
VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR")


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)


def certificate(name, *, issuer=None, hosts=()):
    """Return a certificate and its key; without an issuer it is an authority."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    signer, issuer_name = (key, subject) if issuer is None else (issuer[1], issuer[0].subject)
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer_name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([x509.DNSName(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(signer, hashes.SHA256()), key


def written(folder, name, made, *, password=None):
    """Write certificate and key, and return their files."""
    cert, key = folder / f"{name}.pem", folder / f"{name}.key"
    cert.write_bytes(made[0].public_bytes(serialization.Encoding.PEM))
    sealed = (
        serialization.BestAvailableEncryption(password)
        if password
        else serialization.NoEncryption()
    )
    private = made[1].private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, sealed
    )
    key.write_bytes(private)
    return cert, key


class Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self):
        peer = self.connection.getpeercert() if isinstance(self.connection, ssl.SSLSocket) else None
        name = dict(entry[0] for entry in peer["subject"])["commonName"] if peer else None
        content = json.dumps({"peer": name}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def do_PUT(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self.do_GET()

    do_POST = do_PUT

    def log_message(self, *args):
        pass


class Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        pass


class Site:
    """A private authority, and a server that it vouches for and that asks for certificates."""

    def __init__(self, folder: Path, *, demands: bool) -> None:
        self.authority = certificate("Private Authority")
        self.ca, _ = written(folder, "ca", self.authority)
        hosts = ("localhost", NOWHERE)
        own = written(folder, "server", certificate("site", issuer=self.authority, hosts=hosts))
        self.cert, self.key = written(
            folder, "client", certificate("hermes", issuer=self.authority)
        )
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(*own)
        context.load_verify_locations(self.ca)
        context.verify_mode = ssl.CERT_REQUIRED if demands else ssl.CERT_OPTIONAL
        self.server = Quiet(("127.0.0.1", 0), Answering)
        # Each handshake on the connection's own thread: one that fails ends no other.
        self.server.socket = context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def url(self, host="localhost"):
        return f"https://{host}:{self.port}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def site(tmp_path):
    made = Site(tmp_path, demands=False)
    yield made
    made.close()


@pytest.fixture
def strict_site(tmp_path):
    made = Site(tmp_path, demands=True)
    yield made
    made.close()


class Proxy(BaseHTTPRequestHandler):
    """Takes CONNECT, and brings every name to this machine."""

    asked: list[str]

    def do_CONNECT(self):
        self.server.asked.append(self.path)
        if self.server.refuses:
            self.send_error(407)
            return
        port = int(self.path.rpartition(":")[2])
        with socket.create_connection(("127.0.0.1", port)) as far:
            self.send_response(200)
            self.end_headers()
            ends = {self.connection: far, far: self.connection}
            while True:
                for end in select.select(list(ends), [], [], 20)[0]:
                    content = end.recv(65536)
                    if not content:
                        self.close_connection = True
                        return
                    ends[end].sendall(content)

    def log_message(self, *args):
        pass


@pytest.fixture
def proxy():
    server = Quiet(("127.0.0.1", 0), Proxy)
    server.asked, server.refuses = [], False
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


def asked(url, network=None):
    """Ask a control plane there once, and return its answer."""
    plane = ControlPlane(url=url, session=Session(worker_id="w", token=TOKEN), network=network)
    try:
        return plane.send(ASK)
    finally:
        plane.close()


def test_a_private_authority_is_trusted_by_the_option(site):
    assert asked(site.url(), Network(ca=site.ca)).body == {"peer": None}


def test_a_private_authority_is_trusted_by_the_environment(site, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(site.ca))
    assert asked(site.url()).status == 200


def test_an_authority_that_is_not_trusted_is_told_with_address_and_reason(site):
    with pytest.raises(Unreachable) as caught:
        asked(site.url())
    assert f"localhost:{site.port}" in str(caught.value)
    assert "its certificate is not trusted" in str(caught.value)


def test_a_certificate_is_shown_to_who_asks_for_one(strict_site):
    network = Network(ca=strict_site.ca, cert=strict_site.cert, key=strict_site.key)
    assert asked(strict_site.url(), network).body == {"peer": "hermes"}


def test_without_a_certificate_who_demands_one_says_so(strict_site):
    with pytest.raises(Unreachable, match=r"TLS|reset|closed|alert|disconnected"):
        asked(strict_site.url(), Network(ca=strict_site.ca))


def test_a_certificate_and_its_key_may_be_one_file(strict_site, tmp_path):
    both = tmp_path / "both.pem"
    both.write_bytes(strict_site.key.read_bytes() + strict_site.cert.read_bytes())
    network = Network(ca=strict_site.ca, cert=both)
    assert asked(strict_site.url(), network).body == {"peer": "hermes"}


def test_certificates_that_cannot_be_read_are_named(tmp_path, site):
    missing, empty = tmp_path / "missing.pem", tmp_path / "empty.pem"
    empty.write_text("")
    sealed = written(tmp_path, "sealed", certificate("s"), password=b"secret word")
    for options in (
        {"ca": missing},
        {"ca": empty},
        {"cert": missing},
        {"cert": site.cert},
        {"cert": sealed[0], "key": sealed[1]},
        {"cert": site.cert, "key": sealed[1]},
    ):
        with pytest.raises(CertificatesUnusable, match=next(iter(options.values())).name):
            Network(**options)
    with pytest.raises(CertificatesUnusable, match="--cert"):
        Network(key=site.key)


def test_a_worker_with_certificates_that_cannot_be_read_ends_with_one_line(
    tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr(program_of_worker, "_log_as_json", lambda: None)
    missing = tmp_path / "missing.pem"
    options = ["--url", "https://localhost:1", "--token", TOKEN, "--agent", "hermes"]
    options += ["--data", str(tmp_path / "data"), "--ca", str(missing), "--", "true"]

    assert program_of_worker.main(options) == program_of_worker.EXIT_UNUSABLE
    assert str(missing) in capsys.readouterr().err


def test_a_proxy_of_the_environment_is_used(site, proxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://anna:hush@127.0.0.1:{proxy.server_port}")
    answer = asked(site.url(NOWHERE), Network(ca=site.ca))

    assert answer.status == 200
    assert proxy.asked == [f"{NOWHERE}:{site.port}"]


def test_the_client_certificate_goes_through_the_proxy_too(strict_site, proxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
    network = Network(ca=strict_site.ca, cert=strict_site.cert, key=strict_site.key)
    assert asked(strict_site.url(NOWHERE), network).body == {"peer": "hermes"}


def test_this_machine_is_never_asked_through_a_proxy(site, proxy, monkeypatch):
    for name in ("HTTPS_PROXY", "HTTP_PROXY", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{proxy.server_port}")
    assert asked(site.url(), Network(ca=site.ca)).status == 200
    plain = Quiet(("127.0.0.1", 0), Answering)
    threading.Thread(target=plain.serve_forever, args=(0.02,), daemon=True).start()
    try:
        assert asked(f"http://127.0.0.1:{plain.server_port}").status == 200
    finally:
        plain.shutdown()
        plain.server_close()
    assert proxy.asked == []


def test_what_no_proxy_names_is_asked_directly(site, proxy, monkeypatch):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
    monkeypatch.setenv("NO_PROXY", "invalid")
    with pytest.raises(Unreachable) as caught:
        asked(site.url(NOWHERE), Network(ca=site.ca))
    assert proxy.asked == []
    assert "proxy" not in str(caught.value)


def test_a_proxy_that_refuses_is_told_by_its_address_and_without_its_password(
    site, proxy, monkeypatch
):
    proxy.refuses = True
    monkeypatch.setenv("HTTPS_PROXY", f"http://anna:hush-hush@127.0.0.1:{proxy.server_port}")
    with pytest.raises(Unreachable) as caught:
        asked(site.url(NOWHERE), Network(ca=site.ca))

    told = str(caught.value)
    assert f"{NOWHERE}:{site.port} through the proxy 127.0.0.1:{proxy.server_port}" in told
    assert "407" in told
    assert "hush-hush" not in told and "anna" not in told


def test_a_connection_that_is_refused_and_a_name_that_is_not_found_say_so():
    with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1: ConnectError: Connection refused"):
        asked("http://127.0.0.1:1")
    with pytest.raises(Unreachable, match=rf"{NOWHERE}:443: ConnectError: .*[a-z]{{4}}"):
        asked(f"https://{NOWHERE}")


def test_the_gateway_reaches_its_providers_as_the_worker_reaches_the_plane(
    site, proxy, monkeypatch
):
    monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{proxy.server_port}")
    network = Network(ca=site.ca, cert=site.cert, key=site.key)
    plane = ControlPlane(
        url="http://127.0.0.1:1", session=Session(worker_id="w", token=TOKEN), network=network
    )
    provider = SimpleNamespace(name="models", base_url=site.url(NOWHERE))
    links = Links(plane, [provider])

    async def ask():
        await links.open()
        try:
            return await links.client(provider).get(provider.base_url)
        finally:
            await links.close_clients()

    assert apart(ask()).json() == {"peer": "hermes"}
    assert proxy.asked == [f"{NOWHERE}:{site.port}"]
    links.close()
    plane.close()


def test_a_cause_is_one_short_line():
    told = cause(OSError("first\nsecond " + "x" * 1000), "https://user:word@plane.test/v1")
    assert len(told) <= MAX_CAUSE_CHARS and "\n" not in told
    assert told.startswith("plane.test:443: OSError: first second")


@pytest.mark.parametrize("host", ["localhost", "a.localhost", "127.0.0.1", "127.9.9.9", "::1"])
def test_this_machine_is_known_by_name_and_address(host, monkeypatch):
    monkeypatch.setenv("HTTP_PROXY", "http://proxy.test:3128")
    url = f"http://[{host}]:1/" if ":" in host else f"http://{host}:1/"
    assert is_loopback(host) and proxy_of(url) == ""
    assert not is_loopback("localhost.test")
    assert proxy_of("http://localhost.test/") == "proxy.test:3128"


def test_the_same_reason_is_told_now_and_then():
    clock = [0.0]
    complaints = Complaints(now=lambda: clock[0])
    assert [complaints.of("a"), complaints.of("a"), complaints.of("a")] == ["a", None, None]
    assert complaints.of("b") == "b"
    clock[0] = 1.0
    assert complaints.of("b") is None
    clock[0] = 1.0 + TOLD_AGAIN_SECONDS
    assert complaints.of("b") == "b (1 more times since)"
    complaints.settle()
    assert complaints.of("b") == "b"


def test_a_plane_that_is_away_is_told_once_with_its_cause(caplog):
    plane = ControlPlane(url="http://127.0.0.1:1", session=Session(worker_id="w", token=TOKEN))
    waits = iter([True] * 5 + [False])
    with caplog.at_level(logging.WARNING), pytest.raises(Exception, match="/v1/jobs"):
        plane.deliver(ASK, wait=lambda seconds: next(waits))
    plane.close()
    told = [record.getMessage() for record in caplog.records if "no answer" in record.getMessage()]
    assert len(told) == 1
    assert "Connection refused" in told[0]


# Renewals ---------------------------------------------------------------------------------------


def renew(site, name):
    """Put another client certificate into the files of a site, as a name is given to a file."""
    beside = site.cert.parent / "new"
    beside.mkdir(exist_ok=True)
    made = written(beside, "client", certificate(name, issuer=site.authority))
    for new, old in zip(made, (site.cert, site.key), strict=True):
        new.replace(old)


class Judge(Answering):
    """A control plane that takes one client certificate, and says so of all others."""

    allowed = "hermes"

    def do_GET(self):
        peer = dict(entry[0] for entry in self.connection.getpeercert()["subject"])
        if peer["commonName"] == Judge.allowed:
            super().do_GET()
            return
        body = {"code": "UNAUTHENTICATED", "reason": "CLIENT_CERTIFICATE_MISMATCH"}
        content = json.dumps(body).encode()
        self.send_response(401)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


@pytest.fixture
def plane_of(request):
    """Return a function that makes a client of a site's control plane."""

    def make(site, **session):
        network = Network(ca=site.ca, cert=site.cert, key=site.key)
        plane = ControlPlane(
            url=site.url(),
            session=Session(worker_id="w", **{"token": TOKEN} | session),
            network=network,
        )
        request.addfinalizer(plane.close)
        return plane

    return make


def test_a_renewed_certificate_is_shown_by_the_next_connection(strict_site, plane_of):
    plane = plane_of(strict_site)
    assert plane.send(ASK).body == {"peer": "hermes"}
    renew(strict_site, "hermes-2")

    assert plane.send(ASK).body == {"peer": "hermes"}, "the connection is the same"
    with plane.network.client() as client:
        assert client.get(strict_site.url()).json() == {"peer": "hermes-2"}


def test_a_refused_certificate_is_shown_no_longer_once_there_is_a_newer_one(strict_site, plane_of):
    strict_site.server.RequestHandlerClass = Judge
    plane = plane_of(strict_site)
    refusals = []
    assert plane.deliver(ASK, wait=refusals.append).body == {"peer": "hermes"}
    Judge.allowed = "hermes-2"
    try:
        with pytest.raises(Refused):
            plane.deliver(ASK, wait=refusals.append)
        renew(strict_site, "hermes-2")
        assert plane.deliver(ASK, wait=refusals.append).body == {"peer": "hermes-2"}
    finally:
        Judge.allowed = "hermes"
    assert refusals == []


def test_a_certificate_in_the_middle_of_its_renewal_changes_nothing(strict_site, plane_of, caplog):
    plane = plane_of(strict_site)
    kept = strict_site.key.read_bytes()
    strict_site.key.write_text("half of a k")
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            with plane.network.client() as client:
                assert client.get(strict_site.url()).json() == {"peer": "hermes"}
    [told] = [each for each in caplog.messages if "serve on" in each]
    assert str(strict_site.key) in told
    strict_site.key.write_bytes(kept)
    renew(strict_site, "hermes-2")
    with plane.network.client() as client:
        assert client.get(strict_site.url()).json() == {"peer": "hermes-2"}


def test_an_authority_that_was_replaced_is_trusted_no_longer(site, tmp_path):
    network = Network(ca=site.ca)
    assert asked(site.url(), network).status == 200
    good = site.ca.read_bytes()
    other = tmp_path / "other"
    other.mkdir()
    written(other, "ca", certificate("Another Authority"))[0].replace(site.ca)
    with pytest.raises(Unreachable, match="not trusted"):
        asked(site.url(), network)
    site.ca.write_bytes(good)
    assert asked(site.url(), network).status == 200


def test_providers_see_the_renewed_certificate_too(site):
    network = Network(ca=site.ca, cert=site.cert, key=site.key)

    async def ask():
        async with network.async_client() as client:
            return (await client.get(site.url())).json()

    assert apart(ask()) == {"peer": "hermes"}
    renew(site, "hermes-2")
    assert apart(ask()) == {"peer": "hermes-2"}


def test_a_renewed_token_is_read_when_the_old_one_is_refused(plane, tmp_path):
    file = tmp_path / "token"
    file.write_text("fp_old.secret")
    session = Session(worker_id="w", token_file=file)
    client = ControlPlane(url=plane.url, session=session)
    plane.routes["/v1/jobs/task-1$"] = lambda seen: (200, {"outcome": "read"})
    try:
        file.write_text("")
        with pytest.raises(Refused):
            client.deliver(ASK, wait=lambda seconds: False)
        file.write_text(TOKEN)
        assert client.deliver(ASK, wait=lambda seconds: False).status == 200
    finally:
        client.close()
    assert [seen.headers["authorization"] for seen in plane.calls("task-1$")] == [
        "Bearer fp_old.secret", "Bearer fp_old.secret", f"Bearer {TOKEN}",
    ]  # fmt: skip
