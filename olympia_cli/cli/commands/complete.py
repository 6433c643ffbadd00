"""Completion of a command line, for the scripts of `olympia completion`.

The command line is still being typed, so nothing in it is an error: a word that makes no sense has no candidates.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperGroup

from olympia_cli.cli import completion
from olympia_cli.cli.output.escape import visible

EXAMPLES = ["olympia __complete zsh -- table show sales."]


def run(
    ctx: typer.Context,
    shell: Annotated[str, typer.Argument(help="bash, zsh or fish.")],
    words: Annotated[
        list[str] | None,
        typer.Argument(help="The words up to the cursor. For bash: the line up to the cursor, and the replaced part."),
    ] = None,
) -> None:
    """Complete a command line.

    The first line printed is the kind of the result. After `words`, each line is a word to offer. After `files` or
    `folders`, the shell offers its own, and the next line is the part of the word that comes before the path. For bash
    the words are escaped, ready to be inserted. zsh and fish escape words themselves, so they get them unescaped, each
    with its line of help after a tab.
    """
    # from here on nothing may write to the prompt, not even exit handlers
    sys.stderr = io.StringIO()
    with contextlib.suppress(Exception, KeyboardInterrupt):
        for line in _lines(ctx.find_root().command, shell, words or []):
            with contextlib.suppress(UnicodeEncodeError):
                line.encode(sys.stdout.encoding or "utf-8")
                print(line)
    if sys.stdout is sys.__stdout__:
        with contextlib.suppress(OSError, ValueError):
            print(end="", flush=True)
        # the prompt waits neither for exit handlers nor for a request to a store that hangs
        os._exit(0)


def _lines(root: Any, shell: str, words: list[str]) -> list[str]:
    if shell in ("zsh", "fish") and words:
        matches = candidates(root, words[:-1], words[-1])
        offers = [f"{word}\t{visible(help)}" for word, help in matches.words]
    elif shell == "bash" and len(words) == 2:
        matches, offers = _for_bash(root, *words)
    else:
        return []
    return [matches.kind, *offers] if matches.kind == "words" else [matches.kind, matches.after]


# Candidates for the last word


class Candidates(NamedTuple):
    """Matching words with their help, or a request that the shell offers its files or folders."""

    words: Sequence[tuple[str, str]] = ()
    kind: Literal["words", "files", "folders"] = "words"
    after: str = ""
    """The part of the word before a file or folder: `--option=`."""


NOTHING = Candidates()
FILES = Candidates(kind="files")
FOLDERS = Candidates(kind="folders")

# for options without a completion function: the metavar tells the kind of value
_BY_METAVAR: dict[str, Callable[[typer.Context, str], list[str]]] = {
    "REF": completion.complete_reference,
    "ID": completion.complete_transaction,
    "NS": completion.complete_namespace,
    "NS.T": completion.complete_table,
    "LEVEL": lambda ctx, incomplete: [word for word in ("snapshot", "serializable") if word.startswith(incomplete)],
}


def candidates(root: Any, before: Sequence[str], incomplete: str) -> Candidates:
    """Return the words that may follow the words before, and begin with the incomplete one."""
    # private, checked with typer 0.27.2 and 0.28.0; its public scripts for shells do not keep names literal
    from typer._click.shell_completion import _resolve_context, _resolve_incomplete

    args, after = list(before), ""
    only_arguments = "--" in args
    if args and re.fullmatch("-[A-Za-z]{2,}", args[-1]) and not only_arguments:
        args[-1:] = [args[-1][:-1], "-" + args[-1][-1]]  # -qo is -q -o
    if not only_arguments and (joined := re.match("--[^=]+=|-[A-Za-z](?=.)", incomplete)):
        # the value is in the same word as its option
        after, incomplete = joined[0], incomplete[joined.end() :]
        args.append(after.removesuffix("="))
    ctx: Any = _resolve_context(root, {}, "olympia", args)
    if isinstance(ctx.command, TyperGroup) and ctx._protected_args:
        return NOTHING  # no such command
    if catalog := ctx.meta.get("olympia.catalog"):
        ctx.meta["olympia.catalog"] = os.path.expandvars(catalog)
    target, incomplete = _resolve_incomplete(ctx, args, incomplete)
    if after and getattr(target, "param_type_name", "") != "option":
        return NOTHING
    matches = _values(target, ctx, incomplete)
    if getattr(target, "param_type_name", "") == "argument" and not only_arguments:
        # before --, a name that begins with - would be read as an option
        matches = matches._replace(words=tuple(entry for entry in matches.words if not entry[0].startswith("-")))
    return matches._replace(words=tuple((after + word, help) for word, help in matches.words), after=after)


def _values(target: Any, ctx: typer.Context, incomplete: str) -> Candidates:
    """Return the values of an argument or option, or the names of commands or options."""
    metavar = (getattr(target, "metavar", None) or "").removesuffix("...").strip("[]")
    if getattr(target, "_custom_shell_complete", None) is None:
        if target.name == "profile":
            return Candidates([(word, "") for word in completion.complete_profile(ctx, incomplete)])
        if completer := _BY_METAVAR.get(metavar):
            return Candidates([(word, "") for word in completer(ctx, incomplete)])
        if metavar == "URI":
            # locations in buckets are not completed
            return NOTHING if "://" in incomplete else FOLDERS if target.name in ("catalog", "uri") else FILES
        if metavar in ("DIR", "DEST"):
            return FOLDERS
        if metavar.startswith("FILE"):
            return FILES
    return Candidates([(item.value, item.help or "") for item in target.shell_complete(ctx, incomplete)])


# Lines of bash, which gets words escaped. zsh and fish split and escape words themselves.

_SPECIAL = re.compile(r"(?<![^=:])~|[\x00-\x20!\"#$&'()*,;<>?\[\\\]^`{|}\x7f]")
"""Characters to escape. A tilde is special at the beginning of a word, and after = and : in an assignment."""


_OPERATORS = ";&|()<>\n"
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class Line(NamedTuple):
    """The last simple command of a line: its arguments before the cursor, and the incomplete last one."""

    before: tuple[str, ...]
    last: str
    quote: str = ""
    """The quote that is open at the cursor."""
    is_redirected: bool = False
    """True if the last word is the file of a redirection."""


def _for_bash(root: Any, text: str, replaced: str) -> tuple[Candidates, list[str]]:
    """Return the candidates at the end of a line, and their text in place of its replaced end."""
    line, stays = read_line(text), read_line(text.removesuffix(replaced))
    if line is None or stays is None or not text.endswith(replaced):
        return NOTHING, []
    if line.is_redirected:
        return FILES, []
    matches = candidates(root, line.before, line.last)
    # readline replaces only the end of a word: from the last =, : or opening quote on
    return matches, [
        escaped(word.removeprefix(stays.last), stays.quote) + ("" if stays.quote or word.endswith(".") else " ")
        for word, _ in matches.words
        if word.startswith(stays.last)
    ]


def read_line(text: str) -> Line | None:
    """Parse a line as bash does. Return None if only the shell can evaluate it; nothing is run or expanded."""
    bare = re.sub(r"\\.", "", text)
    if "$'" in bare or "`" in re.sub("'[^']*'?", "", bare):
        return None
    text = re.sub(r"(?<!\\)\$\([^()]*\)", "_", text)  # a complete substitution is a part of its word
    text = re.sub(r"(?<=\s)\d+(?=[<>])", "", text)  # the number of a file descriptor
    for quote in ("", "'", '"'):
        # with a letter at the cursor the last word is never empty
        lexer = shlex.shlex(f"{text}x{quote}", posix=True, punctuation_chars=_OPERATORS)
        lexer.whitespace, lexer.whitespace_split, lexer.commenters = " \t", True, ""
        with contextlib.suppress(ValueError):
            *words, last = lexer
            break
    else:
        return None
    before: list[str] = []
    is_redirected = False
    for word in words:
        if not word or word.strip(_OPERATORS):
            before += [] if is_redirected else [word]
            is_redirected = False
        elif "<" in word or ">" in word:
            is_redirected = True
        elif ")" in word or (before and before[-1].endswith("$")):
            return None
        else:
            before, is_redirected = [], False
    while before and _ASSIGNMENT.match(before[0]):
        before.pop(0)
    # inside double quotes, shlex leaves the backslash before these
    last = re.sub(r"\\([$`])", r"\1", last) if quote == '"' else last
    return Line(tuple(before[1:]), last[:-1], quote, is_redirected)


def escaped(value: str, quote: str) -> str:
    """Return the text that bash reads as this value inside the given quote, which stays open."""
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        # inside double quotes, a backslash does not protect ! from history expansion, so it moves outside of them
        return re.sub(r'["$`\\]', r"\\\g<0>", value).replace("!", '"\\!"')
    return _SPECIAL.sub(r"\\\g<0>", value)
