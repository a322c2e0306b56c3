"""The console's pages of verbs: what is offered on a row or a list, and the confirmation of it."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any, cast

from django.contrib import admin, messages
from django.contrib.admin.helpers import ACTION_CHECKBOX_NAME
from django.contrib.auth.models import User
from django.core.exceptions import BadRequest, PermissionDenied, ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme, urlencode

from governance.console import registry, runs, selections, wording
from governance.console.forms import ReasonForm, VerbForm, asked_as
from governance.console.models import BulkItem, BulkRun
from governance.console.selections import Selection
from governance.core import verbs
from governance.core.errors import DomainError, InvalidArgument
from governance.core.isolation import in_any_case
from governance.core.verbs import Verb

#: Rows that a confirmation page names one by one.
NAMED_MAX = 10
ABSENT = "does not exist"
MOVED_ON = "it has moved on since you looked at it"
#: What a link can say about a row: keys as `BulkItem` keeps them, revisions as PostgreSQL does.
KEY_CHARS_MAX = 200
REVISION = re.compile("[0-9]{1,18}", re.ASCII)


class VerbPages(admin.ModelAdmin):
    """Rows that change through verbs: each asks first, on a frozen selection, for a reason."""

    def __init__(self, model: Any, admin_site: Any) -> None:
        super().__init__(model, admin_site)
        self.label: str = model._meta.label_lower

    @property
    def key_field(self) -> str:
        """Return the unique field by which verbs, and their outcomes, name a row."""
        return verbs.key_of(self.label)

    def get_actions(self, request: HttpRequest) -> dict[str, Any]:
        """Offer the verbs that the user may use, each as "ask first"; nothing else."""
        return {
            verb.name: (self._ask(verb), verb.name, f"{verb.label}…")
            for verb in runs.permitted(request.user, self.label)
            if verb.bulk
        }

    def response_action(
        self, request: HttpRequest, queryset: QuerySet[Any], *args: Any, **kwargs: Any
    ) -> HttpResponse | None:
        ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
        if len(_values(self.opts.pk, ticked)) < len(ticked):
            raise BadRequest("No row has such a key.")
        return super().response_action(request, queryset, *args, **kwargs)

    def _ask(self, verb: Verb[Any]) -> Callable[..., HttpResponse | None]:
        def ask(_: Any, request: HttpRequest, queryset: QuerySet[Any]) -> HttpResponse | None:
            """Freeze what was ticked, whether or not it still matches the list's filter."""
            if request.POST.get("select_across") != "1":
                ticked = request.POST.getlist(ACTION_CHECKBOX_NAME)
                queryset = self.get_queryset(request).filter(pk__in=ticked)
            rows = queryset.values_list(self.key_field, flat=True)
            keys = list(rows[: selections.SELECTION_MAX + 1])
            if len(keys) > selections.SELECTION_MAX:
                text = f"More than {selections.SELECTION_MAX} rows. Narrow the filter first."
                self.message_user(request, text, messages.ERROR)
                return None
            if not keys:
                text = "None of these rows is there any more."
                self.message_user(request, text, messages.WARNING)
                return None
            return self._confirm(request, verb=verb, selection=self._freeze(request, verb, keys))

        return ask

    def _freeze(self, request: HttpRequest, verb: Verb[Any], keys: list[Any]) -> Selection:
        """Freeze rows with their revision: as the link tells that the page had it, or as now."""
        named = tuple(str(key) for key in keys)
        revisions: dict[str, int] = {}
        if verb.as_seen:
            rows = self.rows_by_key(request, named)
            revisions = {key: row.revision for key, row in rows.items()}
            shown = request.GET.get("revision", "")
            if len(named) == 1 and REVISION.fullmatch(shown):
                revisions[named[0]] = int(shown)
        return selections.freeze(
            model=self.label,
            keys=list(named),
            user_id=cast(int, request.user.pk),
            revisions=revisions,
        )

    def verb_view(self, request: HttpRequest, name: str) -> HttpResponse:
        """GET `?key=…` shows the confirmation page; POST with the selection does it."""
        verb = verbs.find(self.label, name)
        if verb is None:
            raise Http404
        may = request.user.has_perm(verb.permission.name)
        if not (self.has_view_permission(request) and may):
            raise PermissionDenied
        if request.method != "POST":
            keys = request.GET.getlist("key")
            if not 1 <= len(keys) <= NAMED_MAX or not all(map(_is_key, keys)):
                raise Http404
            return self._confirm(request, verb=verb, selection=self._freeze(request, verb, keys))
        try:
            selection = selections.thaw(
                request.POST.get("selection", ""),
                model=self.label,
                user_id=cast(int, request.user.pk),
            )
        except selections.SelectionInvalid as error:
            self.message_user(request, str(error), messages.ERROR)
            return HttpResponseRedirect(reverse(self._name("changelist")))
        return self._perform(request, verb=verb, selection=selection)

    def _perform(
        self, request: HttpRequest, *, verb: Verb[Any], selection: Selection
    ) -> HttpResponse:
        reason, fields = ReasonForm(request.POST), VerbForm(verb, request.POST)
        phrase = runs.phrase_for(verb, len(selection.keys))
        typed = " ".join(request.POST.get("phrase", "").split())
        valid = all([reason.is_valid(), fields.is_valid()])
        if not valid or typed != phrase:
            return self._confirm(
                request,
                verb=verb,
                selection=selection,
                forms_=(reason, fields),
                mistyped=bool(typed),
            )
        run = runs.begin(
            verb=verb,
            selection=selection,
            user=cast(User, request.user),
            reason=reason.cleaned_data["reason"],
            values=fields.values,
        )
        refusals: list[DomainError] = []
        run = runs.advance(run=run, refusals=refusals)
        if run.total == 1 and refusals and isinstance(refusals[0], InvalidArgument):
            self._mark(request, refusals[0], reason, fields)
            again = selections.freeze(
                model=selection.model,
                keys=list(selection.keys),
                user_id=selection.user_id,
                revisions=selection.revisions,
            )
            return self._confirm(request, verb=verb, selection=again, forms_=(reason, fields))
        if run.total == 1 and run.finished_at is not None:
            return self._after_one(request, verb=verb, run=run)
        return HttpResponseRedirect(reverse("admin:console_run", args=(run.run_id,)))

    def _mark(
        self, request: HttpRequest, refusal: InvalidArgument, reason: ReasonForm, fields: VerbForm
    ) -> None:
        """Show what the transition refused: above the form, and each fault at its input."""
        inputs: dict[str, tuple[ReasonForm | VerbForm, str]] = {
            f"/{one.name}": (fields, asked_as(one)) for one in fields.verb.fields
        }
        inputs["/reason"] = (reason, "reason")
        for fault in refusal.errors:
            if fault.pointer in inputs:
                form, name = inputs[fault.pointer]
                form.add_error(name, fault.detail)
        self.message_user(request, f"Not done: {refusal.detail}", messages.ERROR)

    def _after_one(self, request: HttpRequest, *, verb: Verb[Any], run: BulkRun) -> HttpResponse:
        item = BulkItem.objects.get(run=run)
        row = self.rows_by_key(request, () if verb.makes else (item.key,)).get(item.key)
        done = item.outcome == BulkItem.Outcome.DONE
        named = [] if verb.makes else [self._row_name(item.key, row)]
        text = ": ".join([verb.label, *named, *([] if done else ["not done"]), item.detail])
        self.message_user(request, text, messages.SUCCESS if done else messages.ERROR)
        onward = self._onward(request)
        if not onward:
            onward = self.row_url(row) if row else reverse(self._name("changelist"))
        return HttpResponseRedirect(onward)

    @staticmethod
    def _onward(request: HttpRequest) -> str:
        """Return the page of ours that the form or the link asks to go on to; "" for none."""
        wanted = request.POST.get("next") or request.GET.get("next") or ""
        return wanted if url_has_allowed_host_and_scheme(wanted, allowed_hosts=None) else ""

    def _confirm(
        self,
        request: HttpRequest,
        *,
        verb: Verb[Any],
        selection: Selection,
        forms_: tuple[ReasonForm, VerbForm] | None = None,
        mistyped: bool = False,
    ) -> HttpResponse:
        """Show exactly what would be touched, from the frozen set itself."""
        rows = {} if verb.makes else self.rows_by_key(request, selection.keys)
        misfits = self._misfits(request, verb, selection, rows)
        only = next(iter(rows.values())) if len(selection.keys) == len(rows) == 1 else None
        initial = verb.initial(only) if only is not None else {}
        reason, fields = forms_ or (ReasonForm(), VerbForm(verb, initial=initial))
        onward, back = self._onward(request), reverse(self._name("changelist"))
        counted = self._counted(len(selection.keys))
        context = {
            **self.admin_site.each_context(request),
            "title": verb.label if verb.makes else f"{verb.label}: {counted}",
            "opts": self.opts,
            "verb": verb,
            "verb_url": reverse(self._name("act"), args=(verb.name,)),
            "selection": selection.sign(),
            "count": len(selection.keys),
            "named": [
                (
                    self._row_name(key, rows.get(key)),
                    rows.get(key),
                    misfits.get(key, ""),
                    self.row_url(rows[key]) if key in rows else "",
                )
                for key in selection.keys[:NAMED_MAX]
            ],
            "more": max(0, len(selection.keys) - NAMED_MAX),
            "breakdown": self._breakdown(list(rows.values())),
            "unfit": Counter(misfits.values()).most_common(),
            "phrase": runs.phrase_for(verb, len(selection.keys)),
            "mistyped": mistyped,
            "form": reason,
            "fields": fields,
            "next": onward,
            "cancel": onward or (self.row_url(only) if only is not None else back),
            "back": back,
        }
        status = 200 if forms_ is None else 422
        return TemplateResponse(request, "console/confirm.html", context, status=status)

    def _misfits(
        self, request: HttpRequest, verb: Verb[Any], selection: Selection, rows: dict[str, Any]
    ) -> dict[str, str]:
        """Return why rows would be skipped as they are now, by key, without those that fit."""
        if verb.makes:
            return {}
        misfits = {key: ABSENT for key in selection.keys if key not in rows}
        for key, row in rows.items():
            if refusal := self._refusal(request, verb, row):
                misfits[key] = wording.clause(refusal.detail)
            elif key in selection.revisions and row.revision != selection.revisions[key]:
                misfits[key] = MOVED_ON
        return misfits

    @staticmethod
    def _refusal(request: HttpRequest, verb: Verb[Any], row: Any) -> DomainError | None:
        """Return why the row would not take the verb from the user, as it is now."""
        return verb.precondition(
            row, actor=runs.actor_of(request.user), now=registry.now_of(request)
        )

    def rows_by_key(self, request: HttpRequest, keys: tuple[str, ...]) -> dict[str, Any]:
        """Return the rows of these keys as they are now. A key of another form names none."""
        field = self.opts.pk if self.key_field == "pk" else self.opts.get_field(self.key_field)
        named = {f"{self.key_field}__in": _values(field, keys)}
        rows = self.get_queryset(request).filter(**named)
        if isinstance(self.list_select_related, list | tuple):
            rows = rows.select_related(*self.list_select_related)
        # What can be done to a row, to stop it say, can be done whatever is in it.
        found = in_any_case(lambda: list(rows.all()))
        return {str(getattr(row, self.key_field)): row for row in found}

    def _row_name(self, key: str, row: Any) -> str:
        """Return what people call a row: its key, unless that is a number that means nothing."""
        return str(row) if row is not None and self.key_field == "pk" else key

    def row_url(self, row: Any) -> str:
        return reverse(self._name("change"), args=(row.pk,))

    def decisions(self, request: HttpRequest, row: Any) -> list[dict[str, Any]]:
        """Return the verbs that the user may use on `row` and that it would take, with links."""
        key = str(getattr(row, self.key_field))
        return [
            {
                "verb": verb,
                "url": self._verb_url(verb, key, revision=row.revision if verb.as_seen else None),
            }
            for verb in runs.permitted(request.user, self.label)
            if self._refusal(request, verb, row) is None
        ]

    def _verb_url(self, verb: Verb[Any], key: str, revision: int | None = None) -> str:
        query = {"key": key} | ({} if revision is None else {"revision": revision})
        return f"{reverse(self._name('act'), args=(verb.name,))}?{urlencode(query)}"

    def _counted(self, count: int) -> str:
        named = self.opts.verbose_name if count == 1 else self.opts.verbose_name_plural
        return f"{count} {named}"

    def _breakdown(self, rows: list[Any]) -> list[tuple[str, int]]:
        if not any(field.name == "state" for field in self.opts.fields):
            return []
        return Counter(row.get_state_display().lower() for row in rows).most_common()

    def _name(self, page: str) -> str:
        return f"admin:{self.opts.app_label}_{self.opts.model_name}_{page}"

    def get_urls(self) -> list[URLPattern]:
        wrap, prefix = self.admin_site.admin_view, f"{self.opts.app_label}_{self.opts.model_name}"
        return [
            path("act/<slug:name>/", wrap(self.verb_view), name=f"{prefix}_act"),
            *super().get_urls(),
        ]


def _is_key(key: str) -> bool:
    return "\0" not in key and len(key) <= KEY_CHARS_MAX


def _values(field: Any, texts: Iterable[str]) -> list[Any]:
    """Return the texts as values of the field, without those that can be none of it."""
    found = []
    for text in filter(_is_key, texts):
        with suppress(ValidationError):
            found.append(field.to_python(text))
    return found
