"""What `/v1/models` shows: the models that the attempt's policy allows, in the shape of a face."""

from collections.abc import Iterable, Mapping
from typing import Any

from fencepost_worker.gateway.faces import Face
from fencepost_worker.gateway.providers import Providers

#: Both faces want to know since when there is a model; a policy knows no such time.
UNIX_START = "1970-01-01T00:00:00Z"


class Catalogue:
    """A claim's `models[]`, as far as the worker can reach their providers."""

    def __init__(self, models: Iterable[Mapping[str, Any]], providers: Providers) -> None:
        self._models = models
        self._providers = providers

    def all(self, face: Face) -> dict[str, Any]:
        """Return the list of models of a face."""
        rows = [_shown(name, owner, face) for name, owner in self._of(face)]
        if face is Face.OPENAI:
            return {"object": "list", "data": rows}
        first, last = (rows[0]["id"], rows[-1]["id"]) if rows else (None, None)
        return {"data": rows, "has_more": False, "first_id": first, "last_id": last}

    def one(self, name: str, face: Face) -> dict[str, Any] | None:
        """Return one model of a face, or None where there is no such one."""
        owner = dict(reversed(self._of(face))).get(name)
        return None if owner is None else _shown(name, owner, face)

    def provider_of(self, name: str | None, face: Face) -> tuple[str, str] | None:
        """Return model and provider that serve a name: its own, else the first of the face."""
        models = self._of(face)
        return next((each for each in models if each[0] == name), models[0] if models else None)

    def _of(self, face: Face) -> list[tuple[str, str]]:
        """Return names of models with their providers, in the policy's order."""
        found: dict[str, str] = {}
        for each in self._models:
            name, provider = str(each.get("model", "")), str(each.get("provider", ""))
            configured = self._providers.get(provider)
            if name and configured is not None and configured.api is face:
                found.setdefault(name, provider)
        return list(found.items())


def _shown(name: str, owner: str, face: Face) -> dict[str, Any]:
    if face is Face.ANTHROPIC:
        return {"type": "model", "id": name, "display_name": name, "created_at": UNIX_START}
    return {"id": name, "object": "model", "created": 0, "owned_by": owner}
