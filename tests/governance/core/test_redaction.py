"""What looks like a credential is taken out of words, and nothing else is."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents import tokens
from governance.core.redaction import REDACTED, cleaned, fingerprints, without_secrets

A40 = "A1b2" * 10
SECRETS = [
    "fp_" + "Ab3dEf6hIj9l" + "." + "x9" * 21 + "z",
    f"sk-{A40}",
    f"sk-proj-{A40}",
    f"sk-ant-api03-{A40}",
    f"ghp_{A40}",
    f"github_pat_{A40}",
    f"glpat-{A40}",
    "xoxb-123456789012-abcdef",
    "AKIA" + "ABCDEFGH12345678",
    "AIza" + "Sy" + "b" * 33,
    f"hf_{A40}",
    f"sk_live_{A40}",
    f"eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.{A40}",
    f"pypi-{A40}",
]


@pytest.mark.parametrize("secret", SECRETS)
@pytest.mark.parametrize("sentence", ["{}", "401 for {}: refused", "key=({})", "'{}', then\nmore"])
def test_what_providers_issue_is_taken_out(secret: str, sentence: str) -> None:
    assert secret not in without_secrets(sentence.format(secret))
    assert REDACTED in without_secrets(sentence.format(secret))


@pytest.mark.parametrize(
    ("said", "kept"),
    [
        ("Authorization: Bearer abcdef1234567890", "Authorization: Bearer [redacted]"),
        ("postgresql://me:hunter2@db/x fails", "postgresql://me:[redacted]@db/x fails"),
        ("password=correct-horse&x=1", "password=[redacted]&x=1"),
        ('{"api_key": "abc123def"}', '{"api_key": "[redacted]"}'),
        (
            "-----BEGIN RSA PRIVATE KEY-----\nMIIE\n-----END RSA PRIVATE KEY-----\nwas there",
            "[redacted]\nwas there",
        ),
        ("-----BEGIN PRIVATE KEY-----\nMIIE and cut", "[redacted]"),
    ],
)
def test_what_is_named_a_secret_is_taken_out(said: str, kept: str) -> None:
    assert without_secrets(said) == kept


@pytest.mark.parametrize(
    "said",
    [
        "Unexpected token: identifier at line 3",
        "password: incorrect",
        "1204 tokens, fencing_token: 7, attempt 3 of 6",
        "The task-management-of-everything-and-more-than-that fails",
        "see https://example.org/path@v2?risk-assessment-of-the-whole-thing-in-2024",
        "Bearer of bad news",
        "basic understanding",
        "",
    ],
)
def test_other_words_stay_as_they_are(said: str) -> None:
    assert without_secrets(said) == said


def test_a_token_of_ours_is_taken_out() -> None:
    assert without_secrets(f"401: {tokens.generate().text}") == f"401: {REDACTED}"


def test_a_value_is_cleaned_through_and_keeps_its_shape() -> None:
    progress = {
        "step": 3,
        "tokens": 1204,
        "token": "short",
        "session_token": "abcdefgh",
        "log": ["ok", f"key sk-{A40}"],
        "nested": {"password": ["a", "b"], "done": None},
    }

    assert cleaned(progress) == progress | {
        "session_token": REDACTED,
        "log": ["ok", f"key {REDACTED}"],
    }


@given(st.text())
def test_taking_out_twice_is_taking_out_once(said: str) -> None:
    assert without_secrets(without_secrets(said)) == without_secrets(said)


def test_fingerprints_are_keyed_and_know_the_keys_of_before(settings: object) -> None:
    settings.SECRET_KEY = "new"  # type: ignore[attr-defined]
    settings.SECRET_KEY_FALLBACKS = ["old"]  # type: ignore[attr-defined]
    now = fingerprints(b"hunter2")
    settings.SECRET_KEY = "old"  # type: ignore[attr-defined]
    settings.SECRET_KEY_FALLBACKS = []  # type: ignore[attr-defined]
    before = fingerprints(b"hunter2")

    assert now[0] != before[0] and before[0] in now and now[-1] == before[-1]
    assert fingerprints(b"hunter3")[0] not in now
