"""`type=bool` of an option makes True of the word False."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import options
from launcher.scripts.edits import edited
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

PARSER = "import argparse\nparser = argparse.ArgumentParser()\n"


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    return [finding for rule in options.RULES for finding in rule(program(text, **others))]


@shows(options.switches_can_be_switched_off)
@pytest.mark.parametrize(
    "text",
    [
        PARSER + 'parser.add_argument("--amp", type=bool, default=True)',
        PARSER + 'parser.add_argument("--amp", "-a", type=bool)',
        PARSER + 'group = parser.add_argument_group("g")\ngroup.add_argument("--amp", type=bool)',
        PARSER + 'parser.add_argument("--amp", nargs="?", const=True, type=bool)',
        "import argparse\ndef options(parser):\n    parser.add_argument('--amp', type=bool)",
        "from argparse import ArgumentParser\np = ArgumentParser()\np.add_argument('--amp', type=bool)",
        "import configargparse\np = configargparse.ArgumentParser()\np.add_argument('--amp', type=bool)",
        "try:\n    import configargparse as c\nexcept ImportError:\n    import argparse as c\n"
        "p = c.ArgumentParser()\np.add_argument('--amp', type=bool)",
        "import argparse\ntry:\n    import configargparse\n    p = configargparse.ArgumentParser()\n"
        "except ImportError:\n    p = argparse.ArgumentParser()\np.add_argument('--amp', type=bool)",
        PARSER + 'sub = parser.add_subparsers().add_parser("x")\nsub.add_argument("--amp", type=bool)',
    ],
)
def test_type_bool_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, text)
    assert (finding.code, finding.severity) == ("CODE002", Severity.WARNING)
    assert "`--amp False` switches it on" in finding.message


@leaves_alone(options.switches_can_be_switched_off)
@pytest.mark.parametrize(
    "text",
    [
        PARSER + 'parser.add_argument("--amp", action="store_true")',
        PARSER + 'parser.add_argument("--amp", action=argparse.BooleanOptionalAction)',
        PARSER + 'parser.add_argument("--amp", type=bool, action=argparse.BooleanOptionalAction)',
        PARSER + 'parser.add_argument("--amp", type=bool, action=OnOrOff)',
        PARSER + 'parser.add_argument("--amp", type=lambda text: text == "true")',
        PARSER + 'from distutils.util import strtobool as bool\nparser.add_argument("--amp", type=bool)',
        PARSER + 'def bool(text):\n    return text == "true"\nparser.add_argument("--amp", type=bool)',
        PARSER + 'parser.add_argument("--epochs", type=int)',
        "from jsonargparse import ArgumentParser\np = ArgumentParser()\np.add_argument('--amp', type=bool)",
        "import argparse, mine\np = argparse.ArgumentParser() if x else mine.lib.Parser()\n"
        "p.add_argument('--amp', type=bool)",
        "import click\n@click.option('--amp', type=bool)\ndef main(amp): ...",
        "import mine\np = mine.Parser()\np.add_argument('--amp', type=bool)",
        "from lightning.pytorch.cli import LightningArgumentParser\n"
        "p = LightningArgumentParser()\np.add_argument('--amp', type=bool)",
    ],
)
def test_what_can_be_switched_off_is_left_alone(program: ReadProgram, text: str) -> None:
    assert judge(program, text) == []


def test_the_fix_gives_the_option_an_opposite(program: ReadProgram) -> None:
    read = program(PARSER + 'parser.add_argument("--amp", type=bool, default=True)  # mixed\n')
    (finding,) = options.switches_can_be_switched_off(read)
    assert finding.fix is not None
    text = edited(read.entry.text.encode(), finding.fix.edits).decode()
    assert text.endswith(
        'parser.add_argument("--amp", action=argparse.BooleanOptionalAction, default=True)  # mixed\n'
    )
    assert judge(program, text) == []


@pytest.mark.parametrize(
    "rest", ["", ", default=None", ', default=True, nargs="?"', ", default=True, **more"]
)
def test_an_option_that_would_then_be_another_is_not_fixed(program: ReadProgram, rest: str) -> None:
    (finding,) = judge(program, PARSER + f'parser.add_argument("--amp", type=bool{rest})')
    assert finding.fix is None
