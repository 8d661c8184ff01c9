"""Ranks and world sizes are known by where they come from, never by their names."""

from __future__ import annotations

import ast

import pytest

from launcher.program.evaluate import Evaluation
from launcher.program.surroundings.options import option_of
from launcher.program.values import Constant, Nothing, RankKind, RankValue, WorldSize
from tests.program.conftest import ReadProgram, ValueOf, wrong_answers

START = "import os, torch\nimport torch.distributed as dist\nimport torch.multiprocessing as mp\n"


def test_a_rank_is_known_by_where_it_comes_from_and_never_by_its_name(value_of: ValueOf) -> None:
    def told(text: str) -> str:
        found = value_of(START + text)
        return f"{found.kind.value} rank" if isinstance(found, RankValue) else "no rank"

    assert wrong_answers("ranks.test", told) == []


def test_what_is_calculated_from_a_rank_differs_and_is_none(value_of: ValueOf) -> None:
    found = value_of("import os\nlook(42 + int(os.environ['RANK']))")
    assert found == RankValue(RankKind.DERIVED, "RANK")


def test_world_sizes_and_literals_are_known(value_of: ValueOf) -> None:
    assert value_of("import os\nlook(int(os.environ['WORLD_SIZE']))") == WorldSize("WORLD_SIZE")
    assert value_of("import os\nn = int(os.getenv('WORLD_SIZE', 1)) // 8\nlook(n)") == WorldSize("WORLD_SIZE")
    assert value_of("look(-1)") == Constant(-1)


def test_a_method_that_is_kept_and_not_called_where_it_is_read_sets_nothing(program: ReadProgram) -> None:
    read = program("table = {'lr': 1}\nfill = table.setdefault\nlook(table['lr'])\n")
    (call,) = read.entry.calls_of["look"]
    assert read.value(call.args[0]) == Constant(1)
    read = program("""
        import argparse
        parser = argparse.ArgumentParser()
        parser.add_argument("--backend", default="nccl")
        change = parser.set_defaults
        args = parser.parse_args()
        look(args.backend)
    """)
    (call,) = read.entry.calls_of["look"]
    option = option_of(read, call.args[0])
    assert option is not None
    assert option.value == "nccl"


@pytest.mark.parametrize(
    "text",
    [
        "def f():\n global rank\n look(rank)\nf()",
        # Python refuses this, the grammar does not.
        "def f():\n from apex import amp\n global amp\n look(amp)\nf()",
        # A number that is changed is not the one that it began with.
        "n = 0\nfor x in y:\n n += f(x)\nlook(n)",
        "class A:\n def __init__(self):\n  self.n = 0\n def f(self):\n  self.n += 1\n  look(self.n)",
    ],
)
def test_what_is_global_and_bound_nowhere_or_changes_is_unknown(value_of: ValueOf, text: str) -> None:
    assert value_of(text) is Nothing.UNKNOWN


@pytest.mark.parametrize(
    "text",
    [
        "def f(x):\n return g(x)\ndef g(x):\n return f(x)\nlook(f(1))",
        "def f(x):\n look(x)\n f(x)",
        "a = b\nb = a\nlook(a)",
        "class A:\n def f(self):\n  self.x = self.x\n  look(self.x)",
        "class A(A): ...\nlook(A().x)",
        "x = " + "(" * 90 + "y" + ")" * 90 + "\nlook(x)",
        "look(x" + ".a" * 500 + ")",
        "look(x" + "()" * 500 + ")",
        "\n".join(f"a{n} = a{n + 1}" for n in range(500)) + "\nlook(a0)",
        "\n".join(f"def f{n}():\n return f{n + 1}()" for n in range(500)) + "\nlook(f0())",
    ],
)
def test_what_turns_in_circles_or_goes_deep_is_unknown(value_of: ValueOf, text: str) -> None:
    assert not isinstance(value_of(text), RankValue)


def test_a_library_whose_source_is_in_the_program_is_known_by_its_name(value_of: ValueOf) -> None:
    source = {"accelerate/__init__.py": "from .accelerator import Accelerator\n"}
    source["accelerate/accelerator.py"] = (
        "class Accelerator:\n    @property\n    def process_index(self):\n"
        "        return self.state.number()\n"
    )
    for module in ("accelerate", "accelerate.accelerator"):
        text = f"from {module} import Accelerator\na = Accelerator()\nlook(a.process_index)"
        found = value_of(text, **source)
        assert isinstance(found, RankValue) and found.kind is RankKind.GLOBAL


@pytest.mark.parametrize(
    "abstract", ["raise NotImplementedError", "'To be written.'\n  raise NotImplementedError('build')"]
)
def test_a_method_that_only_raises_is_that_of_the_derived_class(value_of: ValueOf, abstract: str) -> None:
    base = f"class Base:\n def __init__(self):\n  self.made = self.build()\n def build(self):\n  {abstract}\n"
    derived = "class Own(Base):\n def build(self):\n  return 'built'\n"
    assert value_of(base + derived + "look(Own().made)") == Constant("built")
    assert value_of(base + derived.replace("Own(Base)", "Own") + "look(Base().made)") is Nothing.UNKNOWN


def test_a_method_that_does_something_is_that_of_its_own_class(value_of: ValueOf) -> None:
    base = (
        "class Base:\n def __init__(self):\n  self.made = self.build()\n def build(self):\n  return 'base'\n"
    )
    derived = "class Own(Base):\n def build(self):\n  return 'own'\n"
    assert value_of(base + derived + "look(Base().made)") == Constant("base")


@pytest.mark.parametrize(
    "record",
    [
        "class Config(dict):\n __getattr__ = dict.get\n __setattr__ = dict.__setitem__\n",
        "class Config(argparse.Namespace): ...\n",
        "class Config:\n def __init__(self, d):\n  object.__setattr__(self, 'd', d)\n"
        " def __getattr__(self, n):\n  return self.d[n]\n def __setattr__(self, n, v):\n  self.d[n] = v\n",
    ],
)
def test_a_record_that_takes_any_attribute_has_what_it_is_given(value_of: ValueOf, record: str) -> None:
    start = f"import argparse, os, yaml\n{record}cfg = Config(yaml.safe_load(open('a.yaml')))\n"
    found = value_of(f"{start}cfg.rank = int(os.environ['RANK'])\ndef f(cfg):\n look(cfg.rank)\nf(cfg)")
    assert isinstance(found, RankValue) and found.kind is RankKind.GLOBAL
    # What the file says may be another number.
    file_or_not = f"{start}if cfg.x:\n cfg.rank = 0\ndef f(cfg):\n look(cfg.rank)\nf(cfg)"
    assert value_of(file_or_not) is Nothing.UNKNOWN


def test_what_lies_too_deep_is_not_looked_for_again_and_again(
    program: ReadProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = list[ast.expr]()
    looked_at = Evaluation._evaluated
    monkeypatch.setattr(
        Evaluation, "_evaluated", lambda self, node, given: steps.append(node) or looked_at(self, node, given)
    )
    chain = [f"def f{n}(x):\n if x:\n  return f{n + 1}(x)\n return f{n + 1}([x])" for n in range(60)]
    read = program("\n".join([*chain, *(f"look(f0(a{n}))" for n in range(20))]))
    counts = []
    for call in read.entry.calls_of["look"]:
        before = len(steps)
        assert read.value(call.args[0]) is Nothing.UNKNOWN
        counts.append(len(steps) - before)
    assert sum(counts[1:]) < counts[0]
