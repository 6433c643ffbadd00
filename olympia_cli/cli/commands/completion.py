"""`olympia completion`: the scripts for shells, and the hidden command that they ask for the candidates of a line.

The command line is still being typed, so nothing in it is an error: a word that makes no sense has no candidates.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import shlex
import sys
from collections.abc import Sequence
from enum import StrEnum
from typing import Annotated, Any, Literal, NamedTuple

import typer
from typer.core import TyperGroup

from olympia_cli.cli.completion import completer
from olympia_cli.cli.options import Output
from olympia_cli.cli.output import visible

EXAMPLES = {
    "completion": [
        "olympia completion bash > ~/.local/share/bash-completion/completions/olympia",
        "olympia completion zsh > ~/.zfunc/_olympia",
        "olympia completion fish > ~/.config/fish/completions/olympia.fish",
    ],
    "complete": ["olympia __complete zsh -- table show sales."],
}


class Shell(StrEnum):
    BASH = "bash"
    ZSH = "zsh"
    FISH = "fish"


def completion(
    ctx: typer.Context, shell: Annotated[Shell, typer.Argument(metavar="SHELL", help="bash, zsh or fish.")]
) -> None:
    """Print the completion script for a shell.

    Load the script in the shell, or save it in a folder where the shell looks for completions (zsh: one of its fpath).
    Names from the catalog are inserted quoted, so that the shell takes each character literally.
    """
    from olympia_cli.cli.output import render
    from olympia_cli.cli.session import Session

    session, script = Session(ctx), SCRIPTS[shell]
    if session.output in (Output.JSON, Output.JSONL):
        render.document(session, {"shell": shell.value, "script": script})
        return
    with session.out() as out:
        out.write(script)


BASH = r"""# bash completion for olympia

_olympia() {
    local kind line
    COMPREPLY=()
    {
        IFS= read -r kind || return 0
        if [[ $kind == words ]]; then
            # each line is escaped already, and becomes one word
            while IFS= read -r line; do COMPREPLY+=("$line"); done
        elif [[ $kind == files ]]; then
            compopt -o default +o nospace 2>/dev/null
        elif [[ $kind == folders ]]; then
            compopt -o dirnames +o nospace 2>/dev/null
        fi
    } < <(command olympia __complete bash -- "${COMP_LINE:0:COMP_POINT}" "$2" 2>/dev/null)
    return 0
}

complete -o nospace -F _olympia olympia
"""

ZSH = r"""#compdef olympia
# zsh completion for olympia

_olympia() {
    local -a lines words_before finished unfinished finished_shown unfinished_shown
    local line word shown one_a_line
    (( CURRENT > 2 )) && words_before=("${(@Q)words[2,CURRENT-1]}")
    # with the quote closed, quotes are taken off the word as off the others; nothing is expanded
    word=$QIPREFIX$PREFIX$compstate[quote]
    # split at line ends only; compadd quotes what it inserts
    lines=("${(@f)$(command olympia __complete zsh -- "${words_before[@]}" "${(Q)word}" 2>/dev/null)}")
    case $lines[1] in
        files) [[ -n $lines[2] ]] && compset -P "${(b)lines[2]}"; _files; return ;;
        folders) [[ -n $lines[2] ]] && compset -P "${(b)lines[2]}"; _files -/; return ;;
        words) ;;
        *) return 1 ;;
    esac
    for line in "${(@)lines[2,-1]}"; do
        [[ -n $line ]] || continue
        word=${line%%$'\t'*} shown=${line#*$'\t'}
        [[ -n $shown ]] && one_a_line=-l
        shown="$word${shown:+  -- $shown}"
        # more follows after the dot of a namespace
        if [[ $word == *. ]]; then
            unfinished+=("$word") unfinished_shown+=("$shown")
        else
            finished+=("$word") finished_shown+=("$shown")
        fi
    done
    local -i found=1
    (( $#finished )) && compadd $one_a_line -d finished_shown -a -- finished && found=0
    (( $#unfinished )) && compadd $one_a_line -S '' -d unfinished_shown -a -- unfinished && found=0
    return found
}

if [[ $funcstack[1] == _olympia ]]; then
    _olympia "$@"
else
    compdef _olympia olympia
fi
"""

FISH = r"""# fish completion for olympia

function __olympia_complete
    set -l before (commandline -opc)
    set -l typed (commandline -ct)
    set -l word $typed
    # a quote that is open yet is closed, so that fish takes quotes and escapes off; nothing is expanded
    for quote in '' "'" '"'
        if set -l plain (string unescape -- "$typed$quote" 2>/dev/null)
            set word $plain
            break
        end
    end
    # fish escapes what it inserts; the lines are neither expanded nor split
    set -l lines (command olympia __complete fish -- $before[2..-1] "$word" 2>/dev/null)
    switch "$lines[1]"
        case words
            test (count $lines) -gt 1; and printf '%s\n' $lines[2..-1]
        case files folders
            set -l path (string sub -s (math (string length -- "$lines[2]") + 1) -- "$word")
            if test $lines[1] = files
                __fish_complete_path "$path"
            else
                __fish_complete_directories "$path" ''
            end | while read -l line
                printf '%s\n' "$lines[2]$line"
            end
    end
end

complete -c olympia -f -a '(__olympia_complete)'
"""

SCRIPTS = {Shell.BASH: BASH, Shell.ZSH: ZSH, Shell.FISH: FISH}


# The hidden command


def complete(
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


def _path(ctx: Any) -> str:
    """Return the name of the command without synonyms: `table rename` for `table mv`."""
    return "" if ctx.parent is None else f"{_path(ctx.parent)} {ctx.command.name}".strip()


def _values(target: Any, ctx: typer.Context, incomplete: str) -> Candidates:
    """Return the values of an argument or option, or the names of commands or options."""
    metavar = (getattr(target, "metavar", None) or "").removesuffix("...")
    metavar = metavar[1:-1] if metavar.startswith("[") and metavar.endswith("]") else metavar
    if complete := completer(_path(ctx), target.name, metavar):
        return Candidates([(word, "") for word in complete(ctx, incomplete)])
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


class CommandLine(NamedTuple):
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


def read_line(text: str) -> CommandLine | None:
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
    return CommandLine(tuple(before[1:]), last[:-1], quote, is_redirected)


def escaped(value: str, quote: str) -> str:
    """Return the text that bash reads as this value inside the given quote, which stays open."""
    if quote == "'":
        return value.replace("'", "'\\''")
    if quote == '"':
        # inside double quotes, a backslash does not protect ! from history expansion, so it moves outside of them
        return re.sub(r'["$`\\]', r"\\\g<0>", value).replace("!", '"\\!"')
    return _SPECIAL.sub(r"\\\g<0>", value)
