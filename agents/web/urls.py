"""The agents API over HTTP: paths below `/v1`."""

from agents.operations import agents, sessions
from governance.web.bindings import Binding
from governance.web.views import paths

BINDINGS = (
    Binding("POST", "agents/{agent}/activate", sessions.activate, statuses={"pending": 202}),
    Binding("POST", "agents/{agent}/heartbeat", sessions.agent_heartbeat),
    Binding("POST", "agents/{agent}/admission", agents.set_admission),
    Binding("GET", "agents/{agent}/status", agents.agent_status),
    Binding("GET", "agents/{agent}/bootstrap", agents.agent_bootstrap),
)
urlpatterns = paths(*BINDINGS)
