"""Programs of agents on the usual frameworks, none of which knows of a gateway.

`python -m tests.worker.gateway.programs NAME` runs one in a process of its own, as a worker does,
and prints what came of it as JSON.
"""

import asyncio
import json
import sys
from typing import Any


def langchain() -> list[Any]:
    """Ask for a whole answer, for a stream, and for a vector."""
    from langchain_openai import ChatOpenAI, OpenAIEmbeddings

    model = ChatOpenAI(model="large")
    streamed = "".join(part.text for part in model.stream("Say hello."))
    embeddings = OpenAIEmbeddings(model="small", check_embedding_ctx_length=False)
    return [model.invoke("Say hello.").content, streamed, len(embeddings.embed_query("hello"))]


def langgraph() -> str:
    """Run an agent with a tool."""
    from langchain_core.messages import HumanMessage
    from langchain_core.tools import tool
    from langchain_openai import ChatOpenAI
    from langgraph.graph import END, START, MessagesState, StateGraph
    from langgraph.prebuilt import ToolNode, tools_condition

    @tool
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    model = ChatOpenAI(model="large").bind_tools([add])
    graph = StateGraph(MessagesState)
    graph.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
    graph.add_node("tools", ToolNode([add]))
    graph.add_edge(START, "ask")
    graph.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: END})
    graph.add_edge("tools", "ask")
    answer = graph.compile().invoke({"messages": [HumanMessage("What is 2 + 3?")]})
    said: str = answer["messages"][-1].content
    return said


def pydantic_ai() -> int:
    """Run an agent whose output has a shape."""
    from pydantic import BaseModel
    from pydantic_ai import Agent

    class Sum(BaseModel):
        total: int

    return Agent("openai-chat:large", output_type=Sum).run_sync("What is 2 + 3?").output.total


def pydantic_ai_messages() -> str:
    """Stream an agent of the other face."""
    from pydantic_ai import Agent

    async def said() -> str:
        async with Agent("anthropic:haiku").run_stream("Say hello.") as stream:
            return await stream.get_output()

    return asyncio.run(said())


PROGRAMS = {
    each.__name__: each for each in (langchain, langgraph, pydantic_ai, pydantic_ai_messages)
}

if __name__ == "__main__":
    print(json.dumps(PROGRAMS[sys.argv[1]]()))
