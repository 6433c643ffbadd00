"""Parsing and quoting of words as bash does it, for completion. Nothing is run or expanded.

zsh and fish split and escape words themselves; for bash this module does both. It runs at each press of Tab, so its
values are tuples, which are quicker to define than dataclasses.
"""

from __future__ import annotations

import re
from enum import Enum
from typing import NamedTuple

# a tilde is special at the beginning of a word, and after = and : in text that looks like an assignment
_SPECIAL = re.compile(r"(?<![^=:])~|[\x00-\x20!\"#$&'()*,;<>?\[\\\]^`{|}\x7f]")
_ASSIGNMENT = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\+?=")


class Quote(Enum):
    """The quotes that are open at the end of an incomplete word."""

    NONE = ""
    SINGLE = "'"
    DOUBLE = '"'
    OPAQUE = "$"
    """Inside of text that only the shell can evaluate: a command, `$'…'`."""


class Word(NamedTuple):
    raw: str
    value: str
    quote: Quote = Quote.NONE


class Line(NamedTuple):
    """A command line up to the cursor: the complete words, and the incomplete last one."""

    before: tuple[str, ...]
    last: Word
    redirected: bool = False
    """True if the last word is the file of a redirection."""


def escaped(value: str, quote: Quote) -> str:
    """Return the text that bash reads as this value inside the given quotes, which stay open."""
    if quote is Quote.SINGLE:
        return value.replace("'", "'\\''")
    if quote is Quote.DOUBLE:
        # inside double quotes, a backslash does not protect ! from history expansion, so it moves outside of them
        return re.sub(r'["$`\\]', r"\\\g<0>", value).replace("!", '"\\!"')
    return _SPECIAL.sub(r"\\\g<0>", value)


def read_word(raw: str) -> Word:
    """Parse one word, which may be incomplete."""
    return _Reader(raw).read().last


def read_line(text: str) -> Line:
    """Parse the arguments of the last simple command, without its name, redirections, and assignments before it."""
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
        """Take a character of the word, or a quote that changes the meaning of the next characters."""
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
        """Take a backslash and the character that it protects, if there is one."""
        if self.start is None:
            self.start = self.at
        self.value.append(self.text[self.at + 1 : self.at + 2])
        self.at += 2

    def _substitution(self) -> bool:
        """Take text that only the shell can evaluate, unchanged. Return False if there is none here."""
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
            self.start, self.value = None, []  # the number of a file descriptor
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
