"""Django's admin app with the operator console as its site."""

from django.contrib.admin.apps import AdminConfig


class ConsoleConfig(AdminConfig):
    """Puts `OperatorSite` where `admin.site` is."""

    default_site = "governance.console.site.OperatorSite"
