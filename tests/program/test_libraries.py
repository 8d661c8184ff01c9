"""What libraries' names mean is read from a table for each library, and a mistake is named by its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from launcher.program.values import LIBRARY_TABLES, RANKS, RankKind, RankValue, WorldSize, canonical_name
from tools.generate.library_tables import KEYS, LibraryTableError, read_tables

NEW_LIBRARY = """
joining_calls = ["swarm.start"]

[ranks]
global = ["swarm.rank"]
world = ["swarm.size"]

[collectives."swarm.comm"]
by_keyword = ["meet"]
2 = ["sum_up"]

[on_request."swarm.Logger"]
everywhere = ["log"]
"""


def test_a_library_is_added_by_its_table(tmp_path: Path) -> None:
    (tmp_path / "swarm.toml").write_text(NEW_LIBRARY, "utf-8")
    found = {key: table for key, table in read_tables(tmp_path).items() if table}
    assert found == {
        "joining_calls": {"swarm.start": True},
        "ranks": {"swarm.rank": "global", "swarm.size": "world"},
        "collectives": {"swarm.comm.meet": None, "swarm.comm.sum_up": 2},
        "on_request": {"swarm.Logger.log": "everywhere"},
    }


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("joins = []", "a.toml: joins: is none of aliases, "),
        ("joining_calls = 'start'", "a.toml: joining_calls: must be a list of names"),
        ("integers = [1]", "a.toml: integers: must be a list of names"),
        ("aliases = ['a']", "a.toml: aliases: must be a table from names to names"),
        ("[ranks]\nmiddle = ['a']", "a.toml: ranks: must be a table whose keys are of global, local, node"),
        (
            "[owner_by_call]\nNOBODY = ['a']",
            "a.toml: owner_by_call: must be a table whose keys are of SCRIPT",
        ),
        ("[collectives]\n2 = ['a']", "a.toml: collectives: must have a table for each module or class"),
        ("[collectives.a]\nlast = ['b']", "a.toml: collectives: last must be the position of the group"),
        ("[ranks]\nlocal = ['a']\nnode = ['a']", "a.toml: ranks: a stands there twice, with another meaning"),
        ("ranks = ", "a.toml: Invalid value"),
    ],
)
def test_a_mistake_is_named_by_its_file_and_key(tmp_path: Path, text: str, said: str) -> None:
    (tmp_path / "a.toml").write_text(text, "utf-8")
    with pytest.raises(LibraryTableError) as raised:
        read_tables(tmp_path)
    assert str(raised.value).startswith(said)


@pytest.mark.parametrize("key", sorted(KEYS))
def test_every_key_is_used_and_its_names_are_the_one_name_of_each_thing(key: str) -> None:
    names = list(LIBRARY_TABLES[key])
    assert names
    if key != "aliases":
        assert [name for name in names if canonical_name(name) != name] == []


def test_what_communicates_stands_in_one_table_only() -> None:
    tables = [LIBRARY_TABLES[key] for key in ("collectives", "checkpoints", "on_request")]
    assert len({name for table in tables for name in table}) == sum(map(len, tables))


def test_a_rank_is_of_the_kind_that_its_table_says() -> None:
    assert RANKS["horovod.torch.local_rank"] == RankValue(RankKind.LOCAL, "horovod.torch.local_rank")
    assert RANKS["torch.cuda.device_count"] == WorldSize("torch.cuda.device_count")
