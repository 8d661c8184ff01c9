"""What a script's source says of its command line."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from launcher.source.arguments import MOST_BYTES, CommandLine, command_line_of, offered_options

PARSER = """
    import argparse
    parser = argparse.ArgumentParser(description="Trains")
    group = parser.add_argument_group("model")
    parser.add_argument("-l", "--lr", type=float)
    group.add_argument("--e", type=int)
    args = parser.parse_args()
"""


def read(folder: Path, text: str) -> CommandLine:
    (folder / "train.py").write_text(textwrap.dedent(text))
    return command_line_of((folder / "train.py").read_bytes())


def test_the_options_of_a_plain_parser_are_known(tmp_path: Path) -> None:
    assert read(tmp_path, PARSER) == CommandLine(options=frozenset({"-l", "--lr", "--e"}))


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("parse_args()", "parse_known_args()[0]"),
        ("parse_args()", "parse_args(WORDS)"),
        ('"--e"', '"overrides"'),
        ('"--e"', "name"),
        ('"--e"', "*names"),
        ('description="Trains"', "parents=[base]"),
        ("args = ", "more(parser); args = "),
        ("args = ", "more(p=parser); args = "),
        ("import argparse", "import argparse, sys; words = sys.argv"),
        ("import argparse", "import argparse; other = argparse.ArgumentParser()"),
        ("parser = argparse", "self.parser = argparse"),
    ],
)
def test_nothing_is_said_of_a_parser_that_may_take_more(tmp_path: Path, before: str, after: str) -> None:
    assert before in PARSER
    assert read(tmp_path, PARSER.replace(before, after)) == CommandLine()


@pytest.mark.parametrize("decorator", ["@hydra.main", "@hydra.main(config_path='.', version_base=None)"])
def test_hydras_main_is_seen_with_its_line(tmp_path: Path, decorator: str) -> None:
    assert read(tmp_path, f"import hydra\n{decorator}\ndef main(config):\n    pass\n").hydra_line == 3


@pytest.mark.parametrize(
    "text",
    [
        "def broken(:", "\0", "-" * 150_000 + "1", "(" * 150_000, "a" + ".a" * 70_000, "f" + "()" * 70_000,
        "x = '\\d'\n" + "#" * MOST_BYTES, "if x:\n" * 90 + "pass",
    ],
)  # fmt: skip
def test_what_is_no_script_or_a_hostile_one_says_nothing(
    tmp_path: Path, text: str, recwarn: pytest.WarningsRecorder
) -> None:
    assert read(tmp_path, text) == CommandLine()
    assert list(recwarn) == []


def test_what_a_script_offers_is_seen_also_where_it_takes_more() -> None:
    text = """
    import argparse
    parser = argparse.ArgumentParser(parents=[base])
    parser.add_argument("--max-steps", type=int, default=100)
    parser.add_argument("-f", "--fake_data", action="store_true")
    parser.add_argument("--name", action="store")
    parser.add_argument("files")
    args, rest = parser.parse_known_args()
    """
    assert offered_options(textwrap.dedent(text).encode()) == {
        "--max-steps": True,
        "--fake_data": False,
        "--name": True,
    }


@pytest.mark.parametrize(
    ("parser", "offered"),
    [
        ("HfArgumentParser((Model, TrainingArguments))", {"--max_steps": True}),
        ("HfArgumentParser(Seq2SeqTrainingArguments)", {"--max_steps": True}),
        ("HfArgumentParser(Model)", {}),
        ("this is no Python", {}),
    ],
)
def test_transformers_arguments_hold_a_limit_of_steps(parser: str, offered: dict[str, bool]) -> None:
    assert offered_options(parser.encode()) == offered
