"""The reason that every act of a person gives."""

from __future__ import annotations

from governance.core import redaction
from governance.core.errors import FieldFault, InvalidArgument

REASON_CHARS_MAX = 2000


def required(reason: str) -> str:
    """Return the reason without surrounding blanks, and without what looks like a secret.

    :raises InvalidArgument: it is empty, or too long to be read.
    """
    stripped = reason.strip()
    if not stripped or len(stripped) > REASON_CHARS_MAX:
        raise InvalidArgument(
            "A reason is required.",
            errors=[FieldFault("/reason", f"1 to {REASON_CHARS_MAX} characters")],
        )
    return redaction.without_secrets(stripped)
