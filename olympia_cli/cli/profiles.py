"""Profiles: catalogs and their storage options by name, in a file of the user's."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from olympia_cli.errors import InvalidOption, quoted


class Location(NamedTuple):
    """Where a catalog is, and the storage options that go with it."""

    uri: str
    options: dict[str, Any]


def read_config(name: str | None) -> dict[str, Any]:
    """The config file: profiles by name. It must exist only when a profile or the file was asked for."""
    import tomllib

    path = config_path()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if name is not None or "OLYMPIA_CONFIG" in os.environ:
            raise InvalidOption(f"there is no config file {path}", hint="make it, or use -c URI") from None
        return {}
    except (ValueError, OSError, RecursionError) as error:
        raise InvalidOption(f"the config file {path} cannot be read: {error}", hint="correct it") from None


def read_profile(name: str | None) -> Location:
    """A profile of the config file. Only one that was asked for must exist."""
    path, config = config_path(), read_config(name)
    profile = config.get(name or "default")
    if profile is None and name is None:
        return Location("", {})
    if not isinstance(profile, dict):
        names = ", ".join(key for key, value in config.items() if isinstance(value, dict)) or "none"
        raise InvalidOption(
            f"the config file {path} has no profile {quoted(name or 'default', 200)}", hint=f"there are: {names}"
        )
    options = profile.get("storage", {})
    uri = profile.get("catalog", "")
    if not isinstance(options, dict) or not isinstance(uri, str):
        raise InvalidOption(
            f"the profile {name or 'default'} in {path} is wrong",
            hint='write catalog = "URI" and a table [NAME.storage]',
        )
    return Location(uri, options)


def config_path() -> Path:
    if setting := os.environ.get("OLYMPIA_CONFIG"):
        return Path(setting)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "olympia" / "config.toml"


def options_for(uri: str, profile: Location, timeout: float | None) -> dict[str, Any]:
    """The storage options of a location: the profile's where it is about that kind of store, and the time allowed."""
    from olympia_cli.storage.open import BUCKET_SCHEMES, scheme_of

    scheme = scheme_of(uri)
    on_bucket = scheme in BUCKET_SCHEMES
    same_kind = scheme == scheme_of(profile.uri) if profile.uri else on_bucket
    options = dict(profile.options) if same_kind else {}
    return options | ({"timeout": timeout} if timeout is not None and on_bucket else {})
