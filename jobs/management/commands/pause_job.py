from typing import Any

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Pause jobs: they are not claimed and start nothing."

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.pause(task_id=task_id, **asked)
