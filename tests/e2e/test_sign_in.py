"""Signing in with a second factor, and with an issuer: a server with both, and a browser's moves.

The server is a process of its own on a database of its own: which apps there are is decided when
a process starts.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import httpx2
import jwt
import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from django.db import connection

from tests import children

pytestmark = [pytest.mark.slow, pytest.mark.timeout(180)]

DATABASE = "fencepost_sign_in"
PASSWORD = "correct horse battery"
PEOPLE = ("anna", "berta", "clara", "dora", "emma")
SERVE = f"""
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.servers.basehttp import ThreadedWSGIServer, WSGIRequestHandler
from django.core.wsgi import get_wsgi_application
from jobs import bootstrap
call_command("migrate", verbosity=0)
bootstrap.install()
for name in {PEOPLE!r}:
    user = User.objects.create_user(name, password={PASSWORD!r}, is_staff=True)
    user.groups.add(Group.objects.get(name="operator"))
server = ThreadedWSGIServer(("127.0.0.1", 0), WSGIRequestHandler)
server.set_app(get_wsgi_application())
print("PORT", server.server_port, flush=True)
server.serve_forever()
"""


class Issuer(ThreadingHTTPServer):
    """An OpenID Connect issuer that says of everybody what `claims` holds."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Door)
        self.url = f"http://127.0.0.1:{self.server_port}"
        self.key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        self.claims: dict[str, Any] = {}
        self.userinfo: dict[str, Any] = {}
        self.challenge = ""

    def says(self, **claims: Any) -> None:
        self.claims, self.userinfo = claims, {"sub": claims["sub"]} | claims


class _Door(BaseHTTPRequestHandler):
    server: Issuer

    def log_message(self, *args: Any) -> None: ...

    def answer(self, body: dict[str, Any], status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(json.dumps(body).encode())

    def do_GET(self) -> None:
        issuer, asked = self.server, urlsplit(self.path)
        if asked.path == "/.well-known/openid-configuration":
            self.answer(
                {
                    "issuer": issuer.url,
                    "authorization_endpoint": f"{issuer.url}/authorize",
                    "token_endpoint": f"{issuer.url}/token",
                    "userinfo_endpoint": f"{issuer.url}/userinfo",
                    "jwks_uri": f"{issuer.url}/jwks",
                    "token_endpoint_auth_methods_supported": ["client_secret_post"],
                }
            )
        elif asked.path == "/authorize":
            query = {name: values[0] for name, values in parse_qs(asked.query).items()}
            assert query["client_id"] == "console" and query["code_challenge_method"] == "S256"
            issuer.challenge = query["code_challenge"]
            back = urlencode({"code": "a-code", "state": query["state"]})
            self.send_response(302)
            self.send_header("Location", f"{query['redirect_uri']}?{back}")
            self.end_headers()
        elif asked.path == "/userinfo":
            self.answer(issuer.userinfo)

    def do_POST(self) -> None:
        issuer = self.server
        sent = parse_qs(self.rfile.read(int(self.headers["Content-Length"])).decode())
        digest = hashlib.sha256(sent["code_verifier"][0].encode()).digest()
        known = sent["client_secret"] == ["a secret"] and sent["code"] == ["a-code"]
        if not known or base64.urlsafe_b64encode(digest).rstrip(b"=").decode() != issuer.challenge:
            return self.answer({"error": "invalid_grant"}, status=400)
        at = int(time.time())
        token = issuer.claims | {"iss": issuer.url, "aud": "console", "iat": at, "exp": at + 60}
        self.answer(
            {
                "access_token": "an-access-token",
                "token_type": "Bearer",
                "id_token": jwt.encode(token, issuer.key, algorithm="RS256"),
            }
        )


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with Issuer() as served:
        threading.Thread(target=served.serve_forever, daemon=True).start()
        yield served
        served.shutdown()


@pytest.fixture(scope="module")
def console_environment(
    issuer: Issuer, django_db_setup: None, django_db_blocker: Any
) -> Iterator[dict[str, str]]:
    with django_db_blocker.unblock(), connection.cursor() as cursor:
        name = f"{DATABASE}_{connection.settings_dict['NAME']}"[:63]
        cursor.execute(f'CREATE DATABASE "{name}"')
        dsn = children.environment()["FENCEPOST_DSN"].replace(
            f"/{connection.settings_dict['NAME']}?", f"/{name}?"
        )
        yield {
            "FENCEPOST_DSN": dsn,
            "FENCEPOST_URL": "http://127.0.0.1",
            "FENCEPOST_TOTP": "required",
            "FENCEPOST_OIDC_ISSUER": issuer.url,
            "FENCEPOST_OIDC_CLIENT_ID": "console",
            "FENCEPOST_OIDC_CLIENT_SECRET": "a secret",
            "FENCEPOST_OIDC_GROUPS": "governor=platform",
            "FENCEPOST_OIDC_GROUPS_CLAIM": "roles.fencepost",
        }
        cursor.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="module")
def served(console_environment: dict[str, str]) -> Iterator[str]:
    server = children.start_python(SERVE, **console_environment)
    assert server.stdout
    told: list[str] = []
    for line in server.stdout:
        told.append(line)
        if line.startswith("PORT "):
            break
    else:
        raise AssertionError("".join(told))
    threading.Thread(target=server.stdout.read, daemon=True).start()
    yield f"http://127.0.0.1:{line.split()[1]}"
    server.kill()
    server.wait()
    server.stdout.close()


class Visitor(httpx2.Client):
    """Follows redirects and sends forms with their token."""

    def __init__(self, served: str) -> None:
        super().__init__(base_url=served, follow_redirects=True, trust_env=False, timeout=30)

    def submit(self, path: str, **fields: str) -> httpx2.Response:
        page = self.get(path)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token, f"{page.status_code} {page.url} {page.text}"
        return self.post(path, data=fields | {"csrfmiddlewaretoken": token.group(1)})

    def sign_in(self, name: str, password: str = PASSWORD) -> httpx2.Response:
        return self.submit("/sign-in/", login=name, password=password, next="/admin/")

    def enrol(self) -> str:
        """Set up the authenticator app, having said the password again; return its secret."""
        self.submit("/sign-in/again/", password=PASSWORD)
        path = "/sign-in/second-factor/app/"
        page = self.get(path)  # each look at it makes a new secret
        secret = re.search(r'value="([A-Z2-7]{16,})"', page.text)
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert secret and token, page.text
        fields = {"code": code(secret.group(1)), "csrfmiddlewaretoken": token.group(1)}
        done = self.post(path, data=fields)
        assert done.url.path == "/sign-in/second-factor/codes/", done.text
        return secret.group(1)

    def through_issuer(self) -> httpx2.Response:
        page = self.get("/sign-in/")
        token = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
        assert token
        return self.post("/sign-in/issuer/", data={"csrfmiddlewaretoken": token.group(1)})


@pytest.fixture
def visitor(served: str) -> Iterator[Visitor]:
    with Visitor(served) as opened:
        yield opened


def code(secret: str, periods_on: int = 0) -> str:
    """Return the code of an authenticator app; each is good once, so the next is one period on."""
    counter = int(time.time()) // 30 + periods_on
    digest = hmac.digest(base64.b32decode(secret), counter.to_bytes(8, "big"), "sha1")
    offset = digest[-1] & 15
    number = int.from_bytes(digest[offset : offset + 4], "big") & 0x7FFF_FFFF
    return f"{number % 1_000_000:06}"


def test_without_a_second_factor_the_console_is_shut_until_one_is_set_up(
    served: str, visitor: Visitor
) -> None:
    page = visitor.sign_in("anna")
    assert page.url.path == "/sign-in/again/"
    assert "style=" not in page.text and "<style" not in page.text
    assert visitor.get("/admin/inbox/").url.path == "/sign-in/again/"
    secret = visitor.enrol()
    assert "Unused codes" in visitor.get("/sign-in/second-factor/codes/").text
    assert visitor.get("/admin/").url.path == "/admin/"

    with Visitor(served) as later:
        page = later.sign_in("anna")
        assert page.url.path == "/sign-in/second-factor/code/"
        assert later.get("/admin/").url.path == "/sign-in/second-factor/code/"
        assert later.submit("/sign-in/second-factor/code/", code="000000").status_code == 200
        page = later.submit("/sign-in/second-factor/code/", code=code(secret, 1))
        assert page.url.path == "/admin/" and page.status_code == 200


def test_five_wrong_passwords_lock_the_name_also_for_the_right_one(visitor: Visitor) -> None:
    answers = [visitor.sign_in("berta", "wrong").status_code for _ in range(5)]
    assert answers[:4] == [200] * 4
    assert answers[4] in {403, 429}
    page = visitor.sign_in("berta")
    assert (page.url.path, page.status_code) == ("/sign-in/", answers[4]), page.history
    assert visitor.get("/admin/").url.path == "/sign-in/"


def test_five_wrong_codes_lock_the_name_also_for_the_right_one(
    served: str, visitor: Visitor
) -> None:
    visitor.sign_in("clara")
    secret = visitor.enrol()
    with Visitor(served) as thief:
        thief.sign_in("clara")
        path = "/sign-in/second-factor/code/"
        answers = [thief.submit(path, code="000000").status_code for _ in range(5)]
        assert answers[:4] == [200] * 4
        assert answers[4] in {403, 429}
        assert thief.submit(path, code=code(secret, 1)).status_code == answers[4]
        assert thief.get("/admin/").url.path != "/admin/"


def test_who_takes_the_second_factor_away_has_to_set_up_another(visitor: Visitor) -> None:
    visitor.sign_in("dora")
    visitor.enrol()
    visitor.submit("/sign-in/second-factor/app/remove/")
    assert visitor.get("/admin/").url.path == "/sign-in/second-factor/app/"


def test_a_lost_second_factor_is_reset_by_a_command(
    console_environment: dict[str, str], served: str, visitor: Visitor
) -> None:
    visitor.sign_in("emma")
    visitor.enrol()
    command = ("create_operator", "emma", "--reset-second-factor", "--reason", "Lost the phone.")
    process = children.start(*command, **console_environment)
    assert process.wait(60) == 0, process.communicate()[0]
    process.communicate()
    with Visitor(served) as later:
        page = later.sign_in("emma")
        assert page.url.path == "/sign-in/again/"
        assert "second-factor%2Fapp" in str(page.url)


def test_no_page_of_allauth_lets_anybody_sign_up_or_around(visitor: Visitor) -> None:
    for path in ("signup/", "password/reset/", "email/", "issuer/signup/"):
        assert visitor.get(f"/sign-in/{path}").status_code == 404
    page = visitor.get("/admin/login/?next=/admin/inbox/")
    assert page.url.path == "/sign-in/"
    policy = page.headers["Content-Security-Policy"]
    assert "script-src 'self'" in policy and "unsafe" not in policy


def test_the_issuer_makes_accounts_and_its_groups_are_the_groups(
    issuer: Issuer, served: str, visitor: Visitor
) -> None:
    assert (
        f"form-action 'self' {issuer.url}"
        in visitor.get("/sign-in/").headers["Content-Security-Policy"]
    )
    issuer.says(sub="7", preferred_username="frieda", roles={"fencepost": ["platform", "other", 3]})
    page = visitor.through_issuer()
    assert (page.url.path, page.status_code) == ("/admin/", 200), page.text
    assert "frieda" in page.text
    assert visitor.get("/admin/agents/agent/").status_code == 200

    # Renamed there, and in no group any more: the same account, and shut for the first session.
    issuer.says(sub="7", preferred_username="friederike", roles={"fencepost": ["other"]})
    with Visitor(served) as later:
        page = later.through_issuer()
        assert page.status_code == 403
        assert "names no group" in page.text
        assert later.get("/admin/").url.path == "/sign-in/"
    assert visitor.get("/admin/agents/agent/").status_code == 403


@pytest.mark.parametrize("name", ["berta", "", "no spaces"])
def test_the_issuer_takes_over_no_account_that_is_there(
    issuer: Issuer, visitor: Visitor, name: str
) -> None:
    issuer.says(sub="8", preferred_username=name, roles={"fencepost": "operator"})
    page = visitor.through_issuer()
    assert page.status_code == 403
    assert "No account can be made" in page.text


def test_what_was_told_of_somebody_else_counts_for_nothing(
    issuer: Issuer, visitor: Visitor
) -> None:
    issuer.says(sub="9", preferred_username="gerda", roles={"fencepost": ["platform"]})
    issuer.userinfo["sub"] = "7"
    page = visitor.through_issuer()
    assert page.status_code == 403
    assert "clearly" in page.text


@pytest.mark.parametrize(
    ("over", "told"),
    [
        ({"FENCEPOST_TOTP": "optional"}, "no issues"),
        (
            {
                "FENCEPOST_OIDC_ISSUER": "https://id.example.org",
                "FENCEPOST_OIDC_CLIENT_ID": "console",
                "FENCEPOST_OIDC_CLIENT_SECRET": "a secret",
            },
            "no issues",
        ),
        ({"FENCEPOST_TOTP": "yes"}, "optional, required, or not set"),
        ({"FENCEPOST_OIDC_ISSUER": "https://id.example.org"}, "set all three or none"),
        (
            {
                "FENCEPOST_OIDC_ISSUER": "http://id.example.org",
                "FENCEPOST_OIDC_CLIENT_ID": "console",
                "FENCEPOST_OIDC_CLIENT_SECRET": "a secret",
            },
            "governance.E004",
        ),
    ],
)
def test_each_way_is_set_up_alone_or_refused(over: dict[str, str], told: str) -> None:
    process = children.start("check", **over)
    try:
        output, _ = process.communicate(timeout=60)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    assert told in output
