from __future__ import annotations

import hashlib
import re

import pytest

from agents import tokens
from agents.models import Agent, Credential
from agents.principals import identify
from governance.core import clock

#: A token and its stored form as the first release made them.
OLD_TOKEN = "fp_Ab3dEf6hIj9l.Zy8xWv7uTs6rQp5oNm4lKj3iHg2fEd1cBa0ZYXWVUTS"
OLD_HASH = (
    "sha512$$364fa2c146b500ba5cbe8bcfa0a6963b34bcdc40a2a131565e3fe00eacfba6df"
    "b6955ceaec10be6d5cc745346e92202d4bcab8afc2e775c9771165ef01a3c00a"
)


def test_a_token_is_drawn_anew_each_time_and_matches_its_own_hash_only():
    one, other = tokens.generate(), tokens.generate()

    assert re.fullmatch(r"fp_[A-Za-z0-9]{12}\.[A-Za-z0-9]{43}", one.text)
    assert one.text.startswith(f"fp_{one.prefix}.")
    assert tokens.prefix_of(one.text) == one.prefix
    assert tokens.matches(one.text, one.hashed)
    assert not tokens.matches(one.text, other.hashed)
    assert one.prefix != other.prefix


def test_what_is_stored_does_not_hold_the_token():
    token = tokens.generate()

    secret = token.text.rpartition(".")[2]
    assert secret not in token.hashed + token.prefix
    key = token.text.removeprefix("fp_")
    assert token.hashed == "sha512$$" + hashlib.sha512(key.encode()).hexdigest()
    assert len(token.hashed) <= Credential._meta.get_field("hashed_key").max_length
    assert len(token.prefix) <= Credential._meta.get_field("prefix").max_length


def test_a_credential_of_the_first_release_is_good_for_ever(world):
    Credential.objects.create(
        agent=Agent.objects.get(name="hermes"),
        prefix="Ab3dEf6hIj9l",
        hashed_key=OLD_HASH,
        scopes=["read"],
        created_at=clock.now(),
        created_by="user:anna",
    )

    assert identify(token=OLD_TOKEN).name == "hermes"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "fp_",
        "Ab3dEf6hIj9l.secret",
        "fp_Ab3dEf6hIj9.secret",
        "fp_Ab3dEf6hIj9lm.secret",
        "fp_Ab3dEf6hIj9\u00e4.secret",
        "fp_Ab3dEf6hIj9l.sec\x00ret",
        "fp_Ab3dEf6hIj9l.secret\n",
    ],
)
def test_text_that_is_no_token_has_no_prefix_to_look_for(text):
    assert tokens.prefix_of(text) == ""


@pytest.mark.parametrize("hashed", ["", "sha512$$", OLD_HASH.upper(), OLD_HASH[:-1], OLD_TOKEN])
def test_only_the_whole_hash_matches(hashed):
    assert tokens.matches(OLD_TOKEN, OLD_HASH)
    assert not tokens.matches(OLD_TOKEN, hashed)
