from agents.management.verbs import OneVerbCommand
from agents.verbs import REVOKE


class Command(OneVerbCommand):
    verb = REVOKE
