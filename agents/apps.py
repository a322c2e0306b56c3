from django.apps import AppConfig


class AgentsConfig(AppConfig):
    name = "agents"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from agents import console, triggers  # noqa: F401 - pages and triggers register themselves
        from agents.metrics import gauges
        from governance.web import metrics

        metrics.register(gauges)
