"""The flaw of one file."""

from __future__ import annotations

from dataclasses import dataclass

from olympia_cli.errors import Damaged, OlympiaError, PathMissing, PathOutside, Unsupported


@dataclass(frozen=True, slots=True)
class Flaw:
    """The code of a flaw, and its description. With `newer`, a newer program may be able to read the file. `hint` is
    the advice where fsck has none of its own.
    """

    code: str
    reason: str
    newer: bool = False
    hint: str | None = None

    def error(self, path: str) -> OlympiaError:
        """Return the flaw as an exception, for callers that cannot continue."""
        return Unsupported(self.reason) if self.newer else Damaged(self.code, path, self.reason, hint=self.hint)


def flaw_of(error: Exception, missing: str = "F201") -> Flaw:
    """Return the flaw that an error from reading or decoding a file means. `missing` is the code for a missing file."""
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
        raise error  # a fault of this machine, not of the file
    # decoders should raise only the errors above; any other error also means that the file is damaged
    return Flaw("F205", f"it cannot be decoded: {type(error).__name__}: {str(error)[:100]}")
