"""What a worker knows to be secret is in nothing that it says of an attempt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from fencepost_worker import reports
from fencepost_worker.client import Call
from fencepost_worker.journal import Report
from fencepost_worker.redaction import REDACTED, Secrets
from tests.worker.conftest import TOKEN

SECRET = "s3cr3t-value/of the plant"


def secrets(*values: str, **more: Any) -> Secrets:
    return Secrets(values, **({"environment": {}} | more))


def test_a_known_secret_is_replaced_wherever_it_stands() -> None:
    known = secrets(SECRET)

    assert known.of_text(f"a {SECRET} b {SECRET}") == f"a {REDACTED} b {REDACTED}"
    assert known.of_text("GET /?key=s3cr3t-value%2Fof%20the%20plant") == f"GET /?key={REDACTED}"
    assert known.of_json({"a": [SECRET, 1, None, {"b": f"x{SECRET}"}]}) == {
        "a": [REDACTED, 1, None, {"b": f"x{REDACTED}"}]
    }


def test_what_a_cut_has_left_of_a_secret_is_replaced_and_less_is_a_word() -> None:
    known = secrets(SECRET)

    assert known.of_text(f"{SECRET[4:]} failed") == f"{REDACTED} failed"
    assert known.of_text(f"failed: {SECRET[:8]}") == f"failed: {REDACTED}"
    assert known.of_text(f"failed: {SECRET[:7]}") == f"failed: {SECRET[:7]}"


def test_a_longer_secret_is_taken_out_before_the_one_inside_it() -> None:
    assert secrets("12345678", "a-12345678-b").of_text("a-12345678-b, 12345678") == (
        f"{REDACTED}, {REDACTED}"
    )


@pytest.mark.parametrize(
    ("name", "value", "is_secret"),
    [
        ("OPENAI_API_KEY", "long-enough", True),
        ("db_password", "long-enough", True),
        ("GITHUB_TOKEN", "long-enough", True),
        ("SIGNING_KEY", "long-enough", True),
        ("AWS_SECRET_ACCESS_KEY", "long-enough", True),
        ("GITHUB_TOKEN", "short77", False),
        ("HOME", "long-enough", False),
        ("KEYBOARD", "long-enough", False),
        ("PASSAGE", "long-enough", False),
    ],
)
def test_variables_are_secret_by_their_names(name: str, value: str, is_secret: bool) -> None:
    known = secrets(environment={name: value})

    assert (known.of_text(f"x {value} y") != f"x {value} y") is is_secret


def test_a_file_is_read_anew_and_what_it_held_before_stays_secret(tmp_path: Path) -> None:
    path = tmp_path / "key"
    known = secrets(files=[path])
    assert known.of_text("first-key second-key") == "first-key second-key"

    path.write_text("first-key\n")
    assert known.of_text("first-key second-key") == f"{REDACTED} second-key"
    path.write_text("second-key\n")
    assert known.of_text("first-key second-key") == f"{REDACTED} {REDACTED}"


def test_words_are_redacted_and_what_a_digest_binds_is_not() -> None:
    said = {"error_message": SECRET, "progress": {"at": SECRET}, "error_code": "FAILED"}
    bound = {"data": SECRET, "reason": SECRET, "result": {"text": SECRET}}
    report = Report(
        (
            Call("POST", "/v1/jobs/t/fail", said),
            Call("POST", "/v1/jobs/t/reflections", {"what_failed": SECRET}),
            Call("POST", "/v1/jobs/t/complete", bound),
            Call("POST", "/v1/facts", bound),
        )
    )

    fail, reflection, complete, fact = reports.without_secrets(report, secrets(SECRET)).calls

    assert fail.body == {
        "error_message": REDACTED,
        "progress": {"at": REDACTED},
        "error_code": "FAILED",
    }
    assert reflection.body == {"what_failed": REDACTED}
    assert complete.body == fact.body == bound


def test_a_program_that_prints_what_is_secret_tells_nobody(
    plane: Any, spawn_worker: Any, program: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key_file = tmp_path / "key"
    key_file.write_text("key-of-the-endpoint")
    monkeypatch.setenv("PLANT_PASSWORD", "open-sesame-42")
    words = f"{TOKEN} open-sesame-42 key-of-the-endpoint"
    plane.add_job("task-1")
    source = (
        "note = {'note': 'with %s'}\n"
        "pathlib.Path(os.environ['FENCEPOST_PROGRESS']).write_text(json.dumps(note))\n"
        "print('refused: %s', file=sys.stderr)\nsys.exit(3)\n"
    )
    worker = spawn_worker(
        program("import pathlib\n" + source.replace("%s", words)),
        "--once", "--api-key-file", str(key_file),
    )  # fmt: skip

    verb, body = plane.outcome_of("task-1")
    worker.wait(20)

    assert verb == "fail"
    assert body["error_message"] == f"refused: {REDACTED} {REDACTED} {REDACTED}"
    assert body["progress"] == {"note": f"with {REDACTED} {REDACTED} {REDACTED}"}
    sent = json.dumps([call.body for call in plane.calls("")])
    assert not any(word in sent for word in words.split())
