"""Bearer tokens: drawn once, found again by a prefix, and kept as a hash only.

A token reads `fp_<prefix>.<secret>`.  The stored form is `sha512$$` and the hex SHA-512 of
`<prefix>.<secret>`.  The secret is 256 random bits, so a fast hash without a salt is safe, and it
is on every request's path.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from django.utils.crypto import constant_time_compare, get_random_string

#: Marks our tokens for secret scanners.
TOKEN_MARK = "fp_"
PREFIX_CHARS = 12
#: Of 62 letters and digits each: 256 bits.
SECRET_CHARS = 43
HASH_MARK = "sha512$$"


@dataclass(frozen=True)
class Token:
    """A token that was drawn just now. `text` is for its owner; the other two are stored."""

    text: str
    prefix: str
    hashed: str


def generate() -> Token:
    """Return a new token."""
    prefix = get_random_string(PREFIX_CHARS)
    key = f"{prefix}.{get_random_string(SECRET_CHARS)}"
    return Token(TOKEN_MARK + key, prefix, _hash(key))


def prefix_of(token: str) -> str:
    """Return the prefix under which the token is stored, or "" for text that is no token."""
    key = _key_of(token)
    prefix = key.partition(".")[0]
    usable = key.isascii() and key.isprintable() and len(prefix) == PREFIX_CHARS
    return prefix if usable else ""


def matches(token: str, hashed: str) -> bool:
    """Return whether the stored hash is that of the token, in a time that does not tell."""
    return constant_time_compare(_hash(_key_of(token)), hashed)


def _key_of(token: str) -> str:
    return token.removeprefix(TOKEN_MARK) if token.startswith(TOKEN_MARK) else ""


def _hash(key: str) -> str:
    return HASH_MARK + hashlib.sha512(key.encode()).hexdigest()
