from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Annotated

import typer

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


def _lines(root: object, shell: str, words: list[str]) -> list[str]:
    from olympia_cli.cli.command_words import FILES, Candidates, candidates
    from olympia_cli.cli.output.escape import visible
    from olympia_cli.cli.shell_words import Quote, escaped, read_line, read_word

    def lines(matches: Candidates, offers: list[str]) -> list[str]:
        return [matches.kind, *offers] if matches.kind == "words" else [matches.kind, matches.after]

    if shell in ("zsh", "fish") and words:
        matches = candidates(root, words[:-1], words[-1])
        return lines(matches, [f"{word}\t{visible(help)}" for word, help in matches.words])
    if shell != "bash" or len(words) != 2:
        return []
    line, replaced = read_line(words[0]), words[1]
    if line.redirected:
        return lines(FILES, [])
    if line.last.quote is Quote.OPAQUE or not line.last.raw.endswith(replaced):
        return []
    # readline replaces only the end of a word: from the last =, : or opening quote on
    stays = read_word(line.last.raw.removesuffix(replaced) if replaced else line.last.raw)
    matches = candidates(root, line.before, line.last.value)
    offers = []
    for word, _ in matches.words:
        if word.startswith(stays.value):
            end = "" if stays.quote is not Quote.NONE or word.endswith(".") else " "
            offers.append(escaped(word.removeprefix(stays.value), stays.quote) + end)
    return lines(matches, offers)
