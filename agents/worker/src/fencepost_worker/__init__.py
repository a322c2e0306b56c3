"""The worker's side: claims jobs over HTTP, runs them, and reports what happened.

It runs on another machine than the control plane: no Django in it, and nothing of the other apps.
What it offers to programs of others stands here; it is loaded when it is asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from fencepost_worker.functions.contexts import (
        Artifact,
        AsyncContext,
        Context,
        ModelsUnavailable,
    )
    from fencepost_worker.functions.jobs import Job, Skill
    from fencepost_worker.functions.outcomes import AttemptOver, Defer, Escalate, Fail
    from fencepost_worker.loop import NotAuthorized
    from fencepost_worker.options import Unusable
    from fencepost_worker.uploads import Undelivered
    from fencepost_worker.worker import Worker
    from fencepost_worker.workspace import ArtifactRefused

__all__ = [
    "Artifact",
    "ArtifactRefused",
    "AsyncContext",
    "AttemptOver",
    "Context",
    "Defer",
    "Escalate",
    "Fail",
    "Job",
    "ModelsUnavailable",
    "NotAuthorized",
    "Skill",
    "Undelivered",
    "Unusable",
    "Worker",
]

#: The module that each of them is in.
HOMES = {
    "functions.contexts": ("Artifact", "AsyncContext", "Context", "ModelsUnavailable"),
    "functions.jobs": ("Job", "Skill"),
    "functions.outcomes": ("AttemptOver", "Defer", "Escalate", "Fail"),
    "loop": ("NotAuthorized",),
    "options": ("Unusable",),
    "uploads": ("Undelivered",),
    "worker": ("Worker",),
    "workspace": ("ArtifactRefused",),
}


def __getattr__(name: str) -> Any:
    """Load what is asked for: who judges evidence needs no gateway."""
    for module, names in HOMES.items():
        if name in names:
            return getattr(import_module(f"{__name__}.{module}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
