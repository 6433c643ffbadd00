"""Spark's failures as one line. Its messages are pages of stack traces, with the cause at their end."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from olympia_cli import errors
from olympia_cli.errors import ExecutorUnprepared, OlympiaError, SparkFailed, SparkUnreachable, StorageDenied
from olympia_cli.masking import masked
from olympia_cli.ops.walk import StoreFailure

_CARRIED = re.compile(r"^(?:.*\s)?olympia: (\{\"name\": .+\})$", re.MULTILINE)
_OURS = re.compile(r"^(?:.*\s)?olympia_cli\.errors\.(\w+): (.+)$", re.MULTILINE)
_MISSING = re.compile(r"(?:ModuleNotFoundError|PackageNotFoundError): No (?:module|package) named '?([\w.]+)'?")
_TOO_OLD = re.compile(r"PACKAGE_NOT_INSTALLED\]?\s*(.+)$", re.MULTILINE)
# a line of a Python traceback that is not indented, and names an exception
_PYTHON = re.compile(r"^(?:Caused by: )?((?:[A-Za-z_]\w*\.)*[A-Z]\w*(?:Error|Exception|Exit|Interrupt|Warning)): (.+)$")
_CAUSED_BY = re.compile(r"^Caused by: ([\w.$]+)(?:: (.*))?$")
_DIED = "Python worker exited unexpectedly (crashed)"
_MORE_MEMORY = (
    "most often its machine is out of memory: give executors more (spark.executor.memoryOverhead), or let fewer tasks "
    "run on one at a time (spark.task.cpus)"
)
_UNAVAILABLE = re.compile(r"StatusCode\.UNAVAILABLE|Connection refused|All masters are unresponsive")
# packages whose name differs from their module's
_PACKAGES = {"google": "protobuf", "grpc": "grpcio"}
LENGTH = 300

P = ParamSpec("P")
T = TypeVar("T")
_CREDENTIALS = (
    "give them credentials of their own (a role of their machines, or spark.executorEnv.* for the variables that the "
    "SDK reads), or put storage options into the profile, which are sent to them"
)


def explain(error: BaseException) -> OlympiaError:
    """Translate a Spark failure. If one of our errors caused it, return that error, with its own exit code."""
    if isinstance(error, OlympiaError):
        return error
    text = str(error)
    if matches := list(_CARRIED.finditer(text)):
        return _unpacked(json.loads(matches[-1][1]))
    if matches := list(_OURS.finditer(text)):
        return _ours(matches[-1][1], matches[-1][2].strip())
    if matches := list(_MISSING.finditer(text)):
        name = matches[-1][1].partition(".")[0]
        name = _PACKAGES.get(name, name)
        return ExecutorUnprepared(
            f"Spark's Python workers lack the package {name}",
            hint=f"install {name} for the Python that the executors run, or name another with spark.pyspark.python",
        )
    if matches := list(_TOO_OLD.finditer(text)):
        return ExecutorUnprepared(f"Spark's Python workers lack a package: {_short(matches[-1][1])}", hint="install it")
    if _DIED in text:
        # Java reports only a reset connection
        return SparkFailed("a Python worker of Spark's died", hint=_MORE_MEMORY)
    if _UNAVAILABLE.search(text):
        return SparkUnreachable(f"Spark does not answer: {_cause(text)}")
    return SparkFailed(f"Spark failed: {_cause(text)}")


@contextmanager
def failures() -> Iterator[None]:
    """Carry an error that a task raises on purpose, a store's failure included, to the driver unchanged. Spark passes
    on only text: the message for people, and a note with the error's fields, which `explain` reads."""
    try:
        yield
    except StoreFailure as failure:
        raise _noted(failure.error) from None
    except OlympiaError as error:
        raise _noted(error) from None


def _noted(error: OlympiaError) -> OlympiaError:
    # Spark writes the note into its logs
    values = {name: masked(value) if isinstance(value, str) else value for name, value in vars(error).items()}
    values.pop("__notes__", None)
    if not getattr(error, "__notes__", ()):
        error.add_note(f"olympia: {json.dumps({'name': error.name, **values})}")
    return error


def told(task: Callable[P, Iterator[T]]) -> Callable[P, Iterator[T]]:
    """Decorate a task's generator function with `failures`."""

    @wraps(task)
    def run(*args: P.args, **named: P.kwargs) -> Iterator[T]:
        with failures():
            yield from task(*args, **named)

    return run


def _unpacked(values: dict[str, Any]) -> OlympiaError:
    cls = getattr(errors, values.pop("name"))
    if cls is StorageDenied:
        return _no_access(values["message"])
    error: OlympiaError = cls.__new__(cls)
    # JSON has no tuples
    vars(error).update({key: tuple(value) if isinstance(value, list) else value for key, value in values.items()})
    error.args = (error.message,)
    return error


@contextmanager
def explained() -> Iterator[None]:
    """Translate Spark's errors within the block into ours."""
    try:
        yield
    except OlympiaError:
        raise
    except Exception as error:
        if not _is_sparks(error):
            raise
        raise explain(error) from None


def _is_sparks(error: Exception) -> bool:
    module = type(error).__module__
    return module.partition(".")[0] in ("pyspark", "py4j", "grpc")


def _ours(name: str, message: str) -> OlympiaError:
    cls = getattr(errors, name, None)
    if not (isinstance(cls, type) and issubclass(cls, OlympiaError)):
        cls = SparkFailed
    # some classes need more than a message; the line already contains the advice
    if cls is StorageDenied:
        return _no_access(message.removesuffix(f": {cls.default_hint}"))
    error = cls.__new__(cls)
    OlympiaError.__init__(error, message, hint="")
    return error


def _no_access(message: str) -> StorageDenied:
    """Return the error of executors without access to the store. The driver may have access."""
    return StorageDenied(f"Spark's executors have no access: {message}", hint=_CREDENTIALS)


def _cause(text: str) -> str:
    """The last exception of a Python traceback, else the last of Java's causes, else the first line."""
    python = java = ""
    for line in text.splitlines():
        if (match := _CAUSED_BY.match(line)) and not _PYTHON.match(line.removeprefix("Caused by: ")):
            java = match[2] or match[1]
        elif match := _CAUSED_BY.match(line):
            java = f"{match[1].rpartition('.')[2]}: {match[2]}" if match[2] else match[1]
        # the line before it says only that an error occurred
        elif line.startswith(": ") and not java:
            java = line[2:]
        # Spark's own exception classes say only that there is a cause
        elif (match := _PYTHON.match(line)) and not match[1].startswith(("pyspark.errors.", "org.apache.", "py4j.")):
            python = f"{match[1].rpartition('.')[2]}: {match[2]}"
    return _short(python or java or next((line for line in text.splitlines() if line.strip()), "no reason given"))


def _short(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= LENGTH else text[: LENGTH - 1] + "…"
