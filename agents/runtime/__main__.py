"""Answer whoever starts the worker by its former name with the name that it has now."""

import sys

EXIT_UNUSABLE = 2

print(
    "agents.runtime: the worker is a package of its own now; run `python -m fencepost_worker`"
    " with the same options",
    file=sys.stderr,
)
sys.exit(EXIT_UNUSABLE)
