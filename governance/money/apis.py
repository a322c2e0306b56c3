"""The APIs that calls of models are made over: what form requests and answers have.

Nothing translates between them, so that a call goes only to a model whose provider speaks the API
that the program speaks. Source: money, the gateway, step 2.
"""

from __future__ import annotations

from django.db.models import TextChoices


class Api(TextChoices):
    """An API: that of OpenAI, which most providers offer beside their own, or of Anthropic."""

    OPENAI = "openai"
    ANTHROPIC = "anthropic"


#: The providers, as genai-prices names them, that speak another API than that of OpenAI.
SPOKEN_BY = {"anthropic": Api.ANTHROPIC}


def api_of(provider: str) -> Api:
    """Return the API of a provider of which nobody has said which it speaks."""
    return SPOKEN_BY.get(provider, Api.OPENAI)
