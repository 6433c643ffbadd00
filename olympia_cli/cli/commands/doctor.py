from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from olympia_cli.cli import render
from olympia_cli.cli.context import Session
from olympia_cli.cli.escape import visible
from olympia_cli.cli.params import Output

if TYPE_CHECKING:
    from olympia_cli.cli.checkup import Checkup

EXAMPLES = ["olympia doctor", "olympia doctor --read-only", "olympia doctor -c s3://lake/catalog --json"]

PACKAGES = ["typer", "rich", "pyarrow", "protobuf", "fsspec", "s3fs", "gcsfs", "pyspark", "pandas", "pyiceberg"]
_COLORS = {"ok": "32", "note": "36", "attention": "33", "failed": "31"}
_CSV = ["check", "state", "text"]


def run(
    ctx: typer.Context,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Create nothing, not even for a moment; for who only reads.")
    ] = False,
) -> None:
    """Look for what keeps the program from working well here.

    Settings and where each comes from; credentials, there or not; whether the store lists, reads, creates, refuses to
    create the same file twice, and deletes; its clock; room on the disk; the catalog itself and which fsck is due; the
    versions of what is installed; and one command that comes next. A file of a random name is created and deleted for
    that; nothing is left behind. It works where no catalog can be opened, too.

    Exit status: 0 all is well; 51 something needs attention; otherwise that of the error that keeps the program from
    working, such as 2, 10, 30, 31 or 40.
    """
    from olympia_cli.cli.checkup import check_up

    session = Session(ctx)
    found = check_up(session, write=not read_only)
    values = _describe(session, found)
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, values)
    else:
        with session.out() as out:
            _write(session, out, values)
    raise typer.Exit(found.exit_code)


def _describe(session: Session, found: Checkup) -> dict[str, Any]:
    words, why = _next(found)
    return {
        "catalog": found.uri,
        "settings": [setting.describe() for setting in found.settings],
        "checks": [{"check": one.check, "state": one.state, "text": one.text} for one in found.checks],
        "versions": _versions(),
        "verdict": None if found.status is None else str(found.status.standing),
        "needs_attention": found.attention,
        "next": {"command": shlex.split(session.command(shlex.join(words))), "why": why},
        "exit_code": found.exit_code,
        "left_behind": [found.left_behind] if found.left_behind is not None else [],
    }


def _next(found: Checkup) -> tuple[tuple[str, ...], str]:
    """The one command that comes next: what is wrong first, then what is due."""
    if found.error is not None:
        words = {10: ("init",), 40: ("fsck",)}.get(found.error.exit_code, ("config", "show"))
        return words, f"{found.error.message}: {found.error.hint}" if found.error.hint else found.error.message
    if found.status is not None:
        reasons = [*found.status.damage, *found.status.attention]
        for reason in reasons or ([found.due] if found.due is not None else []):
            return reason.words, reason.text
    return ("status",), "all is well"


def _versions() -> dict[str, str | None]:
    import platform

    from olympia_cli import __version__
    from olympia_cli.cli.checkup import installed

    return {
        "olympia": __version__,
        "python": platform.python_version(),
        "platform": platform.platform(),
        **{name: installed(name) for name in PACKAGES},
    }


def _write(session: Session, out: TextIO, values: dict[str, Any]) -> None:
    command = shlex.join(values["next"]["command"])
    if session.output is Output.CSV:
        render.csv_rows(session, out, _CSV, values["checks"])
    elif session.output is Output.NAME:
        bad = [one["check"] for one in values["checks"] if one["state"] in ("attention", "failed")]
        out.writelines(f"{visible(check)}\n" for check in bad)
    elif not session.is_tty:
        for one in values["checks"]:
            out.write("\t".join(map(visible, ("check", one["check"], one["state"], one["text"]))) + "\n")
        for one in values["settings"]:
            cells = ("setting", one["name"], one["value"] or "", one["source"], one["from"])
            out.write("\t".join(map(visible, cells)) + "\n")
        for name, version in values["versions"].items():
            out.write(f"version\t{name}\t{visible(version or 'not installed')}\n")
        out.write("\t".join(map(visible, ("next", command, values["next"]["why"]))) + "\n")
    else:
        _draw(session, out, values)
        out.write(f"\nnext  {visible(command)}\n      {visible(values['next']['why'])}\n")


def _draw(session: Session, out: TextIO, values: dict[str, Any]) -> None:
    for one in values["checks"]:
        state = one["state"].ljust(9)
        shown = f"\x1b[{_COLORS[one['state']]}m{state}\x1b[0m" if session.color else state
        out.write(f"{shown}  {one['check'].ljust(18)}  {visible(one['text'])}\n")
    out.write("\n")
    width = max((len(one["name"]) for one in values["settings"]), default=0)
    for one in values["settings"]:
        where = one["from"] or one["source"]
        out.write(f"{visible(one['name']).ljust(width)}  {visible(one['value'] or 'not set')}  ({visible(where)})\n")
    out.write("\n")
    there = ", ".join(f"{name} {version}" for name, version in values["versions"].items() if version is not None)
    out.write(f"{visible(there)}\n")
