"""Whatever a file holds, judging it ends, quickly and without an exception."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import indent

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from launcher.program.index import FileIndex
from launcher.program.program import Program, read_program, read_source
from launcher.rules.script.check import check_program
from launcher.rules.script.configuration_files import ConfigurationFiles

START = "import sys\nimport torch.distributed as dist\nrank = dist.get_rank()\n"


def judged(text: str) -> int | None:
    """How many findings there are; None where the text is no Python."""
    path = Path("x.py")
    read = read_source(text.encode("utf-8", "surrogatepass"), path)
    if not isinstance(read, FileIndex):
        return None
    return len(list(check_program(Program(read, path.parent, (read,), (), {"x": read}))))


PIECES = [
    "if rank == 0:",
    "while rank:",
    "for i in range(rank):",
    "if rank == 0: dist.barrier()\nelse:",
    "try: f(rank)\nexcept Exception:",
    "try: f(rank)\nfinally:",
    "def f(rank=rank, *a, **k):",
    "class A(A):",
    "with f(rank) as rank:",
    "return",
    "break",
    "continue",
    "raise",
    "dist.barrier()",
    "f(rank)",
    "rank = f(rank)",
    "self.rank = rank",
    "global rank",
    "nonlocal rank",
    "lambda: rank",
    "[rank for rank in rank]",
    "(rank := rank)",
    "del rank",
    "from . import *",
    "import x",
    "from x import f",
    "rank.rank.rank",
    "rank()()",
    "@f",
    "async def g():",
    "await f()",
    "yield rank",
    "x = y = z, *w = rank, rank",
    "sys.exit(rank)",
    "\0",
]


@given(st.lists(st.tuples(st.integers(0, 3), st.sampled_from(PIECES)), max_size=14))
@settings(max_examples=150, deadline=None)
def test_lines_in_any_order_are_judged(lines: list[tuple[int, str]]) -> None:
    text, depth, opened = START, 0, False
    for up, line in lines:
        depth = depth if opened else max(0, depth - up)
        text += indent(line, "    " * depth) + "\n"
        opened = line.endswith(":")
        depth += opened
    judged(text + "    " * depth + "pass\n")


def indented(lines: list[str]) -> str:
    """Each line one level below the one before."""
    return "\n".join("    " * depth + line for depth, line in enumerate(lines)) + "\n"


@pytest.mark.parametrize(
    ("text", "findings"),
    [
        pytest.param("if rank == 0: pass\n" + "elif x: pass\n" * 900 + "dist.barrier()\n", 0, id="elif"),
        pytest.param(indented(["if x:"] * 95 + ["dist.barrier()"]), 0, id="nested blocks"),
        pytest.param(indented(["if x:"] * 1000 + ["pass"]), None, id="more than Python allows"),
        pytest.param("def f(): f()\nif rank == 0:\n    f()\n", 0, id="recursion"),
        pytest.param(
            "def f():\n    g()\n    dist.barrier()\ndef g():\n    f()\nif rank == 0:\n    g()\n",
            1,
            id="mutual",
        ),
        pytest.param(
            "def f():\n" + "    if x: return\n" * 500 + "    dist.barrier()\n", 0, id="many returns"
        ),
        pytest.param(
            "".join(f"def f{n}():\n    f{n + 1}()\n    f{n + 1}()\n" for n in range(60)) + "f0()\n"
            "def f60(): dist.barrier()\n",
            0,
            id="calls that double",
        ),
        pytest.param("x = rank" + " + rank" * 900 + "\nif x == 0:\n    dist.barrier()\n", 1, id="a long sum"),
        pytest.param(
            "".join(f"a{n} = b{n} if a{n + 1} else a{n + 1}\n" for n in range(60))
            + "if a0:\n    dist.barrier()\n",
            0,
            id="assignments that double",
        ),
    ],
)
def test_what_is_deep_or_turns_in_circles_is_judged(text: str, findings: int | None) -> None:
    assert judged(START + text) == findings


EXAMPLES = Path(__file__).parents[3] / "examples"
REAL = [EXAMPLES / name for name in ("hydra/src/digits/train.py", "lightning/src/train.py")]
WORDS = re.compile(r"\w+|\s+|[^\w\s]")


@pytest.mark.few_cases("hydra")
@pytest.mark.parametrize("script", REAL, ids=["hydra", "lightning"])
def test_a_script_that_ends_after_any_byte_is_judged_or_no_python(script: Path) -> None:
    data = script.read_bytes()
    for end in range(len(data)):
        read = read_source(data[:end], script)
        # A whole line more or less is what makes another program; the rest differs in one word.
        if isinstance(read, FileIndex) and data[end : end + 1] == b"\n":
            list(check_program(Program(read, script.parent, (read,), (), {"train": read})))


@given(
    st.sampled_from(REAL),
    st.lists(
        st.tuples(
            st.floats(0, 0.999), st.sampled_from(["gone", "twice", "other", "piece"]), st.floats(0, 0.999)
        ),
        min_size=1,
        max_size=6,
    ),
)
@settings(max_examples=80, deadline=None)
def test_a_real_script_with_words_changed_is_judged_or_no_python(
    script: Path, changes: list[tuple[float, str, float]]
) -> None:
    words = WORDS.findall(script.read_text("utf-8"))
    names = [each for each in words if each.isidentifier()]
    for place, change, other in changes:
        at = int(place * len(words))
        words[at] = {
            "gone": "",
            "twice": words[at] * 2,
            "other": names[int(other * len(names))],
            "piece": PIECES[int(other * len(PIECES))],
        }[change]
    judged("".join(words))


@pytest.mark.parametrize("grows", ["a = 'xxxxxxxx'", "a = [1, 2]", "a = 3", "a = {'b': {'c': 1}}"])
def test_a_configuration_in_python_grows_no_larger_than_a_file(tmp_path: Path, grows: str) -> None:
    ways = {"{": "dict(b=a, c=a)", "3": "a * a"}
    doubled = f"a = {ways.get(grows[4], 'a + a')}\n" * 18
    (tmp_path / "train.py").write_text("import importlib\n")
    (tmp_path / "large.py").write_text(f"{grows}\n{doubled}b = 1\n")
    program = read_program(tmp_path / "train.py", tmp_path)
    assert isinstance(program, Program)
    found = program.analysis(ConfigurationFiles).document("large.py")
    assert found["b"] == 1
    assert len(json.dumps(found["a"])) < 2_000_000
