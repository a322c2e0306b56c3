"""Secrets in the words of workers and people: taken out before anything is stored.

Messages, reasons and progress go into rows and audit chains that nothing can edit, and from there
into exports.  What looks like a credential is replaced; members that a digest binds (results,
facts) are never touched.  Whether a write repeats an earlier one is judged by a keyed digest of
what was sent (`fingerprints`), since a digest of the redacted text would take two different
messages for one, and a plain digest of a short secret can be guessed.

Source: the providers' own pages on the forms of their tokens; RFC 6750, RFC 7519, RFC 7468.
"""

from __future__ import annotations

import hashlib
import hmac
import re
from typing import Any

from django.conf import settings

REDACTED = "[redacted]"
#: Keys of members whose values are secrets, whatever they look like.
SECRET_KEY = re.compile(
    r"(pass(word|wd|phrase)?|secret|token|api[_-]?key|authorization|cookie|credential|private)",
    re.IGNORECASE,
)
#: Below this a value under such a key is a count or a word, no secret.
SECRET_CHARS_MIN = 6
_PEM = re.compile(
    r"-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----.*?(?:-----END [A-Z ]{0,40}PRIVATE KEY-----|\Z)", re.S
)
#: Forms by which providers mark what they issue. Each begins with letters that a search can find.
_ISSUED = re.compile(
    r"\b(?:"
    r"fp_[A-Za-z0-9]{8,}\.[A-Za-z0-9]{20,}"
    r"|sk-[A-Za-z0-9_-]{20,}"
    r"|(?:gsk_|xai-|pplx-|hf_|r8_|npm_|whsec_|dop_v1_|shpat_|lin_api_|SG\.)[A-Za-z0-9_.-]{20,}"
    r"|[srp]k_(?:live|test)_[A-Za-z0-9]{10,}"
    r"|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_[A-Za-z0-9_]{20,}|glpat-[A-Za-z0-9_-]{20,}"
    r"|xox[abeoprs]-[A-Za-z0-9-]{10,}|xapp-[A-Za-z0-9-]{20,}"
    r"|(?:AKIA|ASIA)[0-9A-Z]{16}"
    r"|AIza[0-9A-Za-z_-]{35}|ya29\.[0-9A-Za-z_-]{20,}"
    r"|pypi-[A-Za-z0-9_-]{40,}"
    r"|eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*"
    r")"
)
#: `Bearer ...` with a digit in it, and the password in `scheme://user:password@host`.
_CARRIED = re.compile(
    r"(?P<before>\b(?:bearer|basic)[ \t]{1,4})(?=[A-Za-z._~/-]{0,99}[0-9+=])[A-Za-z0-9._~+/=-]{12,}"
    r"|(?P<user>://[^\s/:@]{0,80}:)[^\s/@]{1,200}(?=@)",
    re.IGNORECASE,
)
#: `password=...`: any value; `password: ...`: one with a digit, since `password: incorrect` is a
#: message that somebody needs.
_NAMED = re.compile(
    r"(?P<before>(?:passw(?:or)?d|passphrase|pwd|secret|api[_-]?key|access[_-]?key|token)"
    r"[\"']?(?:[ \t]{0,2}=[ \t]{0,2}|[ \t]{0,2}:[ \t]{0,2}(?=[\"']?[^\s\"',;&]{0,99}[0-9]))[\"']?)"
    r"(?!\[redacted\])[^\s\"',;&]{6,}",
    re.IGNORECASE,
)


def without_secrets(text: str) -> str:
    """Return the text with what looks like a credential replaced by `[redacted]`."""
    text = _PEM.sub(REDACTED, text) if "PRIVATE KEY-----" in text else text
    text = _ISSUED.sub(REDACTED, text)
    text = _CARRIED.sub(lambda at: f"{at['before'] or at['user']}{REDACTED}", text)
    return _NAMED.sub(lambda at: f"{at['before']}{REDACTED}", text)


def cleaned(value: Any) -> Any:
    """Return a JSON value with the secrets in its texts replaced, and texts under secret keys."""
    if isinstance(value, str):
        return without_secrets(value)
    if isinstance(value, list):
        return [cleaned(member) for member in value]
    if isinstance(value, dict):
        return {key: _member(key, member) for key, member in value.items()}
    return value


def fingerprints(content: bytes) -> tuple[str, ...]:
    """Return the keyed digests of what was sent, 64 hexadecimal digits each.

    The first is to be stored. The others are those of the keys of before
    (`SECRET_KEY_FALLBACKS`) and the plain digest, as the first release stored it.
    """
    keys = (settings.SECRET_KEY, *settings.SECRET_KEY_FALLBACKS)
    keyed = (hmac.new(_derived(key), content, hashlib.sha256).hexdigest() for key in keys)
    return (*keyed, hashlib.sha256(content).hexdigest())


def _derived(key: str | bytes) -> bytes:
    raw = key.encode() if isinstance(key, str) else key
    return hashlib.sha256(b"fencepost.redaction:" + raw).digest()


def _member(key: str, value: Any) -> Any:
    if isinstance(value, str) and len(value) >= SECRET_CHARS_MIN and SECRET_KEY.search(key):
        return REDACTED
    return cleaned(value)
