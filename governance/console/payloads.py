"""Payloads on a page: redacted, bounded, and only for who may see them."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.utils.module_loading import import_string

from governance.console.wording import pretty
from governance.core.redaction import REDACTED, SECRET_KEY
from governance.core.redaction import without_secrets as words_without_secrets

#: Characters of one payload that a page shows; the whole is a download away.
SHOWN_MAX = 20_000


@dataclass(frozen=True)
class Payload:
    """One payload as a page shows it. `text` is None for who may only know the digest."""

    name: str
    text: str | None
    sha256: str
    length: int

    @property
    def cut(self) -> bool:
        return self.text is not None and self.length > len(self.text)


def shown(name: str, value: Any, *, allowed: bool, whole: bool = False) -> Payload | None:
    """Return what a page may show of `value`; None where there is nothing to show.

    :param allowed: whether the reader may see payloads at all.
    :param whole: for a download: redacted as always, but not cut.
    """
    if value in (None, "", {}, []):
        return None
    raw = json.dumps(value, sort_keys=True, ensure_ascii=False, separators=(",", ":"), default=str)
    sha256 = hashlib.sha256(raw.encode()).hexdigest()
    if not allowed:
        return Payload(name, None, sha256, len(raw))
    cleaned = redacted(value)
    text = cleaned if isinstance(cleaned, str) else pretty(cleaned)
    return Payload(name, text if whole else text[:SHOWN_MAX], sha256, len(text))


def redacted(value: Any) -> Any:
    """Return `value` without what looks like a secret, by the hook that settings name."""
    hook = getattr(settings, "FENCEPOST_REDACT", "")
    return import_string(hook)(value) if hook else without_secrets(value)


def without_secrets(value: Any) -> Any:
    """Return `value` with every member replaced whose key names a secret, and secrets in texts."""
    if isinstance(value, dict):
        return {
            key: REDACTED if SECRET_KEY.search(str(key)) else without_secrets(member)
            for key, member in value.items()
        }
    if isinstance(value, list):
        return [without_secrets(member) for member in value]
    return words_without_secrets(value) if isinstance(value, str) else value
