"""Frozen selections: the rows that an operator saw and meant, signed into the page that asks."""

from __future__ import annotations

from dataclasses import dataclass
from uuid import UUID

from django.core import signing
from uuid_utils.compat import uuid7

#: More rows than this are refused; the operator narrows the filter.
SELECTION_MAX = 1000
#: More rows than this ask for a typed phrase.
PHRASE_ABOVE = 20
#: A confirmation page that is older than this shows too old a world to act on.
SELECTION_VALID_SECONDS = 3600
#: The key of a verb that makes a row.
NEW = "new"
SELECTION_SALT = "fencepost.console.selection"


@dataclass(frozen=True)
class Selection:
    """The rows that an operator saw and meant, by key, and the id of the run they become.

    `revisions` holds those that the rows had then, where the verb depends on it.
    """

    run_id: UUID
    model: str
    keys: tuple[str, ...]
    user_id: int
    revisions: dict[str, int]

    def sign(self) -> str:
        """Return the selection as a token that a form can carry and nobody can change."""
        value = {
            "r": str(self.run_id),
            "m": self.model,
            "k": self.keys,
            "u": self.user_id,
            "v": self.revisions,
        }
        return signing.dumps(value, salt=SELECTION_SALT, compress=True)


class SelectionInvalid(ValueError):
    """The selection is not one that this page was shown with, or it is too old."""


def freeze(
    *, model: str, keys: list[str], user_id: int, revisions: dict[str, int] | None = None
) -> Selection:
    """Return the selection of the rows of these keys, under a new run id.

    :raises ValueError: there are none or too many.
    """
    unique = tuple(dict.fromkeys(keys))
    if not 1 <= len(unique) <= SELECTION_MAX:
        raise ValueError(f"between 1 and {SELECTION_MAX} rows, got {len(unique)}")
    return Selection(uuid7(), model, unique, user_id, revisions or {})


def thaw(token: str, *, model: str, user_id: int) -> Selection:
    """Return the selection that `token` carries.

    :raises SelectionInvalid: it was changed, is too old, or is another user's or model's.
    """
    try:
        value = signing.loads(token, salt=SELECTION_SALT, max_age=SELECTION_VALID_SECONDS)
    except signing.BadSignature as error:
        raise SelectionInvalid("The page is too old or was changed. Select the rows again.") from (
            error
        )
    if value["m"] != model or value["u"] != user_id:
        raise SelectionInvalid("The page belongs to somebody else. Select the rows again.")
    return Selection(UUID(value["r"]), model, tuple(value["k"]), user_id, value.get("v", {}))
