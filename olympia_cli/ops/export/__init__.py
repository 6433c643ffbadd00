"""Exports: copies of a version at another location. Create, resume, verify and drop them.

This package writes to destinations, and commits the record of an export. It deletes only the files of full exports.
"""

from typing import TYPE_CHECKING

from olympia_cli.fronts import lazy

if TYPE_CHECKING:
    from olympia_cli.ops.export.export import Exported, create_export, describe_exported, resume_export
    from olympia_cli.ops.export.files import (
        CopyFiles,
        ExportFiles,
        Mode,
        Scope,
        name_number,
        read_note,
        resume_command,
        resume_words,
        scope,
    )
    from olympia_cli.ops.export.java_copy import create_java_copy, describe_java_copy
    from olympia_cli.ops.export.records import (
        BY_HAND,
        check_apart,
        delete_files,
        drop_export,
        forget_unfinished,
        list_exports,
        path_below,
        plan_deletion,
        unfinished_exports,
    )
    from olympia_cli.ops.export.verify import ExportEngine, local_engine, note_of, verify_export

__all__ = [
    "BY_HAND",
    "CopyFiles",
    "ExportEngine",
    "ExportFiles",
    "Exported",
    "Mode",
    "Scope",
    "check_apart",
    "create_export",
    "create_java_copy",
    "delete_files",
    "describe_exported",
    "describe_java_copy",
    "drop_export",
    "forget_unfinished",
    "list_exports",
    "local_engine",
    "name_number",
    "note_of",
    "path_below",
    "plan_deletion",
    "read_note",
    "resume_command",
    "resume_export",
    "resume_words",
    "scope",
    "unfinished_exports",
    "verify_export",
]

if not TYPE_CHECKING:  # mypy checks the names
    __getattr__ = lazy(__name__)
