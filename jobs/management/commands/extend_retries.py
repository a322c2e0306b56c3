from agents.management.verbs import VerbCommand
from jobs.verbs.job import EXTEND


class Command(VerbCommand):
    verb = EXTEND
