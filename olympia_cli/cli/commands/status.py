"""`olympia status`: the verdict, the reasons with the next command of each, and then the details."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from olympia_cli.cli.options import Output, parse_seconds
from olympia_cli.cli.output import dumps, render, size, visible
from olympia_cli.cli.output.log import age
from olympia_cli.cli.session import Session
from olympia_cli.errors import InvalidOption, InvalidReference, OlympiaError
from olympia_cli.names import parse_time, plural, time_text
from olympia_cli.ops import inspect

if TYPE_CHECKING:
    from olympia_cli.ops.fsck import FsckRun
    from olympia_cli.ops.inspect import Reason, Standing, Status

EXAMPLES = [
    "olympia status",
    "olympia status --full --json",
    "olympia status --watch 10",
    "olympia status --prometheus > /var/lib/node_exporter/olympia.prom.new",
]


def run(
    ctx: typer.Context,
    seconds: Annotated[
        str | None,
        typer.Argument(metavar="[SECONDS]", help="With --watch: seconds between two refreshes; 5 if not given."),
    ] = None,
    full: Annotated[
        bool, typer.Option("--full", help="Also count objects, files and bytes; this reads all kept nodes.")
    ] = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print metrics for Prometheus.")] = False,
    watch: Annotated[
        bool, typer.Option("--watch", "-w", help="Refresh until Ctrl-C; when piped, print one record per refresh.")
    ] = False,
) -> None:
    """Show the health of the catalog.

    The first line is the verdict: SOUND, with the fsck that found it so; NEVER CHECKED; OVERDUE or NEEDS ATTENTION;
    DAMAGED; UNREADABLE, UNREACHABLE or NOT FOUND. The reasons follow, each with the next command. Damage that a
    thorough fsck found is shown until an equally thorough one finds it repaired.

    The exit code follows the verdict: 0 healthy, 51 needs attention, 50 fsck found damage, 40 unreadable; otherwise the
    code of the error. --prometheus prints metrics in all these cases: olympia_up tells whether the catalog could be
    opened.
    """
    session = Session(ctx)
    if seconds is not None and not watch:
        raise InvalidOption(f"{seconds[:60]!a} needs --watch", hint="write status --watch SECONDS")
    if watch and prometheus:
        raise InvalidOption("--watch and --prometheus do not go together", hint="run status --prometheus from cron")
    if watch:
        watch_status(session, full, seconds)
        return

    session.store  # noqa: B018  an invalid location is an error of usage, not an unreachable catalog
    catalog_status: Status | None = None
    try:
        catalog_status = inspect.status(session.catalog, full)
    except OlympiaError as error:
        if not prometheus:
            print_failure(session, error)
        raise
    finally:
        if prometheus:
            with session.out() as out:
                out.write(inspect.prometheus(session.store.uri, catalog_status))
    if not prometheus:
        print_status(session, catalog_status)
    raise typer.Exit(catalog_status.exit_code)


# The output

_COLORS = {"sound": "1;32", "never checked": "1;36", "overdue": "1;33", "needs attention": "1;33"}
_BAD = "1;31"
SHOWN = 5
"""Number of transactions or exports to name."""


def describe_status(session: Session, status: Status) -> dict[str, Any]:
    """Return the status for JSON, each reason with the next command."""
    return {**status.values, "reasons": [_reason(session, reason) for reason in status.reasons]}


def describe_failure(session: Session, error: OlympiaError, looked_at: str) -> dict[str, Any]:
    """Return the record of a refresh in which the catalog could not be read."""
    return {
        "catalog": session.store.uri,
        "looked_at": looked_at,
        "verdict": str(inspect.standing_of(error)),
        "error": {"code": error.name, "message": error.message, "hint": error.hint, "exit_code": error.exit_code},
        "reasons": [{"text": error.message, "command": session.argv(_after(error))}],
    }


def print_status(session: Session, status: Status) -> None:
    if session.output in (Output.TABLE, Output.WIDE):
        with session.out() as out:
            if session.quiet and not status.exit_code:
                return
            if session.is_tty:
                _write_screen(session, out, status)
            else:
                for cells in _records(session, status):
                    out.write("\t".join(map(visible, cells)) + "\n")
        if not session.is_tty:
            for reason in status.attention:
                session.say(f"needs attention: {reason.text}")
    else:
        render.record(session, describe_status(session, status), name=str(status.values["id"]))


def print_failure(session: Session, error: OlympiaError) -> None:
    """Print the verdict for a catalog that cannot be read, on a terminal. The error itself follows on stderr."""
    if session.output in (Output.TABLE, Output.WIDE) and session.is_tty:
        with session.out() as out:
            out.write(f"{_standing(session, inspect.standing_of(error))}  {visible(session.store.uri)}\n")
            out.write(f"    next  {visible(session.command(shlex.join(_after(error))))}\n")


def round_line(values: Mapping[str, Any]) -> str:
    """Format a refresh of --watch as one line: time, verdict, version and reasons."""
    reasons = "; ".join(reason["text"] for reason in values["reasons"])
    version = "" if values.get("version") is None else f"v{values['version']}"
    return "\t".join(map(visible, (values["looked_at"], values["verdict"].upper(), version, reasons)))


def _reason(session: Session, reason: Reason) -> dict[str, Any]:
    return {"text": reason.text, "command": session.argv(reason.words, shell=reason.shell)}


def _after(error: OlympiaError) -> tuple[str, ...]:
    """Return the next command if the catalog cannot be read: fsck for damage, doctor for other errors."""
    return ("fsck",) if error.exit_code == 40 or error.command == ("fsck",) else ("doctor",)


# Piped output: one value per line


def _records(session: Session, status: Status) -> Iterator[tuple[str, ...]]:
    values = {"verdict": status.values["verdict"]} if session.quiet else status.values
    for key, value in values.items():
        if key not in ("needs_attention", "fsck_runs", "transactions", "unfinished_exports"):
            yield from _flat(key, value)
    for run in values.get("fsck_runs", ()):
        yield "fsck_run", *(render.for_people(value) for value in run.values())
    for transaction in values.get("transactions", ()):
        yield "transaction", *(render.for_people(value) for value in transaction.values())
    for export in values.get("unfinished_exports", ()):
        yield (
            "unfinished_export",
            *(render.for_people(export[key]) for key in ("name", "at_version", "mode", "begun_at", "location")),
        )
    for reason in status.reasons:
        yield "reason", reason.text, shlex.join(session.argv(reason.words, shell=reason.shell))


def _flat(key: str, value: Any) -> Iterator[tuple[str, str]]:
    """Yield the fields of a value. Inner fields are named `outer.inner`."""
    if isinstance(value, Mapping):
        for inner, item in value.items():
            yield from _flat(f"{key}.{inner}", item)
    elif value is not None and value != []:
        yield key, render.for_people(value)


# The screen


def _write_screen(session: Session, out: TextIO, status: Status) -> None:
    values = status.values
    now = _millis(values["looked_at"]) or 0
    # beside damage, older or less thorough sound runs would confuse
    sound = [run for run in reversed(status.runs) if run.sound and not status.damaged]
    checked = "  " + ", ".join(_run(run, now, values["version"]) for run in sound) if sound else ""
    lead = f"{_standing(session, status.standing)}  "
    _write_beside(session, out, lead, f"{values['catalog']}{checked}", len(status.standing) + 2)
    for reason in status.reasons:
        command = shlex.join(session.argv(reason.words, shell=reason.shell))
        _write_beside(session, out, "  ", reason.text, 2)
        # a command is not wrapped, so that it can be copied
        out.write(f"    next  {visible(command)}\n")
    if session.quiet:
        return
    out.write("\n")
    for title, text in _fields(values, now, wide=session.output is Output.WIDE):
        _write_beside(session, out, title.ljust(13) + " ", text, 14)


def _write_beside(session: Session, out: TextIO, lead: str, text: str, indent: int) -> None:
    """Write a text after the lead, which takes `indent` columns, wrapped to the width of the terminal."""
    lines = render.wrapped(session, visible(text), indent)
    out.write(f"{lead}{lines[0]}\n")
    out.writelines(f"{' ' * indent}{line}\n" for line in lines[1:])


def _standing(session: Session, standing: Standing) -> str:
    word = str(standing).upper()
    return f"\x1b[{_COLORS.get(standing, _BAD)}m{word}\x1b[0m" if session.color else word


def _run(run: FsckRun, now: int, latest: int) -> str:
    millis = run.finished_at_millis
    when = "" if millis is None else f" {age(millis, now)} ago"
    newer = latest - run.version if run.version is not None else 0
    since = f", {plural(newer, 'version')} since" if newer > 0 else ""
    return f"{run.level}{' of all versions' if run.all_versions else ''}{when} (v{run.version}{since})"


def _fields(values: Mapping[str, Any], now: int, *, wide: bool) -> Iterator[tuple[str, str]]:
    oldest, growth = values["oldest_version"], values["growth"]
    rate = growth["versions_per_day"]
    perday = f"; {rate:,.1f} versions a day" if rate is not None else ""
    yield "version", f"v{values['version']}, {_ago(values['created_at'], now)}; the oldest is v{oldest}{perday}"
    yield "tree", f"{plural(values['depth'], 'level')} of order {values['order']}"
    yield "hint", _hint(values["hint_lag"])
    yield "last fsck", _last(values["last_fsck"], now, _fsck_detail)
    yield "last expire", _last(values["last_expire"], now, lambda record: "")
    yield "last export", _last(values["last_export"], now, _export_detail)
    unfinished = [export["name"] for export in values["unfinished_exports"]]
    more = f"; unfinished: {_names(len(unfinished), unfinished)}" if unfinished else ""
    yield "exports", _names(values["exports"], values["export_names"]) + more
    yield "quarantine", _quarantine(values, now)
    transactions = values["transactions"]
    names = [f"{transaction['id']} ({_lifetime(transaction, now)})" for transaction in transactions]
    yield "transactions", _names(len(transactions), names)
    if values["read_only"]:
        yield "read only", "a catalog of the Java SDK, which olympia never changes"
    if "objects" in values:
        yield from _in_full(values)
    if wide:
        yield "id", values["id"]


def _hint(lag: int | None) -> str:
    if not lag:
        return "missing" if lag is None else "right"
    return f"{plural(abs(lag), 'version')} {'behind' if lag > 0 else 'ahead'}"


def _in_full(values: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    growth = values["growth"]
    objects = growth["objects_per_day"]
    change = "" if objects is None else f"; {objects:+,.1f} a day"
    counts = ", ".join(plural(count, kind.removesuffix("s")) for kind, count in values["objects"].items())
    yield "objects", counts + change
    files, total = (sum(entry[key] for entry in values["files"].values()) for key in ("files", "bytes"))
    written = growth["bytes_per_day"]
    a_day = "" if written is None else f"; {size(round(written))} written a day"
    yield "files", f"{plural(files, 'file')}, {size(total)}{a_day}"
    for kind, counted in sorted(values["files"].items()):
        yield f"  {kind}", f"{plural(counted['files'], 'file')}, {size(counted['bytes'])}"
    free = values["reclaimable_bytes"]
    yield "reclaimable", "unknown until the damage is repaired" if free is None else size(free)


def _millis(time: str | None) -> int | None:
    """Parse a time from a record. Return None if it is no valid time, because records may be damaged."""
    try:
        return None if time is None else parse_time(time)
    except InvalidReference:
        return None


def _ago(time: str, now: int) -> str:
    millis = _millis(time)
    return "at an unknown time" if millis is None else f"{age(millis, now)} ago, {time[:16].replace('T', ' ')}Z"


def _last(record: Mapping[str, Any] | None, now: int, detail: Callable[[Mapping[str, Any]], str]) -> str:
    return "never" if record is None else _ago(str(record.get("finished_at", "")), now) + detail(record)


def _fsck_detail(record: Mapping[str, Any]) -> str:
    result = "damaged" if record.get("damaged") else "sound" if record.get("complete", True) else "not to its end"
    scope = " of all versions" if record.get("all_versions") else ""
    return f": {result}, level {record.get('level', 'unknown')}{scope}"


def _export_detail(record: Mapping[str, Any]) -> str:
    return f": {record.get('name')}, of v{record.get('at_version')}"


def _quarantine(values: Mapping[str, Any], now: int) -> str:
    resting = values["quarantine"]
    if not resting["marks"]:
        return "empty"
    large = f", {size(values['quarantine_bytes'])}" if "quarantine_bytes" in values else ""
    text = f"{plural(resting['versions'], 'version')} in {plural(resting['marks'], 'mark')}{large}"
    after = _millis(resting["purge_after"])
    if after is None:
        return text
    when = f"in {age(now, after)}" if after > now else "by the next expire"
    return f"{text}; may be purged {when}, {resting['purge_after'][:16].replace('T', ' ')}Z"


def _lifetime(transaction: Mapping[str, Any], now: int) -> str:
    began, expires = _millis(transaction["began_at"]), _millis(transaction["expires_at"])
    if began is None or expires is None:
        return str(transaction["state"])
    text = f"began {age(began, now)} ago"
    return f"{text}, {age(now, expires)} left" if expires > now else f"{text}, past its lifetime"


def _names(count: int, names: list[str]) -> str:
    if not count:
        return "none"
    more = count - len(names[:SHOWN])
    return ", ".join(names[:SHOWN]) + (f" and {more:,} more" if more else "")


# `status --watch`: refreshes the screen of a terminal; prints one record per refresh into a pipe.

EVERY_SECONDS = 5.0
_CLEAR = "\x1b[H\x1b[2J\x1b[3J"


def watch_status(session: Session, full: bool, seconds: str | None) -> None:
    """Refresh until Ctrl-C. A catalog that cannot be read is shown as such, and does not end the watch."""
    interval = _parse(seconds)
    if session.output in (Output.CSV, Output.NAME):
        raise InvalidOption(f"--watch cannot print {session.output}", hint="use table, wide, json or jsonl")
    clock = session.catalog.clock
    while True:
        _round(session, full)
        sys.stdout.flush()
        clock.sleep(interval)


def _round(session: Session, full: bool) -> None:
    on_screen = session.is_tty and session.output in (Output.TABLE, Output.WIDE)
    try:
        catalog_status = inspect.status(session.catalog, full)
    except OlympiaError as error:
        if on_screen:
            sys.stdout.write(_CLEAR)
            print_failure(session, error)
        else:
            _record(session, describe_failure(session, error, time_text(session.catalog.clock.now_millis())))
        return
    if on_screen:
        sys.stdout.write(_CLEAR)
        print_status(session, catalog_status)
    else:
        _record(session, describe_status(session, catalog_status))


def _record(session: Session, values: dict[str, Any]) -> None:
    as_json = session.output in (Output.JSON, Output.JSONL)
    text = dumps(values, sys.stdout) if as_json else round_line(values)
    sys.stdout.write(text + "\n")


def _parse(seconds: str | None) -> float:
    if seconds is None:
        return EVERY_SECONDS
    is_number = seconds.isascii() and seconds.isdigit() and len(seconds) < 9
    interval = float(seconds) if is_number else parse_seconds(seconds)
    if not interval:
        raise InvalidOption("the interval must not be 0 seconds", hint="give a number of seconds, such as 5")
    return interval
