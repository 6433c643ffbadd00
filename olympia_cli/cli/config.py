"""Profiles: named catalogs with their storage options, in the user's config file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from olympia_cli.errors import InvalidOption, OlympiaError, quoted
from olympia_cli.masking import MASK, masked

if TYPE_CHECKING:
    from olympia_cli.cli.session import Session


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
            meant = None if key in _KEYS else nearest(key, _KEYS)
            raise InvalidOption(text, hint=f"{f'did you mean {meant}? ' if meant else ''}write it in [default]")
    for name in names:
        for key in config[name] if isinstance(config.get(name), dict) else ():
            if key not in _KEYS:
                meant = "catalog" if key.lower() in _OTHER_WORDS else nearest(key, _KEYS)
                advice = f"a profile has only catalog and storage; write it in [{name}.storage]"
                if isinstance(config[name][key], dict) and not meant:
                    advice = f"a profile is a table of its own: write [{key}] in place of [{name}.{key}]"
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


# The settings in effect, and the source of each. Values are masked unless they are known to be harmless.

Source = Literal["flag", "environment", "profile", "default"]
HARMLESS = frozenset(
    {"access", "anon", "bucket", "default_location", "endpoint_url", "project", "region", "requester_pays", "timeout"}
    | {"use_ssl"}
)
"""The storage options whose values are shown."""


class Setting(NamedTuple):
    """A setting with its value and its source. `origin` is the name of the flag, the variable or the profile."""

    name: str
    value: str | None
    source: Source
    origin: str = ""

    def describe(self) -> dict[str, Any]:
        return {"name": self.name, "value": self.value, "source": self.source, "from": self.origin}


def settings(session: Session) -> list[Setting]:
    """Return all settings of this run."""
    file = _said("OLYMPIA_CONFIG") or Setting("config file", str(config_path()), "default")
    return [file._replace(name="config file"), *_of_location(session), *_of_program(session)]


def _of_location(session: Session) -> Iterator[Setting]:
    from olympia_cli.storage.protocol import TIME_ALLOWED

    profile = session.said("profile")
    config = read_config(profile.value)
    used = profile.value or ("default" if isinstance(config.get("default"), dict) else None)
    yield profile._replace(value=used)
    catalog = session.said("catalog")
    section = config.get(used, {}) if used is not None else {}
    origin = f"profile {used}"
    if catalog.source == "environment" and profile.source == "flag":
        # a profile named on the command line beats the environment
        catalog = catalog._replace(value=None, source="default", origin="")
    if catalog.value is None and isinstance(section, dict) and isinstance(section.get("catalog"), str):
        catalog = Setting("catalog", section["catalog"], "profile", origin)
    yield catalog._replace(value=None if catalog.value is None else masked(catalog.value))
    storage = section.get("storage", {}) if isinstance(section, dict) else {}
    storage = storage if isinstance(storage, dict) else {}
    timeout = session.said("timeout")
    if timeout.value is None and "timeout" in storage:
        timeout = Setting("timeout", str(storage["timeout"]), "profile", origin)
    yield timeout if timeout.value is not None else timeout._replace(value=f"{TIME_ALLOWED:g}s")
    with suppress(OlympiaError):
        # only the options for this kind of store apply
        storage = session.location.options
    for name, value in masked_options(storage).items():
        if name != "timeout":
            yield Setting(f"storage.{name}", value, "profile", origin)


def _of_program(session: Session) -> Iterator[Setting]:
    from olympia_cli.catalog.catalog import who

    by = _said("OLYMPIA_BY") or Setting("by", who(), "default")
    yield by._replace(name="by")
    log_format = session.said("log_format")
    yield log_format if log_format.value is not None else log_format._replace(value="text")
    pager = _said("OLYMPIA_PAGER") or _said("PAGER") or Setting("pager", "less -FRX", "default")
    yield pager._replace(name="pager")
    color = _said("NO_COLOR")
    flag = session.said("no_color")
    if flag.source == "flag" or color is not None:
        yield Setting("color", "never", flag.source if color is None else "environment", flag.origin or "NO_COLOR")
    else:
        yield Setting("color", "on a terminal", "default")


def _said(variable: str) -> Setting | None:
    value = os.environ.get(variable)
    return Setting("", value, "environment", variable) if value else None


def profiles() -> list[dict[str, Any]]:
    """Return every profile of the config file, with secrets masked."""
    rows, config = [], read_config(None)
    check_keys(config, *(name for name, section in config.items() if isinstance(section, dict)))
    for name, section in config.items():
        if isinstance(section, dict):
            catalog, storage = section.get("catalog"), section.get("storage")
            uri = masked(catalog) if isinstance(catalog, str) else None
            options = masked_options(storage) if isinstance(storage, dict) else {}
            rows.append({"name": name, "catalog": uri, "storage": options})
    return rows


def masked_options(options: Mapping[str, Any]) -> dict[str, str]:
    """Mask the values of all options that are not known to be harmless."""
    return {name: masked(_text(value)) if name in HARMLESS else MASK for name, value in options.items()}


def _text(value: Any) -> str:
    return ("true" if value else "false") if isinstance(value, bool) else str(value)
