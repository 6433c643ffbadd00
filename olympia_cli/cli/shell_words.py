"""Words as bash reads and writes them, for completion. Nothing here runs or expands anything.

zsh and fish take words apart and escape what they insert by themselves; bash leaves both to us. This runs at each
press of the key, so its values are tuples, which are quicker to define than dataclasses.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

# a tilde is special where a word begins, and after = and : in what looks like an assignment
_SPECIAL = re.compile(r"(?<![^=:])~|[\x00-\x20!\"#$&'()*,;<>?\[\\\]^`{|}\x7f]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class Quote(Enum):
    """In which quotes a word ends that is still being typed."""

    NONE = ""
    SINGLE = "'"
    DOUBLE = '"'
    OPAQUE = "$"
    """Inside of something that only the shell can tell: a command, `$'…'`."""


class Word(NamedTuple):
    raw: str
    value: str
    quote: Quote = Quote.NONE


class Line(NamedTuple):
    """A command line up to the cursor: the words before the one being typed, and that one."""

    before: tuple[str, ...]
    last: Word
    redirected: bool = False
    """The word being typed is the file of a redirection."""


def escaped(value: str, quote: Quote) -> str:
    """The text that bash reads as this value, to be inserted within such quotes; it leaves them open."""
    if quote is Quote.SINGLE:
        return value.replace("'", "'\\''")
    if quote is Quote.DOUBLE:
        # an exclamation mark calls the history even after a backslash that stays, so it stands outside of the quotes
        return re.sub(r'["$`\\]', r"\\\g<0>", value).replace("!", '"\\!"')
    return _SPECIAL.sub(r"\\\g<0>", value)


def read_word(raw: str) -> Word:
    """One word, or the beginning of one."""
    return _Reader(raw).read().last


def read_line(text: str) -> Line:
    """The last simple command of the text. Its name is left out, and so are redirections and assignments before it."""
    line = _Reader(text).read()
    words = list(line.before)
    while words and _ASSIGNMENT.match(words[0]):
        words.pop(0)
    return Line(tuple(words[1:]), line.last, line.redirected)


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.start: int | None = None
        self.value: list[str] = []
        self.quote = Quote.NONE
        self.words: list[str] = []
        self.redirected = False

    def read(self) -> Line:
        while self.at < len(self.text):
            character = self.text[self.at]
            if self.quote is Quote.OPAQUE:
                break
            if self.quote is Quote.SINGLE:
                self._take(character, Quote.NONE if character == "'" else None)
            elif self.quote is Quote.DOUBLE:
                self._in_double_quotes(character)
            else:
                self._outside(character)
        raw = "" if self.start is None else self.text[self.start :]
        return Line(tuple(self.words), Word(raw, "".join(self.value), self.quote), self.redirected)

    def _take(self, character: str, quote: Quote | None = None) -> None:
        """A character of the word, or the quote that changes how the next ones are read."""
        if self.start is None:
            self.start = self.at
        if quote is None:
            self.value.append(character)
        else:
            self.quote = quote
        self.at += 1

    def _in_double_quotes(self, character: str) -> None:
        if character == '"':
            self._take(character, Quote.NONE)
        elif character == "\\" and self.text[self.at + 1 : self.at + 2] in ("", "$", "`", '"', "\\", "\n"):
            self._escape()
        elif not self._substitution():
            self._take(character)

    def _outside(self, character: str) -> None:
        if character in " \t":
            self._end_word()
            self.at += 1
        elif character in "'\"":
            self._take(character, Quote(character))
        elif character == "\\":
            self._escape()
        elif self._substitution():
            return
        elif character in "<>" or self.text.startswith("&>", self.at):
            self._redirect()
        elif character in ";|&()\n":
            self._end_word()
            self.words, self.redirected = [], False
            self.at += 1
        else:
            self._take(character)

    def _escape(self) -> None:
        """A backslash and what it protects; at the very end it protects nothing yet."""
        if self.start is None:
            self.start = self.at
        self.value.append(self.text[self.at + 1 : self.at + 2])
        self.at += 2

    def _substitution(self) -> bool:
        """Pass over what only the shell can tell; it stands for itself in the value."""
        for opening, closing in (("$(", ")"), ("`", "`"), ("$'", "'")):
            if not self.text.startswith(opening, self.at) or (opening == "$'" and self.quote is Quote.DOUBLE):
                continue
            if self.start is None:
                self.start = self.at
            end = self.text.find(closing, self.at + len(opening))
            if end < 0:
                self.quote = Quote.OPAQUE
            else:
                self.value.append(self.text[self.at : end + 1])
                self.at = end + 1
            return True
        return False

    def _redirect(self) -> None:
        if self.start is not None and self.text[self.start : self.at].isdigit():
            self.start, self.value = None, []  # the number of a stream
        self._end_word()
        while self.at < len(self.text) and self.text[self.at] in "<>&|":
            self.at += 1
        self.redirected = True

    def _end_word(self) -> None:
        if self.start is None:
            return
        if self.redirected:
            self.redirected = False
        else:
            self.words.append("".join(self.value))
        self.start, self.value = None, []
