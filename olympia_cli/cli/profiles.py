"""Profiles: named catalogs with their storage options, in the user's config file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from olympia_cli.errors import InvalidOption, quoted


class Location(NamedTuple):
    """The URI of a catalog, and its storage options."""

    uri: str
    options: dict[str, Any]


def read_config(name: str | None) -> dict[str, Any]:
    """Read the config file: profiles by name. It may be missing if neither a profile nor the file is named."""
    import tomllib

    path = config_path()
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        if name is not None or "OLYMPIA_CONFIG" in os.environ:
            raise InvalidOption(f"there is no config file {path}", hint="create it, or use -c URI") from None
        return {}
    except (ValueError, OSError, RecursionError) as error:
        raise InvalidOption(f"the config file {path} cannot be read: {error}", hint="correct it") from None


def read_profile(name: str | None) -> Location:
    """Read a profile of the config file. The default profile may be missing."""
    path, config = config_path(), read_config(name)
    profile = config.get(name or "default")
    if profile is None and name is None:
        check_keys(config)
        return Location("", {})
    if not isinstance(profile, dict):
        names = ", ".join(key for key, value in config.items() if isinstance(value, dict)) or "none"
        raise InvalidOption(
            f"the config file {path} has no profile {quoted(name or 'default', 200)}", hint=f"there are: {names}"
        )
    check_keys(config, name or "default")
    options = profile.get("storage", {})
    uri = profile.get("catalog", "")
    if not isinstance(options, dict) or not isinstance(uri, str):
        raise InvalidOption(
            f"the profile {name or 'default'} in {path} is wrong",
            hint='write catalog = "URI" and a table [NAME.storage]',
        )
    return Location(uri, options)


_KEYS = ("catalog", "storage")
_OTHER_WORDS = ("uri", "url", "location", "path", "warehouse")
"""Keys that other programs have for the location of a catalog."""


def check_keys(config: Mapping[str, Any], *names: str) -> None:
    """Raise InvalidOption for keys outside of profiles, and for unknown keys in these profiles.

    Otherwise a typing error would silently lead to other settings.
    """
    from olympia_cli.names import nearest

    path = config_path()
    for key, value in config.items():
        if not isinstance(value, dict) and key not in names:
            text = f"the config file {path} has {quoted(key)} outside of a profile"
            raise InvalidOption(text, hint="write it in [default]")
    for name in names:
        for key in config[name] if isinstance(config.get(name), dict) else ():
            if key not in _KEYS:
                meant = "catalog" if key.lower() in _OTHER_WORDS else nearest(key, _KEYS)
                advice = f"a profile has only catalog and storage; write it in [{name}.storage]"
                hint = f"did you mean {meant}?" if meant else advice
                raise InvalidOption(f"the profile {name} in {path} has {quoted(key)}", hint=hint)


def how_to_name_a_catalog(name: str | None) -> str:
    """Return the advice for a command without a catalog, depending on the profiles of the config file."""
    config = read_config(name)
    if isinstance(config.get(name or "default"), dict):
        return f"use -c URI, or set OLYMPIA_CATALOG: the profile {name or 'default'} in {config_path()} has none"
    names = [key for key, value in config.items() if isinstance(value, dict) and value.get("catalog")]
    if names:
        return f"the config file has no default: use --profile {' or '.join(names[:5])}, or -c URI"
    # an unknown key may be a typing error for the catalog
    check_keys(config, *config)
    return "use -c URI, or set OLYMPIA_CATALOG, or create a profile"


def config_path() -> Path:
    if setting := os.environ.get("OLYMPIA_CONFIG"):
        return Path(setting)
    home = os.environ.get("XDG_CONFIG_HOME") or Path.home() / ".config"
    return Path(home) / "olympia" / "config.toml"


def options_for(uri: str, profile: Location, timeout: float | None) -> dict[str, Any]:
    """Return the storage options of a location: the timeout, and those of a profile for that kind of store."""
    from olympia_cli.storage.open import BUCKET_SCHEMES, scheme_of

    scheme = scheme_of(uri)
    on_bucket = scheme in BUCKET_SCHEMES
    same_kind = scheme == scheme_of(profile.uri) if profile.uri else on_bucket
    options = dict(profile.options) if same_kind else {}
    return options | ({"timeout": timeout} if timeout is not None and on_bucket else {})
