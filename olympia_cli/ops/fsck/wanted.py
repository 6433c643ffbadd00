"""Which version is asked for, in a catalog that perhaps nobody can open."""

from __future__ import annotations

from collections.abc import Callable

from olympia_cli.catalog.exports import parse_record
from olympia_cli.catalog.snapshot import EXPORT_PREFIX
from olympia_cli.errors import ExportNotFound, VersionNotFound
from olympia_cli.names import Ago, AtExport, AtTime, AtVersion, Latest, Reference
from olympia_cli.ops.fsck.chain import Chain, ChainRoot


def wanted_root(chain: Chain, at: Reference | None, now: int) -> Callable[[ChainRoot], bool]:
    """Whether a root fits a reference; of all that do the last one is meant."""
    if isinstance(at, AtTime | Ago):
        millis = at.millis if isinstance(at, AtTime) else now - at.millis
        return lambda one: one.root is not None and one.root.created_at_millis <= millis
    if at is None:
        version = chain.latest
    elif isinstance(at, AtVersion):
        version = at.version
    elif isinstance(at, Latest):
        version = chain.latest - at.back
    elif isinstance(at, AtExport):
        version = _exported(chain, at.name)
    else:
        version = chain.oldest if chain.oldest in chain.existing else chain.kept[0]
    if not chain.oldest <= version <= chain.latest:
        reason = f"there is no version {version}: they are {chain.oldest} to {chain.latest}"
        raise VersionNotFound(reason, hint="see which versions there are in the log")
    return lambda one: one.version == version


def _exported(chain: Chain, name: str) -> int:
    properties = chain.reference.properties if chain.reference is not None else {}
    record = parse_record(name, "", properties.get(EXPORT_PREFIX + name))
    if isinstance(record, str):
        reason = f"{name[:60]!a} is neither a version reference nor the name of an export"
        raise ExportNotFound(reason, hint="use a version, latest~1, a time, 2h, or an export's name")
    return record.version
