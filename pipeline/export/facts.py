"""What an exported file says beside its numbers."""

from __future__ import annotations

import json
from importlib.metadata import version

from tasks.classes import ClassTable
from tasks.models.folder import SavedModel


def class_table(classes: ClassTable) -> str:
    """JSON: {"ids": [...], "names": [...]}, each in order of classes; in ASCII, so that any text survives."""
    return json.dumps({"ids": list(classes.ids), "names": list(classes.names)})


def facts_of(saved: SavedModel) -> dict[str, str]:
    """What identifies a model: kind, content digest, class table, the version that wrote the file."""
    return {
        "kind": saved.model.kind,
        "digest": saved.digest,
        "labelgrove_version": version("labelgrove"),
        "classes": class_table(saved.classes),
    }
