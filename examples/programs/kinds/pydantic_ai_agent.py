"""Write release notes with a pydantic-ai agent, in a shape. Knows nothing of what it runs behind.

echo "the task" | python pydantic_ai_agent.py
"""

import sys

from pydantic import BaseModel
from pydantic_ai import Agent


class Notes(BaseModel):
    """Release notes."""

    headline: str
    lines: list[str]


notes = Agent("openai-chat:gpt-5-mini", output_type=Notes).run_sync(sys.stdin.read()).output
print(notes.headline, *(f"- {line}" for line in notes.lines), sep="\n")
