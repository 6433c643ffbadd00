"""The settings in effect, and the source of each. Values are masked unless they are known to be harmless."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from olympia_cli.cli.profiles import check_keys, config_path, read_config
from olympia_cli.errors import OlympiaError
from olympia_cli.masking import MASK, masked

if TYPE_CHECKING:
    from olympia_cli.cli.context import Session

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
    from olympia_cli.storage.settle import TIME_ALLOWED

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
