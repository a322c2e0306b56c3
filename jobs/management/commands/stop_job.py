from typing import Any

from jobs import transitions
from jobs.management.verbs import VerbCommand
from jobs.transitions import Outcome


class Command(VerbCommand):
    help = "Stop jobs for good; running attempts are fenced at once."

    def move(self, *, task_id: str, **asked: Any) -> Outcome:
        return transitions.stop(task_id=task_id, **asked)
