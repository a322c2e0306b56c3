"""Secrets that this worker knows: taken out of what it says of an attempt before that is sent.

Its token, the key of its endpoint, and what its environment names as secret.  What a digest binds
(results, facts) is never touched; the control plane takes out what looks like a secret of others.
"""

import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote

REDACTED = "[redacted]"
#: Below this a value is a word that stands in many messages, and no secret.
SECRET_CHARS_MIN = 8
#: Names of variables whose values are secrets.
SECRET_NAME = re.compile(
    r"(PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIAL|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY)"
    r"|_(KEY|PWD|PASS)$",
    re.IGNORECASE,
)


class Secrets:
    """What must not be said. Values of files are read anew, and remembered: they are rotated."""

    def __init__(
        self,
        values: Iterable[str] = (),
        *,
        files: Iterable[Path] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """Know the values, those in the files, and those that variables are named as secret for.

        :param environment: default that of this process.
        """
        environment = os.environ if environment is None else environment
        named = [value for name, value in environment.items() if SECRET_NAME.search(name)]
        self._files = tuple(files)
        # Replaced as a whole, since heartbeats read it beside those who learn.
        self._known: frozenset[str] = frozenset()
        self._learn([*values, *named])

    def of_text(self, text: str) -> str:
        """Return the text without the secrets, and without the part of one that a cut has left."""
        self._read_files()
        # A longer one may have a shorter one inside.
        for secret in sorted(self._known, key=len, reverse=True):
            text = text.replace(secret, REDACTED)
            text = _without_remains(text, secret)
        return text

    def of_json(self, value: Any) -> Any:
        """Return a JSON value without the secrets in its texts."""
        if isinstance(value, str):
            return self.of_text(value)
        if isinstance(value, list):
            return [self.of_json(member) for member in value]
        if isinstance(value, dict):
            return {name: self.of_json(member) for name, member in value.items()}
        return value

    def _read_files(self) -> None:
        for path in self._files:
            try:
                self._learn([path.read_text()])
            except (OSError, ValueError):
                continue  # whoever needs it says so

    def _learn(self, values: Iterable[str]) -> None:
        stripped = {value.strip() for value in values}
        self._known = self._known | {
            form
            for value in stripped
            if len(value) >= SECRET_CHARS_MIN
            for form in (value, quote(value, safe=""))
        }


def _without_remains(text: str, secret: str) -> str:
    """Return a text without the end of a secret at its beginning, and the beginning at its end."""
    for length in range(len(secret) - 1, SECRET_CHARS_MIN - 1, -1):
        if text.startswith(secret[-length:]):
            text = REDACTED + text[length:]
        if text.endswith(secret[:length]):
            text = text[:-length] + REDACTED
    return text
