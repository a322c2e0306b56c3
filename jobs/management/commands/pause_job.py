from agents.management.verbs import VerbCommand
from jobs.verbs.job import PAUSE


class Command(VerbCommand):
    verb = PAUSE
