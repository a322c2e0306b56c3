from typing import Any

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Reject held jobs; each is stopped for good."

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.reject(task_id=task_id, **asked)
