"""The door of machines: who calls, what is well formed, and that every failure is a problem."""

from __future__ import annotations

import base64
import io
import json
import time
from unittest import mock
from urllib.parse import quote
from uuid import UUID

import pytest
from django.db.utils import DataError, InterfaceError, OperationalError
from django.http import Http404
from django.test import Client
from rest_framework import exceptions as drf
from uuid_utils.compat import uuid7

from governance.core.errors import InvalidArgument, ProtocolUnsupported
from governance.operations.shapes import Shape, Text, Whole, faults_of, shaped
from governance.web import problems, reading
from jobs.models import Job
from tests.client import Api, refused

pytestmark = pytest.mark.django_db

TASK = {
    "task_id": "t-1",
    "source": "manual",
    "title": "A title",
    "goal": "A goal that is long enough",
    "task_type": "rewrite",
    "risk_tier": "low",
}


@pytest.fixture
def ops(submitter_token):
    return Api(submitter_token)


def test_a_call_without_a_token_is_unauthenticated_and_says_how_to_authenticate(world):
    response = Api().get("/v1/jobs")

    assert refused(response) == (401, "UNAUTHENTICATED")
    assert response["WWW-Authenticate"] == 'Bearer realm="fencepost"'
    assert response.json()["retry"]["rule"] == "reauthenticate"


def test_an_unknown_token_is_unauthenticated(world):
    assert refused(Api("fp_nothing.at-all").get("/v1/jobs")) == (401, "UNAUTHENTICATED")


def test_a_missing_scope_is_refused_before_the_request_is_read(issue):
    reader = Api(issue(submitter="reader", scopes=["read"]))

    response = reader.post("/v1/jobs?what=ever", raw=b"{not json", Idempotency_Key="no uuid")

    assert refused(response) == (403, "PERMISSION_DENIED")
    assert response.json()["retry"]["rule"] == "stop"


def test_an_unknown_query_parameter_is_refused(ops):
    response = ops.get("/v1/jobs?state=queued&colour=red&shape=round")

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert len(response.json()["errors"]) == 2


def test_a_query_parameter_that_is_given_twice_is_refused(ops):
    response = ops.get("/v1/jobs?state=queued&state=held&page_size=1")

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert response.json()["errors"] == [{"pointer": "/state", "detail": "given more than once"}]


@pytest.mark.parametrize(
    "cursor",
    [
        *("", "AAAA", "no base64!", "\u00fc"),
        *(
            base64.b64encode(said).decode()
            for said in (b"p=x", b"p=", b"r=1", b"o=1", b"r=2&p=1", b"p=1&p=2", b"p=-1")
        ),
        base64.b64encode(b"p=" + b"9" * 30).decode(),
    ],
)
def test_a_cursor_that_no_page_has_given_is_refused(ops, cursor):
    response = ops.get(f"/v1/jobs?cursor={quote(cursor)}")

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["/cursor"]


@pytest.mark.parametrize("size", ["0", "-1", "many", "1.5", "", "1_0", "\u0663"])
def test_a_page_size_is_a_whole_number(ops, size):
    response = ops.get(f"/v1/jobs?page_size={quote(size)}")

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert [fault["pointer"] for fault in response.json()["errors"]] == ["/page_size"]


@pytest.mark.parametrize(
    "raw",
    [
        b"{",
        b'{"a": 1, "a": 2}',
        b'{"a": NaN}',
        b'{"a": "\\ud800"}',
        b'{"a": "\\u0000"}',
        b'{"a": 9007199254740993}',
        b"\xff\xfe",
        b"[" * 5000 + b"]" * 5000,
    ],
)
def test_a_body_that_is_not_strict_json_is_refused(ops, raw):
    assert refused(ops.post("/v1/jobs", raw=raw)) == (400, "INVALID_ARGUMENT")
    assert Job.objects.count() == 0


def test_every_fault_of_a_body_is_listed_with_its_pointer(ops):
    bad = {**TASK, "title": "tiny", "a/b~c": 1, "labels": {"x": 5}, "max_attempts": True}
    del bad["goal"]

    response = ops.post("/v1/jobs", bad)

    assert refused(response) == (400, "INVALID_ARGUMENT")
    pointers = [fault["pointer"] for fault in response.json()["errors"]]
    assert sorted(pointers) == ["/a~1b~0c", "/goal", "/labels", "/max_attempts", "/title"]


def test_a_body_of_another_media_type_is_refused(ops):
    response = Client().post(
        "/v1/jobs", json.dumps(TASK), content_type="text/plain", headers=ops.headers
    )

    assert refused(response) == (415, "UNSUPPORTED_MEDIA_TYPE")


def test_a_body_above_the_limit_is_refused(ops):
    response = ops.post("/v1/jobs", raw=b'"' + b"x" * reading.BODY_BYTES_MAX + b'"')

    assert refused(response) == (413, "PAYLOAD_TOO_LARGE")


@pytest.mark.parametrize(
    ("method", "path", "expected"),
    [
        ("get", "/v1/nothing", (404, "NOT_FOUND")),
        ("get", "/v1", (404, "NOT_FOUND")),
        ("post", "/v1/", (404, "NOT_FOUND")),
        ("put", "/objects/none", (404, "NOT_FOUND")),
        ("get", "/objects/", (404, "NOT_FOUND")),
        ("get", "/v1/jobs/", (404, "NOT_FOUND")),
        ("delete", "/v1/jobs", (405, "METHOD_NOT_ALLOWED")),
        ("patch", "/v1/jobs", (405, "METHOD_NOT_ALLOWED")),
        ("options", "/v1/jobs", (405, "METHOD_NOT_ALLOWED")),
        ("get", "/v1/claims", (405, "METHOD_NOT_ALLOWED")),
    ],
)
def test_what_no_view_answers_is_a_problem_as_well(ops, method, path, expected):
    response = getattr(Client(), method)(path, headers=ops.headers)

    assert refused(response) == expected
    assert response["Content-Type"] == "application/problem+json"
    if expected[0] == 405:
        assert response["Allow"]


@pytest.mark.parametrize("path", ["/v1", "/v1/jobs", "/objects/none"])
def test_a_wrong_host_is_a_problem_that_says_so(ops, path):
    response = Client(headers={"host": "evil.example"}).get(path)

    assert refused(response) == (400, "INVALID_ARGUMENT")
    assert "Host header" in response.json()["detail"]
    assert response["Content-Length"] == str(len(response.content))


def test_what_a_client_accepts_changes_nothing(ops):
    response = ops.get("/v1/jobs", Accept="application/xml")

    assert (response.status_code, response["Content-Type"]) == (200, "application/json")


@pytest.mark.parametrize("debug", [True, False])
def test_an_unforeseen_error_is_a_problem_that_shows_nothing(ops, settings, debug):
    settings.DEBUG = debug
    with mock.patch("jobs.queries.visible_jobs", side_effect=RuntimeError("the secret")):
        response = ops.get("/v1/jobs")

    assert refused(response) == (500, "INTERNAL")
    assert response.json()["effect"] == "unknown"
    assert b"secret" not in response.content


def _database_error(kind, sqlstate):
    cause = Exception()
    cause.sqlstate = sqlstate
    error = kind()
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "reason", "status"),
    [
        (_database_error(OperationalError, "55P03"), "CONTENTION", 503),
        (_database_error(OperationalError, "40001"), "CONTENTION", 503),
        (_database_error(OperationalError, "40P01"), "CONTENTION", 503),
        (_database_error(OperationalError, "57014"), "CONTENTION", 503),
        (_database_error(OperationalError, "57P01"), "UNAVAILABLE", 503),
        (_database_error(OperationalError, None), "UNAVAILABLE", 503),
        (_database_error(InterfaceError, None), "UNAVAILABLE", 503),
        (_database_error(DataError, "22003"), "INVALID_ARGUMENT", 400),
        (Http404(), "NOT_FOUND", 404),
        (drf.Throttled(), "RATE_LIMITED", 429),
    ],
)
def test_errors_of_frameworks_have_a_reason_of_ours(error, reason, status):
    refusal = problems.refusal_of(error)

    assert (refusal.reason, refusal.status) == (reason, status)
    response = problems.problem(refusal, method="POST")
    assert response.has_header("Retry-After") == (status == 503)


def test_a_lock_that_is_not_to_be_had_is_contention_with_the_same_key(ops):
    error = _database_error(OperationalError, "55P03")
    with mock.patch("jobs.queries.visible_jobs", side_effect=error):
        response = ops.get("/v1/jobs")

    assert refused(response) == (503, "CONTENTION")
    assert response["Retry-After"] == "1"
    assert response.json()["retry"] == {"rule": "same_key", "after_seconds": 1}
    assert response.json()["effect"] == "none"


def test_a_request_id_is_echoed_when_it_is_well_formed_and_made_otherwise(ops):
    assert ops.get("/v1/jobs", Request_Id="abc-123")["Request-Id"] == "abc-123"
    made = ops.get("/v1/jobs", Request_Id="a b\tc")["Request-Id"]
    assert made != "a b\tc" and len(made) == 36
    assert len(ops.get("/v1/jobs", Request_Id="x" * 65)["Request-Id"]) == 36


def test_the_request_id_is_the_instance_of_a_problem(world):
    response = Api().get("/v1/jobs", Request_Id="abc-123")

    assert response.json()["instance"] == "urn:fencepost:request:abc-123"


def test_the_request_id_is_in_the_audit_event(ops):
    ops.post("/v1/jobs", TASK, Request_Id="abc-123")

    [event] = ops.get("/v1/jobs/t-1/events").json()["results"]
    assert event["request_id"] == "abc-123"


@pytest.mark.parametrize("version", ["1", "1.0"])
def test_a_supported_protocol_version_is_served(ops, version):
    assert ops.get("/v1/jobs", Fencepost_Protocol=version).status_code == 200


@pytest.mark.parametrize("version", ["0", "0.9", "2", "1.1", "one", "1.0.0", "-1"])
def test_another_protocol_version_is_refused_with_the_supported_range(ops, version):
    response = ops.get("/v1/jobs", Fencepost_Protocol=version)

    assert refused(response) == (400, ProtocolUnsupported.reason)
    assert response.json()["current"] == {"supported": {"min": "1.0", "max": "1.0"}}


@pytest.mark.parametrize(
    "key",
    [
        "",
        " ",
        '""',
        "01a2286c-cd7b-725c-bb7f-8ef4a77befac,01a2286c-cd7b-725c-bb7f-8ef4a77befac",
        "abc",
        '"',
        "'01a2286c-cd7b-725c-bb7f-8ef4a77befac'",
    ],
)
def test_a_key_that_is_no_uuid_is_refused(ops, key):
    response = ops.post("/v1/jobs", TASK, Idempotency_Key=key)

    assert refused(response) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert Job.objects.count() == 0


def test_an_empty_session_is_not_the_same_as_none(hermes_token):
    beat = {"leases": [{"task_id": "t", "attempt": 1, "fencing_token": 1}]}

    response = Api(hermes_token).post("/v1/leases/heartbeat", beat, Fencepost_Session="")

    assert refused(response) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("tag", ["", "foo", '"r1', '"r1", "r2"', "r1,r1", 'w/"r1"', "1.0"])
def test_a_malformed_entity_tag_is_refused(openclaw_token, make_job, tag):
    job = make_job(task_type="rewrite")
    path = f"/v1/jobs/{job.task_id}/claim"

    response = Api(openclaw_token).post(path, {"worker_id": "w"}, If_Match=tag)

    assert refused(response) == (400, "INVALID_ARGUMENT")
    job.refresh_from_db()
    assert job.state == "queued"


@pytest.mark.parametrize("tag", ['"r7"', "r7", "7", 'W/"r1"', '"another"'])
def test_an_entity_tag_that_the_job_does_not_have_is_a_failed_precondition(
    openclaw_token, make_job, tag
):
    job = make_job(task_type="rewrite")
    path = f"/v1/jobs/{job.task_id}/claim"

    response = Api(openclaw_token).post(path, {"worker_id": "w"}, If_Match=tag)

    assert refused(response) == (412, "REVISION_MISMATCH")
    job.refresh_from_db()
    assert job.state == "queued"


class _Chunks(io.BytesIO):
    """A body without a length, as a server gives it: it ends, or breaks off."""

    def __init__(self, content, *, broken=False):
        super().__init__(content)
        self.broken = broken

    def read(self, *size):
        if self.broken:
            raise RuntimeError("an invalid chunk")  # not of a kind that we know
        return super().read(*size)


def in_chunks(ops, stream):
    return Client().generic(
        "POST",
        "/v1/jobs",
        headers=ops.headers | {"Transfer-Encoding": "chunked"},
        **{
            "CONTENT_TYPE": "application/json",
            "wsgi.input": stream,
            "wsgi.input_terminated": True,
        },
    )


def test_a_body_in_chunks_is_read_like_any_other(ops):
    assert in_chunks(ops, _Chunks(json.dumps(TASK).encode())).status_code == 201
    large = _Chunks(b'"' + b"x" * reading.BODY_BYTES_MAX + b'"')
    assert refused(in_chunks(ops, large)) == (413, "PAYLOAD_TOO_LARGE")
    broken = in_chunks(ops, _Chunks(b"", broken=True))
    assert refused(broken) == (400, "INVALID_ARGUMENT")
    assert "chunks" in broken.json()["detail"]


def test_a_key_that_is_older_than_the_records_is_never_executed(ops):
    old = "01700000-0000-7000-8000-000000000000"

    response = ops.post("/v1/jobs", TASK, Idempotency_Key=old)

    assert refused(response) == (422, "IDEMPOTENCY_KEY_EXPIRED")
    assert Job.objects.count() == 0


def test_a_key_from_the_future_would_outlive_its_record(ops):
    ahead = int((time.time() + 2 * 86_400) * 1000)
    early = str(UUID(int=(ahead << 80) | (7 << 76) | (2 << 62) | 1))

    response = ops.post("/v1/jobs", TASK, Idempotency_Key=early)

    assert refused(response) == (400, "IDEMPOTENCY_KEY_INVALID")
    assert Job.objects.count() == 0


def test_the_same_key_gives_the_same_bytes_quoted_or_not(ops):
    key = str(uuid7())

    first = ops.post("/v1/jobs", TASK, Idempotency_Key=key)
    again = ops.post("/v1/jobs", TASK, Idempotency_Key=f'"{key}"')

    assert (first.status_code, again.status_code) == (201, 201)
    assert again.content == first.content
    assert again["ETag"] == first["ETag"]
    assert again["Idempotent-Replayed"] == "true"
    assert not first.has_header("Idempotent-Replayed")


def test_the_order_of_members_does_not_make_another_request(ops):
    key = str(uuid7())
    ops.post("/v1/jobs", TASK, Idempotency_Key=key)

    again = ops.post("/v1/jobs", dict(reversed(TASK.items())), Idempotency_Key=key)

    assert again["Idempotent-Replayed"] == "true"


def test_a_key_with_other_content_is_refused_and_nothing_is_overwritten(ops):
    key = str(uuid7())
    ops.post("/v1/jobs", TASK, Idempotency_Key=key)

    response = ops.post("/v1/jobs", {**TASK, "task_id": "t-2"}, Idempotency_Key=key)

    assert refused(response) == (422, "IDEMPOTENCY_KEY_REUSED")
    assert list(Job.objects.values_list("task_id", flat=True)) == ["t-1"]


def test_a_shape_error_does_not_use_the_key_up(ops):
    key = str(uuid7())
    assert ops.post("/v1/jobs", {**TASK, "title": "x"}, Idempotency_Key=key).status_code == 400

    assert ops.post("/v1/jobs", TASK, Idempotency_Key=key).status_code == 201


class _Inner(Shape):
    count = Whole(min_value=1)


class _Outer(Shape):
    name = Text(max_length=3)
    inner = _Inner()


@pytest.mark.parametrize("value", ["5", 5.0, True, None, 2**53])
def test_an_integer_is_an_integer_and_nothing_else(value):
    with pytest.raises(InvalidArgument) as refusal:
        shaped(_Outer, {"name": "a", "inner": {"count": value}})

    assert [fault.pointer for fault in refusal.value.errors] == ["/inner/count"]


def test_a_body_of_another_type_is_one_fault_of_the_whole():
    with pytest.raises(InvalidArgument) as refusal:
        shaped(_Outer, [])

    assert [fault.pointer for fault in refusal.value.errors] == [""]


def test_pointers_reach_into_lists():
    assert [fault.pointer for fault in faults_of({"a": {0: ["x"]}, "b": [{}, {"c": ["y"]}]})] == [
        "/a/0",
        "/b/1/c",
    ]
