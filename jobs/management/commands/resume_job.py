from typing import Any

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Take the pause of jobs back."

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.resume(task_id=task_id, **asked)
