#!/bin/sh
# Write release notes with curl alone. Knows nothing of what it runs behind.
#
#     echo "the task" | sh ask.sh
set -eu

jq --raw-input --slurp '{model: "gpt-5-mini", messages: [{role: "user", content: .}]}' |
    curl --silent --show-error --fail-with-body "$OPENAI_BASE_URL/chat/completions" \
        --header "Authorization: Bearer $OPENAI_API_KEY" \
        --header "Content-Type: application/json" --data-binary @- >.answer.json || {
    cat .answer.json >&2
    exit 1
}
jq --raw-output '.choices[0].message.content' .answer.json
