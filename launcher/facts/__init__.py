"""Facts of others' making that the launcher goes by, each with the day on which it was looked at.

Where a table of ours comes from, when it was last compared with its source, and for how long it may be
believed; and how the JSON files of such tables are read.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from typing import Any

from launcher.frozen import frozen


@frozen
class Provenance:
    """What stands at the head of every table that others' facts are in.

    `as_of` is the day on which its figures were last looked at, `shelf_life_days` for how many days from
    then they may be believed, and `source` where they were read. `packages` names the installable
    packages that they were read in or compared with on that day, each with its version: where a newer one is
    installed, the table can be looked at again.
    """

    as_of: datetime.date
    shelf_life_days: int
    source: str
    packages: Mapping[str, str] = field(default_factory=dict)

    def age_days(self, today: datetime.date) -> int:
        """For how many days nobody has looked."""
        return (today - self.as_of).days

    def is_past_its_shelf_life(self, today: datetime.date) -> bool:
        """Whether it is too old to be believed without another look."""
        return self.age_days(today) > self.shelf_life_days


def provenance_of(table: Mapping[str, Any]) -> Provenance:
    """The head of a data file of ours. Raises KeyError or ValueError for one without such a head."""
    return Provenance(
        as_of=datetime.date.fromisoformat(table["as_of"]),
        shelf_life_days=int(table["shelf_life_days"]),
        source=table["source"],
        packages=table.get("packages", {}),
    )


def read_data_file(module: str, name: str) -> dict[str, Any]:
    """The data file of this name beside a module, which gives its `__file__`.

    Raises KeyError or ValueError for one that does not say when it was last looked at, so that no table can
    be used without.
    """
    table: dict[str, Any] = json.loads(Path(module).with_name(name).read_text("utf-8"))
    provenance_of(table)
    return table
