"""What is wrong with one file."""

from __future__ import annotations

from dataclasses import dataclass

from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, Unsupported


@dataclass(frozen=True, slots=True)
class Flaw:
    """What is wrong with a file: its code and the words for it. `newer` says that a newer program may well read it,
    `hint` what to do about it where fsck knows no better."""

    code: str
    reason: str
    newer: bool = False
    hint: str | None = None

    def error(self, path: str) -> OlympiaError:
        """For whoever cannot go on."""
        return Unsupported(self.reason) if self.newer else Damaged(self.code, path, self.reason, hint=self.hint)


def flaw_of(error: Exception, missing: str = "F201") -> Flaw:
    """What an error met while a file was read and decoded means; `missing` is the code for a file that is not there."""
    if isinstance(error, Damaged):
        return Flaw(error.code, error.reason)
    if isinstance(error, PathMissing):
        return Flaw(missing, "it is missing")
    if isinstance(error, PathOutside):
        return Flaw("F212", error.message, hint=error.hint)
    if isinstance(error, Unsupported):
        return Flaw("F207", error.message, newer=True)
    if isinstance(error, OlympiaError):
        return Flaw("F205", f"it cannot be read: {error.message}")
    if isinstance(error, MemoryError):
        raise error  # it says something of this machine, and nothing of the file
    # no decoder should let anything else out; if one does, the file is what it stumbled over
    return Flaw("F205", f"it cannot be decoded: {type(error).__name__}: {str(error)[:100]}")
