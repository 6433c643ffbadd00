from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from olympia_cli.cli.checkup import check_up, installed
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import render
from olympia_cli.cli.output.escape import visible
from olympia_cli.cli.session import Session

if TYPE_CHECKING:
    from olympia_cli.cli.checkup import Checkup

EXAMPLES = ["olympia doctor", "olympia doctor --read-only", "olympia doctor -c s3://lake/catalog --json"]

PACKAGES = ["typer", "rich", "pyarrow", "protobuf", "fsspec", "s3fs", "gcsfs", "pyspark", "pandas", "pyiceberg"]
_COLORS = {"ok": "32", "note": "36", "attention": "33", "failed": "31"}
_CSV = ["check", "state", "text"]


def run(
    ctx: typer.Context,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="Create no file, not even for a moment; for users who may only read.")
    ] = False,
) -> None:
    """Diagnose the local setup.

    Shows the settings and the source of each, whether credentials are set, and the versions of installed packages.
    Tests whether the store lists, reads, creates, refuses to create a file twice, and deletes. Compares its clock with
    this machine's, and shows the free space. Shows the state of the catalog and which fsck is due, and ends with the
    command to run next. The test creates one file with a random name, and deletes it. It works without a catalog too.

    Exit status: 0 all is well; 51 something needs attention; otherwise the code of the error that prevents work, such
    as 2, 10, 30, 31 or 40.
    """
    session = Session(ctx)
    checkup = check_up(session, write=not read_only)
    values = _describe(session, checkup)
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, values)
    else:
        with session.out() as out:
            _write(session, out, values)
    raise typer.Exit(checkup.exit_code)


def _describe(session: Session, checkup: Checkup) -> dict[str, Any]:
    remedy, why = checkup.next
    return {
        "catalog": checkup.uri,
        "settings": [setting.describe() for setting in checkup.settings],
        "checks": [{"check": check.check, "state": check.state, "text": check.text} for check in checkup.checks],
        "versions": _versions(),
        "verdict": None if checkup.status is None else str(checkup.status.standing),
        "needs_attention": checkup.attention,
        "next": {"command": session.argv(remedy.words, shell=remedy.shell), "why": why},
        "exit_code": checkup.exit_code,
        "left_behind": [checkup.left_behind] if checkup.left_behind is not None else [],
    }


def _versions() -> dict[str, str | None]:
    import platform

    from olympia_cli import __version__

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
        bad = [row["check"] for row in values["checks"] if row["state"] in ("attention", "failed")]
        out.writelines(f"{visible(check)}\n" for check in bad)
    elif session.quiet and not values["exit_code"]:
        return
    elif not session.is_tty:
        for row in values["checks"]:
            if not session.quiet or row["state"] in ("attention", "failed"):
                out.write("\t".join(map(visible, ("check", row["check"], row["state"], row["text"]))) + "\n")
        for row in () if session.quiet else values["settings"]:
            cells = ("setting", row["name"], row["value"] or "", row["source"], row["from"])
            out.write("\t".join(map(visible, cells)) + "\n")
        for name, version in () if session.quiet else values["versions"].items():
            out.write(f"version\t{name}\t{visible(version or 'not installed')}\n")
        out.write("\t".join(map(visible, ("next", command, values["next"]["why"]))) + "\n")
    else:
        _draw(session, out, values)
        out.write(f"\nnext  {visible(command)}\n")
        out.writelines(f"      {line}\n" for line in render.wrapped(session, visible(values["next"]["why"]), 6))


def _draw(session: Session, out: TextIO, values: dict[str, Any]) -> None:
    for row in values["checks"]:
        if session.quiet and row["state"] in ("ok", "note"):
            continue
        state = row["state"].ljust(9)
        label = f"\x1b[{_COLORS[row['state']]}m{state}\x1b[0m" if session.color else state
        first, *rest = render.wrapped(session, visible(row["text"]), 31)
        out.write(f"{label}  {row['check'].ljust(18)}  {first}\n")
        out.writelines(f"{' ' * 31}{line}\n" for line in rest)
    if session.quiet:
        return
    out.write("\n")
    width = max((len(row["name"]) for row in values["settings"]), default=0)
    for row in values["settings"]:
        where = row["from"] or row["source"]
        out.write(f"{visible(row['name']).ljust(width)}  {visible(row['value'] or 'not set')}  ({visible(where)})\n")
    out.write("\n")
    packages = ", ".join(f"{name} {version}" for name, version in values["versions"].items() if version is not None)
    out.writelines(f"{line}\n" for line in render.wrapped(session, visible(packages), 0))
