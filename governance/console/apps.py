"""Django's admin app with the operator console as its site."""

from django.apps import apps
from django.contrib import admin
from django.contrib.admin.apps import AdminConfig

#: What allauth keeps holds secrets, and is changed by those whom it concerns or by a command.
HIDDEN_APPS = {"account", "mfa", "socialaccount"}


class ConsoleConfig(AdminConfig):
    """Puts `OperatorSite` where `admin.site` is."""

    default_site = "governance.console.site.OperatorSite"

    def ready(self) -> None:
        super().ready()
        for model in apps.get_models():
            if model._meta.app_label in HIDDEN_APPS and admin.site.is_registered(model):
                admin.site.unregister(model)
