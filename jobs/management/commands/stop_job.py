from agents.management.verbs import VerbCommand
from jobs.verbs.job import STOP


class Command(VerbCommand):
    verb = STOP
