"""The form of a call that nobody makes: which model would it get?"""

from __future__ import annotations

from typing import Any

from django import forms

from governance.money.pricing import TOKENS_MAX


class DryRunForm(forms.Form):
    """A call that nobody makes."""

    agent = forms.CharField(max_length=60)
    job_type = forms.CharField(max_length=60)
    risk_tier = forms.ChoiceField(choices=[(tier, tier) for tier in ("low", "medium", "high")])
    estimated_input_tokens = forms.IntegerField(min_value=0, max_value=TOKENS_MAX, initial=2000)
    max_output_tokens = forms.IntegerField(min_value=1, max_value=TOKENS_MAX, initial=1000)
    submitter = forms.CharField(required=False, help_text="For budgets of a submitter.")
    labels = forms.CharField(
        required=False, help_text="For budgets of labels: name=value, separated by commas."
    )
    requirements = forms.CharField(
        required=False,
        help_text="Capabilities and terms, separated by commas: tools, vision, tool=web_search …",
    )

    @property
    def call(self) -> dict[str, Any]:
        """Return what a valid form says, as `ledger.dry_run` takes it."""
        texts = {
            name: [word for text in self.cleaned_data[name].split(",") if (word := text.strip())]
            for name in ("labels", "requirements")
        }
        return self.cleaned_data | texts
