"""How the data files of the launcher are read: JSON that says when it was true."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from launcher.facts.provenance import provenance_of


def read_data_file(module: str, name: str) -> dict[str, Any]:
    """The data file of this name beside a module, which gives its `__file__`.

    Raises KeyError or ValueError for one that does not say when it was last looked at, so that no table can
    be used without.
    """
    table: dict[str, Any] = json.loads(Path(module).with_name(name).read_text("utf-8"))
    provenance_of(table)
    return table
