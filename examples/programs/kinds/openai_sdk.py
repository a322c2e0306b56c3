"""Write release notes with the SDK of OpenAI. Knows nothing of what it runs behind.

echo "the task" | python openai_sdk.py
"""

import sys

from openai import OpenAI

answer = OpenAI().chat.completions.create(
    model="gpt-5-mini",
    messages=[
        {"role": "system", "content": "You write release notes. Answer with the notes alone."},
        {"role": "user", "content": sys.stdin.read()},
    ],
)
print(answer.choices[0].message.content)
