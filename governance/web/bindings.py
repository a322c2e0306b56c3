"""Where an operation is found over HTTP: method, path, and the status of each outcome."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from uuid import UUID

from governance.core.idempotency import Answer
from governance.operations.operation import Operation

#: Django's converters for the types that identify.
_CONVERTERS: dict[type, str] = {str: "str", int: "int", UUID: "uuid"}
#: The status of what the caller has already; it has no body.
NOT_MODIFIED = 304
_PLACE = re.compile(r"\{(\w+)\}")


@dataclass(frozen=True)
class Binding:
    """An operation at a method of a path below `/v1`.

    :param path: with the names of the operation's identity in braces.
    :param statuses: the status of an outcome, where it is not 200.
    :param etag: where in the answer the revision stands that is its entity tag, as `job.revision`.
    """

    method: str
    path: str
    operation: Operation
    statuses: Mapping[str, int] = field(default_factory=dict)
    etag: str = ""

    @property
    def route(self) -> str:
        """Return the path as Django's routes have it."""
        kinds = self.operation.identity
        return _PLACE.sub(lambda place: f"<{_CONVERTERS[kinds[place[1]]]}:{place[1]}>", self.path)

    @property
    def documented_statuses(self) -> list[int]:
        """Return the statuses of success, each once, in the order of the outcomes."""
        found = (self.statuses.get(outcome, 200) for outcome in self.operation.outcomes)
        return list(dict.fromkeys(found))

    def status_of(self, answer: Answer) -> int:
        """Return the status of an answer."""
        return answer.status or self.statuses.get(answer.outcome, 200)

    def etag_of(self, members: Mapping[str, Any]) -> str:
        """Return the entity tag of an answer: that of its revision; contract section 1."""
        value: Any = members
        for name in self.etag.split("."):
            value = value[name]
        return f'"r{value}"'
