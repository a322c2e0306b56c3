"""A provider of models that stands in for a real one, to test agents and what governs them.

It speaks the faces of OpenAI and Anthropic on loopback, costs nothing, and answers the same each
time; or as it is told, down to the byte, the packet and the broken connection. For example, with
pytest::

    import openai
    import pytest
    from fencepost_worker.testing import Answer, StandInProvider

    @pytest.fixture
    def provider():
        with StandInProvider() as provider:
            yield provider

    def test_my_agent_survives_an_overload(provider):
        provider.script(Answer.error(529, "overloaded_error", "Overloaded"))
        client = openai.OpenAI(base_url=provider.base_url_openai, api_key="any")
        ...
        assert len(provider.requests) == 2

`python -m fencepost_worker.testing` runs one until it is interrupted, and prints its addresses.
"""

from fencepost_worker.testing.answers import Answer, Counts
from fencepost_worker.testing.provider import Received, StandInProvider

__all__ = ["Answer", "Counts", "Received", "StandInProvider"]
