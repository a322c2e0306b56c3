from agents.management.verbs import VerbCommand
from jobs.verbs.job import RESUME


class Command(VerbCommand):
    verb = RESUME
