"""Pages of the console past rows that cannot be read: shown as far as they can be, and named."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import Any

from django.contrib import messages
from django.contrib.admin.templatetags.admin_list import items_for_result
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import SimpleTemplateResponse
from django.urls import reverse

from governance.console.registry import Banner, add_banner_source
from governance.core import sql
from governance.core.isolation import of_a_row

CANNOT_BE_READ = "cannot be read"
READING = ("GET", "HEAD")


def reads_apart(request: HttpRequest) -> bool:
    """Return whether the page is shown for the second time, because some row spoilt the first."""
    return getattr(request, "console_apart", False)


def past_bad_rows(view: Callable[..., HttpResponse]) -> Callable[..., HttpResponse]:
    """Return the view that is shown again, row by row, where a row spoils what it reads.

    Instants out of bounds are read as the nearest one within; a page that cannot be shown at all
    leads to the overview. What writes is never done twice.
    """

    @wraps(view)
    def shown(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return _rendered(view(request, *args, **kwargs))
        except Exception as error:
            if request.method not in READING or not of_a_row(error):
                raise
        request.console_apart = True  # type: ignore[attr-defined]
        try:
            with sql.bounded_instants():
                return _rendered(view(request, *args, **kwargs))
        except Exception as error:
            overview = reverse("admin:index")
            if not of_a_row(error) or request.path == overview:
                raise
        messages.error(request, f"What you asked for {CANNOT_BE_READ} as it is stored.")
        return HttpResponseRedirect(overview)

    return shown


def _rendered(response: HttpResponse) -> HttpResponse:
    # Rows are shown, and some read, while the page is rendered.
    if isinstance(response, SimpleTemplateResponse) and not response.is_rendered:
        response.render()
    return response


def showable(changelist: Any, row: Any) -> bool:
    """Return whether the columns of a list can be shown of the row."""
    try:
        list(items_for_result(changelist, row, None))
    except Exception as error:
        if not of_a_row(error):
            raise
        return False
    return True


def banners(request: HttpRequest) -> Iterator[Banner]:
    """Yield a word on top of a page that is shown past bad rows."""
    if reads_apart(request):
        yield Banner(
            f"Something on this page {CANNOT_BE_READ} as it is stored. Instants out of bounds are"
            " shown as the nearest one within; rows that cannot be shown are named."
        )


add_banner_source("bad-rows", banners)
