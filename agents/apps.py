from typing import Any

from django.apps import AppConfig
from django.apps import apps as global_apps
from django.conf import settings
from django.db.models.signals import post_migrate


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents import console, triggers  # noqa: F401 - pages and triggers register themselves
        from agents.metrics import gauges
        from agents.models import Agent, Submitter
        from agents.verbs import VERBS
        from governance.core import verbs
        from governance.money import scopes
        from governance.web import metrics

        verbs.register(*VERBS)
        metrics.register(gauges)
        scopes.know("agent", lambda name: Agent.objects.filter(name=name).exists())
        scopes.know("submitter", lambda name: Submitter.objects.filter(name=name).exists())
        post_migrate.connect(add_permissions, sender=self)


def add_permissions(apps: Any = global_apps, **kwargs: Any) -> None:
    """Make the rows of new permissions after migrations, as Django does of a model's own.

    :param apps: the models as the migrations have left them; without these there are no rows yet.
    """
    needed = ("auth.permission", "contenttypes.contenttype", settings.PERMISSIONS_MODEL)
    try:
        for label in needed:
            apps.get_model(label)
    except LookupError:
        return
    from agents.bootstrap import install_permissions

    install_permissions()
