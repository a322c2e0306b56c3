"""Write release notes with a LangGraph agent that has a tool. Knows nothing of what it runs behind.

echo "the task" | python langgraph_agent.py
"""

import sys

from langchain_core.messages import HumanMessage
from langchain_core.tools import tool
from langchain_openai import ChatOpenAI
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def words_in(text: str) -> int:
    """Count the words of a text."""
    return len(text.split())


model = ChatOpenAI(model="gpt-5-mini").bind_tools([words_in])
graph = StateGraph(MessagesState)
graph.add_node("ask", lambda state: {"messages": [model.invoke(state["messages"])]})
graph.add_node("tools", ToolNode([words_in]))
graph.add_edge(START, "ask")
graph.add_conditional_edges("ask", tools_condition, {"tools": "tools", END: END})
graph.add_edge("tools", "ask")

answer = graph.compile().invoke({"messages": [HumanMessage(sys.stdin.read())]})
print(answer["messages"][-1].content)
