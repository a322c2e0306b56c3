"""Options: from the command line, the environment and a file, in this order of weight.

The file is TOML: the table `worker` has the options by their names with underscores, and each
`providers.NAME` is an endpoint of models.  Paths in it are relative to its own folder.
"""

import argparse
import os
import sys
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from fencepost_worker.adapters.http import SILENCE_TIMEOUT_SECONDS

COMMANDS = {
    "run": "claim jobs of an agent and run them",
    "gateway": "let an agent that claims for itself ask models under its job",
    "check": "say what is wrong with the options, the control plane and the providers",
}
TABLE, PROVIDERS = "worker", "providers"


class Unusable(Exception):
    """The options do not make a worker; the message is one line for a person."""


@dataclass(frozen=True)
class Option:
    """One option. `kind` is the type of its value; a list of texts takes the option repeatedly."""

    name: str
    kind: type
    default: Any
    help: str
    commands: tuple[str, ...] = ("run", "check")
    choices: tuple[str, ...] = ()
    #: Where the command line has another name for it than the file.
    flag: str = ""

    @property
    def variable(self) -> str:
        """Return the variable of the environment that sets it, if it is one that may."""
        return f"FENCEPOST_{self.name.upper()}"


ALL = ("run", "gateway", "check")
OPTIONS = (
    Option("config", Path, None, "a file with these options and the providers of models", ALL),
    Option("url", str, "", "base address of the control plane", ALL),
    Option(
        "token", str, "", "the agent's; seen by who lists processes: rather FENCEPOST_TOKEN", ALL
    ),
    Option("token_file", Path, None, "read again when the control plane rejects the token", ALL),
    Option("agent", str, "", "whose jobs they are", ALL),
    Option("data", Path, None, "folder for the journal, workspaces, artifacts", ALL),
    Option("worker_id", str, "", "by default made once and kept in the data folder", ALL),
    Option("cell_id", str, "", "activate a session of this cell; governed work always does"),
    Option("runtime", str, "command", "command or http"),
    Option("lease_seconds", int, 900, "how long a claim lasts without a heartbeat"),
    Option("wait_seconds", int, 5, "how long a poll for work may take"),
    Option("task_types", str, "", "comma separated; default: all of the agent's"),
    Option("concurrency", int, 1, "jobs at a time"),
    Option("no_uploads", bool, False, "leave artifacts in the data folder"),
    Option("once", bool, False, "end when there is no work"),
    Option("max_jobs", int, None, "end after so many jobs"),
    Option("drain_seconds", float, 60.0, "what running jobs get after SIGTERM"),
    Option("ca", Path, None, "authorities (PEM) to trust beside those of the system", ALL),
    Option("cert", Path, None, "our certificate (PEM) for who asks for one", ALL),
    Option("key", Path, None, "its private key, where it is in a file of its own", ALL),
    Option("trusted_keys", Path, None, "trust the keys in this file and no others", ALL),
    Option("governed", bool, False, "ask for a permit before a program is run, too"),
    Option("mode", str, "mock", "of governed executions", ALL, choices=("mock", "live")),
    Option("endpoint", str, "", "http: the agent's address"),
    Option("api_key_file", Path, None, "http: key of the endpoint, read for each request"),
    Option("silence_seconds", float, SILENCE_TIMEOUT_SECONDS, "http: how long it may say nothing"),
    Option("pass_variables", list, (), "a variable that programs get, too", flag="--pass"),
    Option("run_as", str, "", "run programs under this account; needs root"),
    Option("refusals_max", int, 5, "so many equal refusals in a row end the asking for a type"),
    Option("rest_seconds", int, 300, "for so long"),
    Option("task", str, "", "the job that the agent has claimed", ("gateway",)),
    Option("session_id", str, "", "the session that claimed it", ("gateway",)),
    Option("epoch", str, "", "the dispatcher epoch of that session", ("gateway",)),
    Option("json", bool, False, "answer as JSON", ("check",)),
)
#: Those that the environment may set as well.
FROM_ENVIRONMENT = frozenset({"config", "url", "token", "token_file", "agent", "data"})
NEEDED = ("url", "agent", "data")
#: Of these one is chosen: whichever has the greater weight.
EITHER = ("token", "token_file")


def parse_options(
    argv: Sequence[str] | None = None, *, environ: Mapping[str, str] | None = None
) -> argparse.Namespace:
    """Return the options of a command, each from where it has the greatest weight.

    :raises Unusable: the file cannot be read, has what is no option, or something is missing.
    """
    environ = os.environ if environ is None else environ
    words = _with_command(sys.argv[1:] if argv is None else argv)
    # Parted here: the parsers of commands do not agree over versions on what `--` ends.
    cut = words.index("--") if "--" in words else len(words)
    given = vars(_parser().parse_args(words[:cut]))
    given["program"] = given.get("program", []) + words[cut + 1 :]
    return merged_options(given, environ=environ, command=given.pop("command"))


def merged_options(
    given: Mapping[str, Any], *, environ: Mapping[str, str], command: str = "run"
) -> argparse.Namespace:
    """Return all options: those that are given, over the environment's, over the file's.

    :raises Unusable: as `parse_options` does.
    """
    ambient = {
        option.name: option.kind(value)
        for option in OPTIONS
        if option.name in FROM_ENVIRONMENT and (value := environ.get(option.variable))
    }
    filed = _read_file(given.get("config") or ambient.get("config"))
    merged = _defaults() | _weighed(given, ambient, filed) | {"command": command}
    for name in NEEDED:
        if not merged[name]:
            raise Unusable(f"--{name} is needed")
    return argparse.Namespace(**merged)


def _with_command(argv: Sequence[str]) -> list[str]:
    """Return the words with a command in front: those of the first release had none."""
    words = list(argv)
    if words and (words[0] in COMMANDS or words[0] in ("-h", "--help")):
        return words
    print(
        "fencepost-worker: write `fencepost-worker run ...`; without it goes away", file=sys.stderr
    )
    return ["run", *words]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="fencepost-worker", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    for command, help in COMMANDS.items():
        # What was not given must not hide what the environment or the file has.
        own = commands.add_parser(command, help=help, argument_default=argparse.SUPPRESS)
        for option in OPTIONS:
            if command in option.commands:
                _add(own, option)
        if command != "gateway":
            own.add_argument("program", nargs="*", help="after --: what each job is given to")
    return parser


def _add(parser: argparse.ArgumentParser, option: Option) -> None:
    flag = option.flag or "--" + option.name.replace("_", "-")
    about: dict[str, Any] = {"dest": option.name, "help": option.help}
    if option.kind is bool:
        parser.add_argument(flag, action="store_true", **about)
    elif option.kind is list:
        parser.add_argument(flag, action="append", metavar="NAME", **about)
    else:
        parser.add_argument(flag, type=option.kind, choices=option.choices or None, **about)


def _defaults() -> dict[str, Any]:
    return {option.name: option.default for option in OPTIONS} | {"program": []}


def _weighed(*sources: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the sources say, the first of them with the greatest weight."""
    values: dict[str, Any] = {}
    for source in sources:
        decided = any(values.get(name) for name in EITHER)
        for name, value in source.items():
            if name == "program" and not value:
                continue
            if not (name in EITHER and decided):
                values.setdefault(name, value)
    return values


def _read_file(path: Path | None) -> dict[str, Any]:
    """Return the options in the file.

    :raises Unusable: it cannot be read, or says what is no option.
    """
    if path is None:
        return {}
    try:
        document = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise Unusable(f"--config: {path}: {error}") from error
    if unknown := sorted(document.keys() - {TABLE, PROVIDERS}):
        raise Unusable(f"--config: {path}: unknown: {', '.join(unknown)}")
    table = document.get(TABLE, {})
    if not isinstance(table, dict):
        raise Unusable(f"--config: {path}: {TABLE} is no table")
    return {name: _filed(path, name, value) for name, value in table.items()}


def _filed(path: Path, name: str, value: Any) -> Any:
    """Return the value of an option in the file, checked.

    :raises Unusable: it is no option, or of another type.
    """
    if name == "program":
        kind: type = list
    else:
        option = next((each for each in OPTIONS if each.name == name != "config"), None)
        if option is None:
            raise Unusable(f"--config: {path}: {TABLE}.{name} is no option")
        kind = option.kind
        if option.choices and value not in option.choices:
            raise Unusable(
                f"--config: {path}: {TABLE}.{name} is one of {', '.join(option.choices)}"
            )
    if kind is Path and isinstance(value, str):
        return path.parent / value
    if kind is float and type(value) is int:
        return float(value)
    texts = not isinstance(value, list) or all(isinstance(each, str) for each in value)
    if type(value) is not kind or not texts:
        raise Unusable(f"--config: {path}: {TABLE}.{name} has another type")
    return value
