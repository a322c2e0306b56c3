"""Origins: which provider keeps a response that a later request may go on from.

A request that names one goes to who made it, and to nobody else: no other provider has it. Source:
money, step 3 of the gateway. What an earlier process was told is not known any more; the control
plane then keeps the request at the provider of the model that it wants.
"""

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

#: So many responses are remembered, the newest ones.
RESPONSES_MAX = 10_000
#: A longer id is none; nothing is remembered of what somebody else can make as long as he likes.
ID_CHARS_MAX = 200


@dataclass(frozen=True)
class Origin:
    """Who made a response."""

    provider: str
    model: str

    def wanted(self, model: str | None, models: Iterable[Mapping[str, Any]]) -> str:
        """Return the model to ask for, as `provider/name`: the one that is named, if it is theirs.

        :param models: those that the policy allows.
        """
        named = (self.provider, model) in {
            (each.get("provider"), each.get("model")) for each in models
        }
        return f"{self.provider}/{model if named else self.model}"


class Origins:
    """The origins of responses, by the responses' ids. Belongs to the gateway's loop."""

    def __init__(self) -> None:
        self._of: OrderedDict[str, Origin] = OrderedDict()

    def note(self, response_id: str, origin: Origin) -> None:
        """Remember who made a response."""
        if not 0 < len(response_id) <= ID_CHARS_MAX:
            return
        self._of[response_id] = origin
        self._of.move_to_end(response_id)
        if len(self._of) > RESPONSES_MAX:
            self._of.popitem(last=False)

    def of(self, response_id: str) -> Origin | None:
        """Return who made a response, where it is known."""
        return self._of.get(response_id)
