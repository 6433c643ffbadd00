"""A run of an import: which states are imported, and the note about them.

The commit of an import also sets a property with the imported revision; older revisions are refused afterwards. The
note counts while the source has that revision, or has pruned it. A catalog that was wiped and created again starts with
revision 0.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256

from olympia_cli.catalog.checks import IMPORTED
from olympia_cli.errors import Damaged, InvalidOption
from olympia_cli.format.strict_json import read_json
from olympia_cli.iceberg.catalog import OlympiaCatalog
from olympia_cli.importers.iceberg import Imported, LeftOut
from olympia_cli.importers.iox.plans import count
from olympia_cli.importers.iox.source import Source, State
from olympia_cli.importers.iox.tables import IoxTables
from olympia_cli.names import AtTime, SettledReference, time_text


@dataclass(frozen=True, slots=True)
class RevisionNote:
    """The last imported transaction, and the namespace that everything was imported into, if one was given."""

    revision: int
    uuid: str
    into: str | None

    def encode(self) -> str:
        return json.dumps({"revision": self.revision, "transaction": self.uuid, "into": self.into}, sort_keys=True)


def note_key(base: str) -> str:
    """Return the property key of a source's note."""
    return "iox-" + sha256(base.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def read_note(properties: Mapping[str, str], base: str, source: Source) -> RevisionNote | None:
    """Return the note of an earlier import if it still counts; None if it is missing or unreadable."""
    try:
        fields = read_json(properties.get(IMPORTED + note_key(base), ""))
        revision, uuid, into = fields["revision"], fields["transaction"], fields["into"]
    except (ValueError, KeyError, TypeError):
        return None
    if not (isinstance(revision, int) and isinstance(uuid, str) and isinstance(into, str | None)):
        return None
    present = {str(file.uuid) for file in source.revisions.get(revision, ())}
    counts = uuid in present or (not present and revision < source.oldest)
    return RevisionNote(revision, uuid, into) if counts else None


@dataclass(slots=True)
class Run:
    """An import of states into a catalog. `message` comes first in the messages of its commits."""

    tables: IoxTables
    catalog: OlympiaCatalog
    into: str | None
    message: str
    note: RevisionNote | None

    def one(self, reference: SettledReference, dry_run: bool) -> tuple[Imported, State, int]:
        """Import one state, or report what would be done."""
        state = self._source.state(reference)
        return self._whole(state, Imported(), dry_run)

    def history(self, reference: SettledReference) -> tuple[Imported, State, int]:
        """Import each state that was not imported yet, one commit per state; then the final state once more,
        completely."""
        done = Imported()
        state: State | None = None
        for state in self._states(reference, done):
            step = Imported()
            self._check(state)
            self._bring(state, step, None if self.note is None or state.is_checkpoint else state.touched, False)
            # objects left out of earlier states may have been imported later, so only the last state reports them
            step.left_out = []
            _add(done, step)
        return self._whole(self._source.state(reference) if state is None else state, done, False)

    def _whole(self, state: State, done: Imported, dry_run: bool) -> tuple[Imported, State, int]:
        step = Imported()
        self._check(state)
        version = self._bring(state, step, None, dry_run)
        step.left_out += self._forks(state)
        _add(done, step)
        done.unchanged = step.unchanged
        return done, state, version

    @property
    def _source(self) -> Source:
        return self.tables.planner.source

    def _states(self, reference: SettledReference, done: Imported) -> Iterator[State]:
        """Yield the states up to the requested one that were not imported yet. After an unreadable state, continue with
        the next checkpoint."""
        source, revision = self._source, self._source.revision_of(reference)
        last = source.latest if revision is None else revision
        until = reference.millis if isinstance(reference, AtTime) else None
        first = source.oldest if self.note is None else max(self.note.revision + 1, source.oldest)
        while first <= last:
            begun = first
            try:
                for state in source.walk(first, last, until):
                    first = state.revision + 1
                    yield state
                return
            except Damaged as error:
                # the unreadable revision may itself have a checkpoint, unless the walk began with that
                after = source.checkpoint_after(first - (first > begun))
                if after is None or after > last:
                    raise
                if after > first:
                    done.left_out.append(LeftOut(f"revisions {first} to {after - 1}", error.message))
                first = after

    def _bring(self, state: State, done: Imported, only: set[str] | None, dry_run: bool) -> int:
        if dry_run:
            for plan in self.tables.planner.plans(state, done, self.catalog, only):
                count(plan, done)
            return self.catalog.version
        note = RevisionNote(state.revision, str(state.uuid), self.into)
        key = note_key(self.tables.planner.base)
        about = f"revision {state.revision} of {self._source.name}, {time_text(state.start_millis)}"
        # planned on the transaction's own base: a concurrent import is a conflict, and is not undone
        with self.catalog.transaction(f"{self.message}\n{about}" if self.message else about) as staged:
            self.tables.bring(self.tables.planner.plans(state, done, staged, only), state, staged, done)
            if note != self.note:
                staged.change(None, lambda changes: changes.transaction.note_import(key, note.encode()))
        self.note = note
        assert staged.last_version is not None
        return staged.last_version

    def _check(self, state: State) -> None:
        note = self.note
        if note is not None and note.revision > state.revision:
            raise InvalidOption(
                f"revision {note.revision} of that catalog was imported already, and {state.revision} is older",
                hint=f"leave out --at, or name a revision from {note.revision} on",
            )
        if note is not None and note.into != self.into:
            before = "without --into" if note.into is None else f"--into {note.into}"
            raise InvalidOption(f"that catalog was imported {before} before", hint="import it in the same way again")

    def _forks(self, state: State) -> Iterator[LeftOut]:
        """Report forked revisions up to the imported state: two transactions share a number and only one counts."""
        for revision in sorted(self._source.revisions):
            if revision <= state.revision and self._source.is_fork(revision):
                yield LeftOut(
                    f"revision {revision}", "a fork: two transactions have this number, and one of them counts"
                )


def _add(done: Imported, step: Imported) -> None:
    done.namespaces += step.namespaces
    done.created += step.created
    done.moved_on += step.moved_on
    done.renamed += step.renamed
    done.left_out += step.left_out
