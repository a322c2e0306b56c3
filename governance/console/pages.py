"""`PlainPage`: a row as names and values, for what needs no page of its own."""

from __future__ import annotations

from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.template.response import TemplateResponse
from django.utils.html import format_html

from governance.console import wording
from governance.console.admins import OperatorAdmin
from governance.console.chains import read_chain


class PlainPage(OperatorAdmin):
    """A row as name and value, for what needs no page of its own."""

    page_fields: ClassVar[tuple[str, ...]] = ()
    page_template = "console/plain.html"

    def change_view(
        self,
        request: HttpRequest,
        object_id: str,
        form_url: str = "",
        extra_context: dict[str, Any] | None = None,
    ) -> HttpResponse:
        row = self.get_object(request, object_id)
        if row is None:
            return self.absent(request, object_id)
        if not self.has_view_permission(request, row):
            return self.admin_site.login(request)
        context = {
            **self.admin_site.each_context(request),
            "title": str(row),
            "opts": self.opts,
            "row": row,
            "decisions": self.decisions(request, row),
            "pairs": [(self._named(name), self._shown(row, name)) for name in self.page_fields],
            **self.page_context(request, row),
        }
        return TemplateResponse(request, self.page_template, context)

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        """Return further context of the page. For overriding."""
        return {}

    def _named(self, name: str) -> str:
        own = getattr(self, name, None)
        return str(getattr(own, "short_description", name.replace("_", " ").strip()))

    def _shown(self, row: Any, name: str) -> Any:
        own = getattr(self, name, None)
        # `model` names a column of some rows, and the class of the rows of every page.
        if callable(own) and not isinstance(own, type):
            value = own(row)
        else:
            value = getattr(row, name)
        if hasattr(value, "strftime"):
            return wording.stamp(value)
        if isinstance(value, bool):
            return "yes" if value else "no"
        if isinstance(value, dict | list):
            return format_html("<pre>{}</pre>", wording.pretty(value))
        return "-" if value in (None, "") else value


class ChainedPage(PlainPage):
    """A plain page of what has an audit chain of its own, with that chain below it."""

    page_template = "console/with_chain.html"

    def page_context(self, request: HttpRequest, row: Any) -> dict[str, Any]:
        return {"chain": read_chain(row, subject=row.audit_subject)}
