from agents.management.verbs import VerbCommand
from jobs.verbs.job import REWORK


class Command(VerbCommand):
    verb = REWORK
