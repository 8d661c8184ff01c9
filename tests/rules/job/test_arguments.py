"""Hyperparameters in a style that the script's parser refuses: CODE002."""

from __future__ import annotations

from pathlib import Path

import pytest

HYDRA = "import hydra\n\n@hydra.main(config_path='conf')\ndef main(config):\n    pass\n"
ARGPARSE = """
import argparse
parser = argparse.ArgumentParser()
parser.add_argument("--lr")
parser.add_argument("--e")
parser.parse_args()
"""


@pytest.fixture
def found(judge, tmp_path: Path):
    def found(script: str, style: str | None, name: str = "lr", **fields):
        (tmp_path / "src").mkdir(exist_ok=True)
        (tmp_path / "src" / "run.py").write_text(script)
        code = {"source_dir": "src", "entry_point": "run.py", **({"argument_style": style} if style else {})}
        return judge("CODE002", code_section=code, hyperparameters={name: 0.1} if name else {}, **fields)

    return found


@pytest.mark.parametrize("style", [None, "spaced", "equals"])
def test_a_script_under_hydra_wants_its_own_style(found, style: str | None) -> None:
    (finding,) = found(HYDRA, style)
    assert (finding.severity, finding.path) == ("error", ("code", "argument_style"))
    assert "lr=... (@hydra.main, line 4)" in finding.message
    assert finding.remedy == "Write `argument_style: hydra`."


def test_where_the_toolkit_starts_it_there_is_no_such_style(found) -> None:
    (finding,) = found(HYDRA, None, distribution={"strategy": "mpi"})
    assert "SM_HPS" in finding.remedy


def test_argparse_refuses_hydras_words(found) -> None:
    (finding,) = found(ARGPARSE, "hydra")
    assert "argparse and would refuse lr=..." in finding.message


@pytest.mark.parametrize(
    ("script", "style", "name"),
    [
        (HYDRA, "hydra", "lr"), (HYDRA, "none", "lr"), (HYDRA, None, None),
        (ARGPARSE, None, "lr"), (ARGPARSE, "equals", "e"), (ARGPARSE, "none", "lr"),
        (ARGPARSE.replace('"--e"', '"-e", "--e"'), None, "e"),
        (ARGPARSE.replace("parse_args", "parse_known_args"), "hydra", "lr"), ("", "hydra", "lr"),
    ],
)  # fmt: skip
def test_what_the_script_takes_is_fine(found, script: str, style: str | None, name: str | None) -> None:
    assert found(script, style, name) == []


def test_a_name_of_one_letter_is_passed_with_one_dash(found) -> None:
    (finding,) = found(ARGPARSE, None, "e")
    assert finding.path == ("hyperparameters", "e")
    assert "passed as -e, and run.py declares --e alone" in finding.message
    assert "argument_style: equals" in finding.remedy
