"""Providers of models: where they are, which face they speak, and whose keys open them.

A file (TOML) has a table for each, whose name is the provider's in the catalogue:

    [providers.openai]
    api = "openai"
    base_url = "https://api.openai.com/v1"
    api_key_file = "openai.key"

Keys are read anew for each request, so that a rotated one counts at once, and stand in no text
that this module makes.
"""

import os
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import quote, unquote_plus, urlsplit

from fencepost_worker.gateway.faces import Face

#: Providers that end a streamed call, and what it costs, when its connection is closed. Of all
#: others a stream that nobody reads any more is read to its end. Source: OpenRouter's page on
#: streaming, of November 2026.
CUT_BY_DEFAULT = frozenset({"openai", "azure", "anthropic", "xai", "x-ai", "deepseek", "together"})
#: Providers whose newer models take the limit under no other name.
COMPLETION_MEMBER_BY_DEFAULT = frozenset({"openai", "azure"})
#: Providers that refuse a request for usage in streams; they report it anyway.
NO_USAGE_BY_DEFAULT = frozenset({"mistral"})
MEMBERS = ("max_tokens", "max_completion_tokens")
OPTIONS = frozenset(
    {
        "api", "auth", "base_url", "api_key_file", "api_key_env", "on_disconnect", "include_usage",
        "max_tokens_member",
    }
)  # fmt: skip
#: How a provider of the OpenAI face is shown its key: as a bearer's, or in Azure's own header.
BEARER, API_KEY = "bearer", "api-key"
#: Where a base address has the model, as the older API of Azure wants its deployment.
MODEL_PLACE = "{model}"
#: Members of a query that belong to an address, and not to who asks: which API answers there.
OF_ADDRESS = frozenset({"api-version"})
KEY_BYTES_MAX = 16 * 1024


class ProvidersUnreadable(Exception):
    """The configuration of providers cannot be used; the message is one line for a person."""


class KeyMissing(Exception):
    """A provider's key cannot be read now; the message says where it was looked for."""


@dataclass(frozen=True)
class Provider:
    """One provider as this worker reaches it.

    `base_url` is what the provider's own SDK takes: with `/v1` at the end for `openai`, without
    for `anthropic`. Its query goes on with every request, and `{model}` in it is the model asked.
    """

    name: str
    api: Face
    base_url: str
    auth: str = BEARER
    on_disconnect: str = "drain"
    include_usage: bool = True
    max_tokens_member: str = "max_tokens"
    key_file: Path | None = None
    key_variable: str = ""
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)

    def key(self) -> str:
        """Return the key as it is now; empty where the provider asks for none.

        :raises KeyMissing: there should be one, and it cannot be read.
        """
        if self.key_file is not None:
            try:
                with self.key_file.open(encoding="utf-8") as file:
                    key = file.read(KEY_BYTES_MAX).strip()
            except (OSError, UnicodeError) as error:
                raise KeyMissing(f"provider {self.name}: its key file cannot be read") from error
            return _sendable(key, f"provider {self.name}: its key file")
        if self.key_variable:
            key = self.environ.get(self.key_variable, "").strip()
            return _sendable(key, f"provider {self.name}: {self.key_variable}")
        return ""

    @property
    def address(self) -> str:
        """Return the base address without its query, which others than the provider may not see."""
        return self.base_url.partition("?")[0]

    @property
    def names_model(self) -> bool:
        """Return whether the model is in its address."""
        return MODEL_PLACE in self.address

    def url_of(self, path: str, *, query: str = "", model: str = "") -> str:
        """Return the address of a path of the face, which begins with `/v1/`.

        :param query: the program's; of a member that the base address has that one stands.
        """
        within = path.removeprefix("/v1") if self.api is Face.OPENAI else path
        own = self.base_url.partition("?")[2].split("&")
        named = OF_ADDRESS | {_member(part) for part in own}
        theirs = [part for part in query.split("&") if _member(part) not in named]
        joined = "&".join(part for part in [*own, *theirs] if part)
        place = self.address.replace(MODEL_PLACE, quote(model, safe="")) + within
        return f"{place}?{joined}" if joined else place

    @property
    def list_url(self) -> str:
        """Return where its models are listed: those that have an address each, before all of it."""
        whole = self.url_of("/v1/models")
        if not self.names_model:
            return whole
        return self.address.partition("/deployments/")[0] + whole[whole.index("/models") :]

    def headers(self) -> dict[str, str]:
        """Return the headers that open the provider.

        :raises KeyMissing: as `key` does.
        """
        key = self.key()
        if not key:
            return {}
        if self.api is Face.ANTHROPIC:
            return {"x-api-key": key}
        if self.auth == API_KEY:
            return {"api-key": key}
        return {"authorization": f"Bearer {key}"}


@dataclass(frozen=True)
class Providers:
    """All providers of a worker, by their names in the catalogue."""

    by_name: Mapping[str, Provider] = field(default_factory=dict)

    def __iter__(self) -> Iterator[Provider]:
        return iter(self.by_name.values())

    def __bool__(self) -> bool:
        return bool(self.by_name)

    def get(self, name: str) -> Provider | None:
        """Return the provider of this name, if the worker has it."""
        return self.by_name.get(name)


def read_providers(path: Path | None, environ: Mapping[str, str] | None = None) -> Providers:
    """Return the providers that a configuration file names; none without a file.

    :param environ: where keys named by `api_key_env` are; by default the process's environment.
    :raises ProvidersUnreadable: it cannot be read, or says what it may not.
    """
    if path is None:
        return Providers()
    try:
        with path.open("rb") as file:
            document = tomllib.load(file)
    except OSError as error:
        raise ProvidersUnreadable(f"{path}: {error.strerror or 'cannot be read'}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ProvidersUnreadable(f"{path}: {error}") from error
    return providers_of(document.get("providers", {}), folder=path.parent, environ=environ)


def providers_of(
    tables: Any, *, folder: Path = Path(), environ: Mapping[str, str] | None = None
) -> Providers:
    """Return the providers that `[providers.NAME]` tables name.

    :param folder: what relative key files are below.
    :raises ProvidersUnreadable: as `read_providers` does.
    """
    if not isinstance(tables, dict):
        raise ProvidersUnreadable("providers: a table for each provider, [providers.NAME]")
    known = os.environ if environ is None else environ
    return Providers({name: _provider(name, tables[name], folder, known) for name in tables})


def _provider(name: str, table: Any, folder: Path, environ: Mapping[str, str]) -> Provider:
    where = f"providers.{name}"
    if not isinstance(table, dict):
        raise ProvidersUnreadable(f"{where}: is not a table")
    if unknown := sorted(set(table) - OPTIONS):
        raise ProvidersUnreadable(f"{where}: unknown: {', '.join(unknown)}")
    file, variable = (_text(table, option, where) for option in ("api_key_file", "api_key_env"))
    if file and variable:
        raise ProvidersUnreadable(f"{where}: api_key_file or api_key_env, not both")
    short = name.lower()
    api = Face(_one_of(table, "api", [str(face) for face in Face], "", where))
    if "auth" in table and api is not Face.OPENAI:
        raise ProvidersUnreadable(f"{where}: auth: of providers whose api is openai")
    return Provider(
        name=name,
        api=api,
        base_url=_address(table, where),
        auth=_one_of(table, "auth", [BEARER, API_KEY], BEARER, where),
        on_disconnect=_one_of(
            table,
            "on_disconnect",
            ["cut", "drain"],
            "cut" if short in CUT_BY_DEFAULT else "drain",
            where,
        ),
        include_usage=_flag(table, "include_usage", short not in NO_USAGE_BY_DEFAULT, where),
        max_tokens_member=_one_of(
            table,
            "max_tokens_member",
            MEMBERS,
            MEMBERS[short in COMPLETION_MEMBER_BY_DEFAULT],
            where,
        ),
        key_file=folder / file if file else None,
        key_variable=variable,
        environ=environ,
    )


def _address(table: dict[str, Any], where: str) -> str:
    place, mark, query = _text(table, "base_url", where).partition("?")
    url = f"{place.rstrip('/')}{mark}{query}"
    try:
        parts = urlsplit(url)
        named = parts.scheme in ("http", "https") and bool(parts.hostname)
    except ValueError:
        named = False
    if not named or parts.fragment or parts.username is not None:
        raise ProvidersUnreadable(f"{where}: base_url: an http or https address")
    return url


def _member(part: str) -> str:
    """Return the name of a part of a query."""
    return unquote_plus(part.partition("=")[0])


def _one_of(
    table: dict[str, Any], option: str, allowed: list[str] | tuple[str, ...], usual: str, where: str
) -> str:
    value = table.get(option, usual)
    if value not in allowed:
        raise ProvidersUnreadable(f"{where}: {option}: one of {', '.join(allowed)}")
    return str(value)


def _flag(table: dict[str, Any], option: str, usual: bool, where: str) -> bool:
    value = table.get(option, usual)
    if not isinstance(value, bool):
        raise ProvidersUnreadable(f"{where}: {option}: true or false")
    return value


def _text(table: dict[str, Any], option: str, where: str) -> str:
    value = table.get(option, "")
    if not isinstance(value, str):
        raise ProvidersUnreadable(f"{where}: {option}: a text")
    return value


def _sendable(key: str, where: str) -> str:
    """Return the key if it can stand in a header; a client's own error would show it."""
    if not key:
        raise KeyMissing(f"{where} is empty")
    if not key.isascii() or not key.isprintable():
        raise KeyMissing(f"{where} holds what is no key")
    return key
