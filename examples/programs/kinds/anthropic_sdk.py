"""Write release notes with the SDK of Anthropic, streamed. Knows nothing of what it runs behind.

echo "the task" | python anthropic_sdk.py
"""

import sys

from anthropic import Anthropic

with Anthropic().messages.stream(
    model="claude-sonnet-4-5",
    max_tokens=2000,
    system="You write release notes. Answer with the notes alone.",
    messages=[{"role": "user", "content": sys.stdin.read()}],
) as stream:
    for text in stream.text_stream:
        print(text, end="", flush=True)
