"""Check the prose of the project: docstrings, comments, help texts and documents.

Usage: tools/check_prose.py [PATH ...]. Prints one line per problem and exits with 1 if there is one.
"""

from __future__ import annotations

import ast
import io
import re
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

TOP = Path(__file__).parents[1]
HIDDEN_SUBJECT = re.compile(
    r"(What|Who|Whoever|Whom|Whose|Nobody|Somebody|Whether|Where|How|As|So|Of|That|Those|These|It|They|Its|Their|Which|Such|"
    r"Likewise|Nothing|Everything|Everybody|One)\b"
)
BANNED = re.compile(
    r"\b(whoever|nobody|somebody|anybody|everybody|somebody else|so many|so much|anew|gone on with|goes on with|"
    r"as to what|of its own accord|wherefrom|thereof|whereof)\b",
    re.IGNORECASE,
)
WORDS = 25
COLUMNS = 100
MACHINE_MADE = re.compile(r"/pb/|docs/json\.md$|/golden/")

Problem = tuple[int, str]


def main(arguments: list[str]) -> int:
    """Check the files below the given paths, or the whole project."""
    places = [TOP / argument for argument in arguments] or [TOP]
    count = 0
    for path in sorted({file for place in places for file in files_below(place)}):
        for line, problem in problems_of(path):
            print(f"{path.relative_to(TOP)}:{line}: {problem}")
            count += 1
    if count:
        print(f"{count} problems", file=sys.stderr)
    return 1 if count else 0


def files_below(path: Path) -> Iterator[Path]:
    """Return the Python and Markdown files of the project below a path."""
    if path.is_file():
        yield path
        return
    for file in path.rglob("*"):
        hidden = any(part.startswith(".") for part in file.relative_to(TOP).parts)
        if file.suffix in (".py", ".md") and not hidden and not MACHINE_MADE.search(str(file)):
            yield file


def problems_of(path: Path) -> Iterator[Problem]:
    """Yield the line and the description of each problem in a file."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        yield from problems_of_document(text)
    else:
        yield from problems_of_module(text)


def problems_of_module(text: str) -> Iterator[Problem]:
    """Check the docstrings, comments and help texts of a Python module."""
    tree = ast.parse(text)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            docstring = ast.get_docstring(node)
            if docstring and isinstance(node.body[0], ast.Expr):
                yield from problems_of_prose(docstring, node.body[0].lineno)
        elif isinstance(node, ast.keyword) and node.arg == "help" and isinstance(node.value, ast.Constant):
            yield from problems_of_prose(str(node.value.value), node.value.lineno)
    for line, comment in comments_of(text):
        yield from problems_of_words(comment, line)


def comments_of(text: str) -> Iterator[Problem]:
    """Yield the line and the text of each comment."""
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string


def problems_of_document(text: str) -> Iterator[Problem]:
    """Check a Markdown document, without its tables and code."""
    inside_code = False
    paragraph: list[str] = []
    for number, line in enumerate([*text.splitlines(), ""], 1):
        if line.lstrip().startswith("```"):
            inside_code = not inside_code
        prose = not inside_code and not line.lstrip().startswith(("|", "```", "#", "<", "["))
        if prose and len(line) > COLUMNS and " " in line[:COLUMNS].strip():
            yield number, f"{len(line)} columns of at most {COLUMNS}"
        if prose and line.strip() and not re.match(r"\s*([-*]|\d+\.)\s", line):
            paragraph.append(line)
            continue
        if paragraph:
            yield from problems_of_words("\n".join(paragraph), number - len(paragraph))
            yield from long_sentences("\n".join(paragraph), number - len(paragraph))
        paragraph = [line] if prose and line.strip() else []


def problems_of_prose(text: str, line: int) -> Iterator[Problem]:
    """Check a docstring or a help text."""
    if match := HIDDEN_SUBJECT.match(text.strip()):
        yield line, f"begins with {match[0]!r}: name the subject, or begin with a verb"
    yield from problems_of_words(text, line)
    yield from long_sentences(text, line)


def problems_of_words(text: str, line: int) -> Iterator[Problem]:
    """Find phrases that hide the subject or replace a term of the trade."""
    for match in BANNED.finditer(re.sub(r"`[^`]*`|\]\([^)]*\)", "``", text)):
        yield line, f"says {match[0]!r}"


def long_sentences(text: str, line: int) -> Iterator[Problem]:
    """Find sentences with too many words. Code counts as one word, an item of a list as a sentence."""
    plain = re.sub(r"```.*?```", "", text, flags=re.DOTALL)
    plain = re.sub(r"`[^`]*`", "code", plain)
    plain = re.sub(r"\]\([^)]*\)", "]", plain)
    for sentence in re.split(r"[.:;?!](?=\s|$)|\n\s*\n|\n\s*(?:[-*]|\d+\.?)\s", plain):
        words = sentence.split()
        if len(words) > WORDS:
            yield line, f"a sentence of {len(words)} words: {' '.join(words[:6])} …"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
