"""The commands of settings."""

from __future__ import annotations

import typer

from olympia_cli.cli.config import config_path, profiles, settings
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.render import Column
from olympia_cli.cli.session import Session

EXAMPLES = {"show": ["olympia config show", "olympia config show --profile prod --json"]}

SETTINGS = [Column("name", "SETTING"), Column("value", "VALUE"), Column("source", "SOURCE"), Column("from", "FROM")]
PROFILES = [Column("name", "PROFILE"), Column("catalog", "CATALOG"), Column("options", "STORAGE")]


def show(ctx: typer.Context) -> None:
    """Show the settings in effect, and where each comes from.

    A flag beats the environment, which beats the profile. Secrets are masked, and so is every storage option that is
    not known to be harmless. The profiles of the config file follow. No store is accessed.
    """
    session = Session(ctx)
    setting_rows = [setting.describe() for setting in settings(session)]
    profile_rows = profiles()
    used = next(setting["value"] for setting in setting_rows if setting["name"] == "profile")
    if session.output in (Output.JSON, Output.JSONL):
        path = config_path()
        head = {"config_file": str(path), "exists": path.is_file(), "profile": used}
        render.document(session, {**head, "settings": setting_rows, "profiles": profile_rows})
        return
    render.records(session, "settings", SETTINGS, setting_rows)
    if profile_rows and session.output in (Output.TABLE, Output.WIDE):
        options = (
            ", ".join(f"{name}={value}" for name, value in profile["storage"].items()) for profile in profile_rows
        )
        rows = ({**profile, "options": text} for profile, text in zip(profile_rows, options, strict=True))
        with session.out() as out:
            out.write("\n")
        render.records(session, "profiles", PROFILES, rows)
