"""What a program does with Python itself, as it is run on its syntax tree: by what it gives to a library."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import dedent
from typing import Any

import pytest

from launcher.program.execution.objects import OPEN, OWN, ProcessEnded, RankWorld, Symbol
from launcher.program.execution.ranks import RankRun, run_rank, variables_of_torchrun
from tests.program.conftest import ReadProgram

UNKNOWN = "?"
"""Stands for what nobody knows."""


def run_of(program: ReadProgram, text: str, words: Sequence[str] = (), rank: int = 0) -> RankRun:
    variables = variables_of_torchrun(16, 8, rank)
    world = RankWorld(rank, rank % 8, 16, 8, 8, tuple(words), variables, "torchrun")
    return run_rank(program("import lib\n" + dedent(text)), world)


def given(run: RankRun) -> list[object]:
    """What `lib.call` is given, one argument alone without its tuple; a call behind a test that nobody can
    tell has a second part that says so."""
    found: list[object] = []
    for each in run.calls("lib.call"):
        args = tuple(UNKNOWN if isinstance(one, Symbol) else one for one in each.args)
        one: object = args[0] if len(args) == 1 else args
        found.append(one if each.is_sure else (one, "perhaps"))
    return found


PROGRAMS: dict[str, tuple[str, list[Any]]] = {
    "words of one's own, gone through by their index": (
        """
        import yaml
        words, index, found = ["--a.b", "x/y", "skip", "-", "--c", "true"], 0, {}
        while index < len(words):
            key, value = words[index], words[index + 1]
            index += 2
            if not key.startswith("--"):
                continue
            at = found
            for each in key[2:].split(".")[:-1]:
                at = at.setdefault(each, {})
            at[key[2:].split(".")[-1]] = yaml.safe_load(value)
        lib.call(found["a"]["b"]); lib.call(found["c"]); lib.call(index)
        """,
        ["x/y", True, 6],
    ),
    "a text that is run": (
        """
        options = {"train": {"size": 1}}
        for entry in ["train:size=7"]:
            keys, value = entry.split("=")
            exec("options" + "".join(f'["{each}"]' for each in keys.split(":")) + " = int(value)")
        lib.call(options["train"]["size"])
        exec(lib.text)
        exec("no code (")
        lib.call(options["train"]["size"])
        """,
        [7, 7],
    ),
    "what math calculates": (
        """
        import math
        lib.call(math.floor(6 / 8)); lib.call(math.ceil(9 / 8)); lib.call(math.log2(8))
        lib.call(math.sqrt(-1)); lib.call(math.ceil(lib.size))
        """,
        [0, 2, 3.0, UNKNOWN, UNKNOWN],
    ),
    "a path from another folder, and a value of a type": (
        """
        import os
        from typing import cast
        lib.call(os.path.relpath("/opt/ml/code/a/b.py", "/opt/ml/code/a")); lib.call(cast("int", 3))
        lib.call(os.path.relpath("/opt/ml/code/a/b.py", lib.start))
        """,
        ["b.py", 3, UNKNOWN],
    ),
    "a configuration with the fields of classes": (
        """
        from dataclasses import dataclass, field
        from omegaconf import OmegaConf
        @dataclass
        class Data:
            workers: int = 4
            folder: str = "x"
        @dataclass
        class Config:
            data: Data = field(default_factory=Data)
            seed: int = 1
            def where(self): return self.data.folder + "/train"
        merged = OmegaConf.merge(OmegaConf.structured(Config), {"data": {"folder": "y"}})
        made = OmegaConf.to_object(merged)
        lib.call(merged.data.workers); lib.call(made.where())
        lib.call(made.data.workers); lib.call(made.seed)
        lib.call(OmegaConf.to_object(OmegaConf.merge(OmegaConf.structured(Config), lib.given)).seed)
        """,
        [4, "y/train", 4, 1, UNKNOWN],
    ),
    "a configuration that says itself how it is read and set": (
        """
        from addict import Dict
        class Table(Dict):
            def __missing__(self, name): raise KeyError(name)
        class Config:
            def __init__(self, given): super(Config, self).__setattr__("_table", Table(given))
            def __getattr__(self, name): return getattr(self._table, name)
            def __setattr__(self, name, value): self._table.__setattr__(name, value)
            def __getitem__(self, name): return self._table.__getitem__(name)
        config = Config({"a": {"b": 1}, "c": 2})
        config.d = 3
        lib.call(config.a.b); lib.call(config["c"]); lib.call(config.d)
        """,
        [1, 2, 3],
    ),
    "a dictionary whose entries are its attributes": (
        """
        import collections.abc
        class Table(dict):
            def __init__(self, *args, **given):
                super().__init__(*args, **given)
                self.__dict__ = self
                for key, value in self.__dict__.items():
                    if isinstance(value, dict):
                        self.__dict__[key] = Table(value)
        def update(table, others):
            for key, value in others.items():
                if isinstance(value, collections.abc.Mapping):
                    table.__dict__[key] = update(table.get(key, Table({})), value)
                else:
                    table.__dict__[key] = value
            return table
        table = update(Table(a=Table(b=1, c=2)), {"a": {"b": 5}, "d": {"e": 6}})
        lib.call(table.a.b); lib.call(table.a.c); lib.call(table.d.e)
        """,
        [5, 2, 6],
    ),
    "the texts of both Pythons": (
        "import six\nlib.call(isinstance('a', six.string_types)); lib.call(isinstance(1, six.string_types))",
        [True, False],
    ),
    "an option of more words than there are": (
        "import click\n@click.command()\n@click.option('--a', nargs=10**9)\ndef main(a): lib.call(1)\nmain()",
        [1],
    ),
    "an option that click would refuse": (
        "import click\n@click.command()\n@click.option('--', default=3)\ndef main(**a): lib.call(1)\nmain()",
        [1],
    ),
    "options of more words than there are": (
        "import argparse\np = argparse.ArgumentParser()\np.add_argument('--a', nargs=10**9, default=2)\n"
        "lib.call(p.parse_args().a)",
        [2],
    ),
    "a version of many digits": (
        "import torch\nlib.call(1 if torch.__version__ < '9' * 10000 else 2)",
        [UNKNOWN],
    ),
    "a command that copies the program": (
        "import subprocess, sys\nsubprocess.run(['cp', 'train.py', '/fsx'])\nlib.call(sys.argv[1:])",
        [[]],
    ),
    "where a text has another one": (
        "import os\nname = 'network.hr.Net'\n"
        "lib.call(name[: name.rfind('.')], name.index('.'), name.isupper())\n"
        "lib.call(os.environ['OF_NOBODY'].rfind('.'))",
        [("network.hr", 7, False), UNKNOWN],
    ),
    "classes of values": (
        "v = 3\nlib.call(type(v) == int, type('a') is str, type([]) in (list, tuple), type(v).__name__)",
        [(True, True, True, "int")],
    ),
    "the class of what nobody knows": ("lib.call(1 if type(lib.x) == int else 2)", [UNKNOWN]),
    "texts that are changed by a pattern": (
        "import re\nlib.call(re.sub('^np.', 'numpy.', 'np.load'), re.sub('(a+)+', 'b', 'a'))",
        [("numpy.load", UNKNOWN)],
    ),
    "a pattern that is not there": ("import re\nif not re.match('^[a-z]+://', '/data'): lib.call(1)", [1]),
    "a pattern that is no pattern": ("import re\nlib.call(1 if re.match('[', 'a') else 2)", [UNKNOWN]),
    "how many items data have": (
        "names = []\nfor each in lib.data: names.append(each)\nlib.call(len(names), sum(names))",
        [(UNKNOWN, UNKNOWN)],
    ),
    "another way of a function has come back": (
        "def f(x):\n    if lib.x: return 'a'\n    raise ValueError\n"
        "try: lib.call(f(1))\nexcept ValueError: lib.call('lost')",
        ["a"],
    ),
    "a try whose handler ends all": (
        "import sys\ntry:\n    lib.call(1)\n    raise ValueError\n"
        "except Exception:\n    sys.exit(1)\nlib.call(2)",
        [1, 2],
    ),
    "an assertion on numbers": ("assert 7 % 2 == 0\nlib.call(1)", [1]),
    "a name that nothing binds in a try": (
        "try: lib.call(unicode)\nexcept NameError: lib.call('no')",
        ["no"],
    ),
    "a name of a class in its body": (
        "class A:\n    n = [1]\n    m = sum(x for x in n)\nlib.call(A.n)",
        [[1]],
    ),
    "the system": (
        "import os, sys, platform\nlib.call(os.name, sys.platform, platform.system())",
        [("posix", "linux", "Linux")],
    ),
    "versions that are compared": (
        "from packaging.version import parse\n"
        "lib.call(parse('2.10.0') > parse('2.9'), parse('2.0') == parse('2'))",
        [(True, True)],
    ),
    "a loop over a list": ("for each in ['a', 'b']: lib.call(each)", ["a", "b"]),
    "a loop that counts to three": ("for i in range(3): lib.call(i)", [0, 1, 2]),
    "a loop that counts far": ("for i in range(1000): lib.call(i)", [UNKNOWN]),
    "the else of a loop": ("for i in [1]:\n    pass\nelse:\n    lib.call(2)", [2]),
    "a break": ("for i in [1, 2, 3]:\n    if i == 2: break\nlib.call(i)", [2]),
    "a continue": ("for i in [1, 2, 3]:\n    if i == 2: continue\n    lib.call(i)", [1, 3]),
    "a loop that is never run": ("while False:\n    lib.call(1)\nelse:\n    lib.call(2)", [2]),
    "numbers of the turns": ("for i, (a, b) in enumerate([(1, 2)], 5): lib.call(i, a, b)", [(5, 1, 2)]),
    "a counter of a loop over data": ("n = 0\nfor each in lib.data: n += 1\nlib.call(n)", [UNKNOWN]),
    "a counter of an endless loop": ("n = 0\nwhile n < 9:\n    n += 1\nlib.call(n)", [UNKNOWN]),
    "a counter of an object": (
        "class A: n = 0\na = A()\na.n = 0\nfor each in lib.data: a.n += 1\nlib.call(a.n)",
        [UNKNOWN],
    ),
    "a comprehension of two loops": (
        "lib.call([(a, b) for a in range(2) for b in 'xy' if a])",
        [[(1, "x"), (1, "y")]],
    ),
    "a dictionary that is comprehended": ("lib.call({k: v * 2 for k, v in {'a': 1}.items()})", [{"a": 2}]),
    "a comprehension over data": ("lib.call([each for each in lib.data])", [UNKNOWN]),
    "functions that see the last turn": ("f = [lambda: i for i in range(2)]\nlib.call(f[0]())", [1]),
    "functions that keep their turn": ("f = [lambda i=i: i for i in range(2)]\nlib.call(f[0]())", [0]),
    "a method above": (
        "class A:\n    def f(self): return 'a'\n"
        "class B(A):\n    def f(self): return super().f() + 'b'\nlib.call(B().f())",
        ["ab"],
    ),
    "two ways to a class": (
        "class A:\n    def f(self): return 'a'\n"
        "class B(A):\n    def f(self): return 'b' + super().f()\n"
        "class C(A):\n    def f(self): return 'c' + super().f()\n"
        "class D(B, C): pass\nlib.call(D().f())",
        ["bca"],
    ),
    "a property and its setter": (
        "class A:\n    @property\n    def x(self): return self.kept\n"
        "    @x.setter\n    def x(self, value): self.kept = value * 2\na = A()\na.x = 3\nlib.call(a.x)",
        [6],
    ),
    "a method of the class": (
        "class A:\n    n = 1\n    @classmethod\n    def f(cls): return cls.n\n"
        "class B(A): n = 2\nlib.call(B.f(), B().f())",
        [(2, 2)],
    ),
    "what all objects share": (
        "class A:\n    made = []\n    def __init__(self): A.made.append(1)\nA()\nA()\nlib.call(len(A.made))",
        [2],
    ),
    "classes that say what they are called": (
        "class A:\n    known = {}\n    def __init_subclass__(cls, name): A.known[name] = cls\n"
        "class B(A, name='b'): n = 4\nlib.call(A.known['b'].n)",
        [4],
    ),
    "an object that makes its attributes": (
        "class A:\n    def __getattr__(self, name): return name.upper()\nlib.call(A().abc)",
        ["ABC"],
    ),
    "an object that is made once": (
        "class A:\n    one = None\n    def __new__(cls):\n        cls.one = cls.one or super().__new__(cls)\n"
        "        return cls.one\nlib.call(A() is A())",
        [True],
    ),
    "an object that is called, asked for items and written": (
        "class A:\n    def __call__(self, x): return x + 1\n    def __getitem__(self, x): return x * 2\n"
        "    def __len__(self): return 3\n    def __str__(self): return 'a'\n"
        "a = A()\nlib.call(a(1), a[2], len(a), f'{a}', str(a))",
        [(2, 4, 3, "a", "a")],
    ),
    "a dictionary with methods": (
        "class A(dict):\n    def __getattr__(self, name): return self[name]\n"
        "lib.call(A(x=1).x, A({'x': 2})['x'])",
        [(1, 2)],
    ),
    "an attribute by its name": (
        "class A: x = 1\nlib.call(getattr(A(), 'x'), getattr(A, 'y', 2), hasattr(A(), 'z'))",
        [(1, 2, False)],
    ),
    "the members of an enumeration": (
        "import enum\nclass A(enum.Enum):\n    X = 'x'\nlib.call(A.X.value, A('x').name, A['X'].value)",
        [("x", "X", "x")],
    ),
    "a decorator with arguments": (
        "def times(n):\n    def change(f):\n        def inner(*a, **k): return f(*a, **k) * n\n"
        "        return inner\n    return change\n"
        "@times(3)\ndef f(x, y=1): return x + y\nlib.call(f(1, y=2))",
        [9],
    ),
    "a decorator that is a class": (
        "class A:\n    def __init__(self, f): self.f = f\n    def __call__(self, x): return self.f(x) + 1\n"
        "@A\ndef f(x): return x\nlib.call(f(1))",
        [2],
    ),
    "a decorator of a library": ("@lib.cached\ndef f(x): return x\nlib.call(f(1))", [1]),
    "a registry": (
        "known = {}\ndef add(f):\n    known[f.__name__] = f\n    return f\n"
        "@add\ndef one(): return 1\nlib.call(known['one']())",
        [1],
    ),
    "a closure that counts": (
        "def counter():\n    n = 0\n    def more():\n        nonlocal n\n        n += 1\n        return n\n"
        "    return more\nmore = counter()\nmore()\nlib.call(more())",
        [2],
    ),
    "a global": ("n = 1\ndef f():\n    global n\n    n = 2\nf()\nlib.call(n)", [2]),
    "a default that is shared": (
        "def f(x, kept=[]):\n    kept.append(x)\n    return kept\nf(1)\nlib.call(f(2))",
        [[1, 2]],
    ),
    "places, names and stars": (
        "def f(a, /, b, *c, d=4, **e): return a, b, c, d, e\nlib.call(*f(1, *[2, 3], **{'x': 5}))",
        [(1, 2, (3,), 4, {"x": 5})],
    ),
    "named arguments that nobody knows": (
        "from dataclasses import dataclass, replace\n@dataclass\nclass A:\n    x: int = 1\n"
        "def f(x, y=1): return y\n"
        "lib.call(f(1, **lib.x), A(**lib.x).x, replace(A(), **lib.x).x, dict(**lib.x))",
        [(UNKNOWN, UNKNOWN, UNKNOWN, UNKNOWN)],
    ),
    "a bound method in a name": (
        "class A:\n    def f(self, x): return x\nf = A().f\nlib.call(f(3), A.f(A(), 4))",
        [(3, 4)],
    ),
    "a generator": ("def g():\n    yield 1\n    yield from [2, 3]\nlib.call(list(g()))", [[1, 2, 3]]),
    "the next of a generator": (
        "def g():\n    yield 1\n    yield 2\ng = g()\nlib.call(next(g), next(g), next(g, 3))",
        [(1, 2, 3)],
    ),
    "what is left of an iterator": ("i = iter([1, 2, 3])\nnext(i)\nlib.call([x for x in i])", [[2, 3]]),
    "a generator that has no end": (
        "def g():\n    while True: yield 1\nfor each in g(): lib.call(each)",
        [1],
    ),
    "the next that nobody can tell": (
        "f = next(f for f in [lambda: lib.call(1), lambda: lib.call(2)] if lib.x)\nf()",
        [(1, "perhaps"), (2, "perhaps")],
    ),
    "an object that is entered and left": (
        "class A:\n    def __enter__(self): return 1\n    def __exit__(self, *_): lib.call(3)\n"
        "with A() as a:\n    lib.call(a + 1)",
        [2, 3],
    ),
    "a generator that is entered and left": (
        "import contextlib\n@contextlib.contextmanager\ndef c(n):\n    lib.call(n)\n    yield n + 1\n"
        "    lib.call(n + 2)\nwith c(1) as a, c(a * 10):\n    lib.call(a)",
        [1, 20, 2, 22, 3],
    ),
    "a generator that is left by a return": (
        "import contextlib\n@contextlib.contextmanager\ndef c():\n    yield 1\n    lib.call(2)\n"
        "def f():\n    with c() as a:\n        return a\nlib.call(f())",
        [2, 1],
    ),
    "a stack of what is entered": (
        "import contextlib\n@contextlib.contextmanager\ndef c():\n    yield 1\n"
        "with contextlib.ExitStack() as s:\n    lib.call(s.enter_context(c()))",
        [1],
    ),
    "what suppresses an error": (
        "import contextlib\nwith contextlib.suppress(KeyError):\n    {}['a']\nlib.call(1)",
        [1],
    ),
    "a match of values": (
        "match 3:\n    case 1 | 2: lib.call('few')\n    case int(n) if n > 2: lib.call(n)\n"
        "    case _: lib.call('no')",
        [3],
    ),
    "a match of items": ("match ['a', 1, 2]:\n    case [x, *rest]: lib.call(x, rest)", [("a", [1, 2])]),
    "a match of entries": (
        "match {'k': 1, 'o': 2}:\n    case {'k': v, **rest}: lib.call(v, rest)",
        [(1, {"o": 2})],
    ),
    "a match of a class": (
        "from dataclasses import dataclass\n@dataclass\nclass A:\n    x: int\n    y: int = 2\n"
        "match A(3):\n    case A(x=1): lib.call('no')\n    case A(3, y): lib.call(y)",
        [2],
    ),
    "a match that nobody can tell": (
        "match lib.x:\n    case 1: lib.call(1)\n    case {'a': a}: lib.call(a)\n    case _: lib.call(2)",
        [(1, "perhaps"), (UNKNOWN, "perhaps"), (2, "perhaps")],
    ),
    "an error that is caught": (
        "try:\n    raise KeyError('x')\nexcept KeyError:\n    lib.call(1)\nelse:\n    lib.call(2)\n"
        "finally:\n    lib.call(3)",
        [1, 3],
    ),
    "an error of the program by the class above": (
        "class E(ValueError): pass\ntry:\n    raise E()\nexcept (KeyError, ValueError):\n    lib.call(1)",
        [1],
    ),
    "an entry that is not there": ("try:\n    {}['x']\nexcept LookupError:\n    lib.call(1)", [1]),
    "a number that is none": ("try:\n    int('x')\nexcept ValueError:\n    lib.call(1)", [1]),
    "an error within the handling of one": (
        "try:\n    try:\n        raise ValueError\n    except ValueError:\n        raise KeyError\n"
        "except KeyError:\n    lib.call(1)",
        [1],
    ),
    "a return that is left at last": (
        "def f():\n    try:\n        return 1\n    finally:\n        lib.call(2)\nlib.call(f())",
        [2, 1],
    ),
    "an end that is caught": (
        "import sys\ntry:\n    sys.exit(3)\nexcept SystemExit:\n    lib.call(1)",
        [1],
    ),
    "an end": ("import sys\nlib.call(1)\nsys.exit()\nlib.call(2)", [1]),
    "a data class": (
        "from dataclasses import dataclass, field, asdict, replace\n@dataclass\nclass A:\n    x: int\n"
        "    y: list = field(default_factory=list)\n    def __post_init__(self): self.z = self.x + 1\n"
        "a = A(1)\na.y.append(2)\nlib.call(a.y, a.z, A(2).y, replace(a, x=5).x)",
        [([2], 2, [], 5)],
    ),
    "a data class above another": (
        "from dataclasses import dataclass, asdict\n@dataclass\nclass A:\n    x: int = 1\n"
        "@dataclass\nclass B(A):\n    y: int = 2\nlib.call(asdict(B(y=5)))",
        [{"x": 1, "y": 5}],
    ),
    "a named tuple": (
        "from typing import NamedTuple\nclass A(NamedTuple):\n    x: int\n    y: int = 2\n"
        "a, b = A(1)\nlib.call(a, b, A(3)[0])",
        [(1, 2, 3)],
    ),
    "a dictionary that makes what it lacks": (
        "from collections import defaultdict\nd = defaultdict(list)\nd['x'].append(1)\nlib.call(d['x'])",
        [[1]],
    ),
    "a partial application": (
        "from functools import partial\ndef f(a, b, c=0): return a, b, c\nlib.call(partial(f, 1, c=3)(2))",
        [(1, 2, 3)],
    ),
    "a partial application of a library": (
        "from functools import partial\ncall = partial(lib.call, 1)\ncall(2)",
        [(1, 2)],
    ),
    "what is folded": (
        "import functools\nlib.call(functools.reduce(lambda a, b: a * b, [1, 2, 3]))",
        [6],
    ),
    "names left of a star": ("a, *b, c = range(5)\nlib.call(a, b, c)", [(0, [1, 2, 3], 4)]),
    "names that change places": ("a, b = 1, 2\na, b = b, a\nlib.call(a, b)", [(2, 1)]),
    "names of what an object gives": (
        "class A:\n    def __iter__(self):\n        yield 1\n        yield 2\na, b = A()\nlib.call(a, b)",
        [(1, 2)],
    ),
    "a text with parts that are open": (
        "import time\nlib.call(f'{3:03d}-{1.5:.2f}-{time.time()}-{lib.x}')",
        [f"003-1.50-{OWN}-{OPEN}"],
    ),
    "texts by other ways": (
        "lib.call('%02d-%s' % (1, 'a'), '{}-{x}'.format(1, x=2), '-'.join(['a', lib.x]))",
        [("01-a", "1-2", f"a-{OPEN}")],
    ),
    "what is sorted": (
        "a = [3, 1, 2]\na.sort(reverse=True)\n"
        "lib.call(a, sorted(['bb', 'c'], key=len), max([1, -5], key=abs))",
        [([3, 2, 1], ["c", "bb"], UNKNOWN)],
    ),
    "what a filter lets through": ("lib.call(list(filter(lambda x: x > 1, [1, 2])))", [[2]]),
    "dictionaries that are merged": ("lib.call({**{'a': 1}, 'b': 2} | {'a': 3})", [{"a": 3, "b": 2}]),
    "an entry of a table by an open key": (
        "t = {'a': lambda: lib.call(1), 'b': lambda: lib.call(2)}\nt[lib.x]()\nt.get(lib.x, print)()",
        [(1, "perhaps"), (2, "perhaps")] * 2,
    ),
    "both ways of a test that nobody can tell": (
        "if lib.x: lib.call(1)\nelse: lib.call(2)\nlib.call(3)",
        [(1, "perhaps"), (2, "perhaps"), 3],
    ),
    "a name that is the same on both ways": (
        "if lib.x: a, b = 1, 1\nelse: a, b = 1, 2\nlib.call(a, b)",
        [(1, UNKNOWN)],
    ),
    "a way that ends": (
        "def f():\n    if lib.x:\n        raise ValueError\n    return 1\nlib.call(f())",
        [1],
    ),
    "a result that is one of two": (
        "def f():\n    if lib.x: return 1\n    return 2\nlib.call(f())",
        [UNKNOWN],
    ),
    "a variable of the launcher": (
        "import os\nos.environ['A'] = '1'\n"
        "lib.call(int(os.environ['RANK']), os.getenv('A'), 'OMPI_X' in os.environ)",
        [(9, "1", False)],
    ),
    "a document in a text": ("import json\nlib.call(json.loads('{\"a\": [1]}'))", [{"a": [1]}]),
    "paths": (
        "import os\nfrom pathlib import Path\n"
        "lib.call(str(Path('a') / 'b.c'), Path('a/b.c').stem, os.path.join('a', 'b'))",
        [("a/b.c", "b", "a/b")],
    ),
    "a coroutine": ("import asyncio\nasync def f(): return 3\nlib.call(asyncio.run(f()))", [3]),
    "a table of attributes that is put in the place of an object's own": (
        "class A:\n    def __init__(self, d): self.__dict__ = d\nlib.call(A({'a': 1}).a)",
        [1],
    ),
    "a global that a function sets first": (
        "def f():\n    global n\n    lib.call(n)\n    n = 1\nf()\nlib.call(n)",
        [UNKNOWN, 1],
    ),
    "a range of many numbers in a table": (
        "t = [lib.call(i, j) for i in range(2000) for j in range(900)]\nlib.call(1)",
        [(UNKNOWN, UNKNOWN), 1],
    ),
    "literals in texts": (
        "import ast\ndef read(v):\n    try: return ast.literal_eval(v)\n    except ValueError: return v\n"
        "lib.call(read('[1, 2]'), read('a/b'))",
        [([1, 2], "a/b")],
    ),
    "words for a configuration of yacs": (
        "from yacs.config import CfgNode\nc = CfgNode({'a': {'b': 1}, 'c': 'x'})\n"
        "c.merge_from_list(['a.b', '2', 'c', 'y', 'd', '[1]'])\nlib.call(c.a.b, c.c, c.d)",
        [(2, "y", [1])],
    ),
    "entries for a configuration of mmcv": (
        "from easydict import EasyDict\nc = EasyDict(a=EasyDict(b=1))\n"
        "c.merge_from_dict({'a.b': 2, 'a': {'c': 3}})\nlib.call(c.a.b, c.a.c)",
        [(2, 3)],
    ),
    "a list of words for OmegaConf": (
        "from omegaconf import OmegaConf\nc = OmegaConf.from_dotlist(['a.b=1', 'c=x'])\nlib.call(c.a.b, c.c)",
        [("1", "x")],
    ),
    "what a scheduler would start": (
        "import submitit\nexecutor = submitit.AutoExecutor('logs')\n"
        "class T:\n    def __call__(self, a): lib.call(a)\n"
        "executor.submit(T(), 1)\nexecutor.map_array(lambda a, b: lib.call(a, b), [1, 2], [3, 4])",
        [1, (1, 3)],
    ),
    "what is called at the end of a file": (
        "def main(): lib.call(1)\nif __name__ == '__main__':\n    main()",
        [1],
    ),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_library_is_given_what_python_makes(program: ReadProgram, name: str) -> None:
    text, wanted = PROGRAMS[name]
    run = run_of(program, text, rank=9)
    assert given(run) == wanted
    assert run.is_whole


OPTIONS = """
    import argparse
    base = argparse.ArgumentParser(add_help=False)
    base.add_argument("--number", type=int, default=1)
    parser = argparse.ArgumentParser(parents=[base])
    parser.add_argument("--flag", action="store_true")
    parser.add_argument("--needed", required=True)
    commands = parser.add_subparsers(dest="command")
    for name in ("one", "two"):
        command = commands.add_parser(name)
        command.add_argument("--of", default=name)
        command.set_defaults(run=name.upper())
    args = parser.parse_args()
    table = vars(args)
    lib.call(args.number, table["flag"], args.needed, args.command, getattr(args, "run", None))
"""


@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        ([], (1, False, UNKNOWN, None, None)),
        (["--number=4", "--flag", "--needed", "a"], (4, True, "a", None, None)),
        (["--needed", "a", "two", "--of", "b"], (1, False, "a", "two", "TWO")),
    ],
)
def test_a_parser_reads_the_words_of_the_job(
    program: ReadProgram, words: list[str], wanted: tuple[object, ...]
) -> None:
    assert given(run_of(program, OPTIONS, words)) == [wanted]


FILES = {
    "the names of a module by its dictionary": (
        "import parts\n"
        "lib.call(parts.__dict__[args.name](), callable(vars(parts)['one']), globals()['args'].name)",
        {"parts/__init__.py": "from parts.two import one\n", "parts/two.py": "def one(): return 2\n"},
        (2, True, "one"),
    ),
    "a file that is run in the place where it is read": (
        "rate, size = 1, 2\nexec(open('parts/one.py').read())\nlib.call(rate, size)",
        {"parts/one.py": "rate = 3\nglobals()['size'] = rate + 1\n"},
        (3, 4),
    ),
    "a file that runs itself ends": (
        "exec(open('parts/one.py').read())\nlib.call(rate)",
        {"parts/one.py": "rate = 3\nexec(open('parts/one.py').read())\n"},
        3,
    ),
    "a module that an option names": (
        "import importlib\nlib.call(importlib.import_module('parts.' + args.name).value)",
        {"parts/one.py": "from parts.two import value\n", "parts/two.py": "value = 2\n"},
        2,
    ),
    "the modules of a folder": (
        "import glob, importlib, os\n"
        "names = [each[:-3] for each in os.listdir('parts') if each.endswith('.py')]\n"
        "names += [each.name[:-3] for each in os.scandir('parts') if each.is_file()]\n"
        "names += [os.path.basename(each)[:-3] for each in glob.glob('parts/*.py')]\n"
        "names += [each.stem for each in Path('parts').glob('*.py')]\n"
        "lib.call([importlib.import_module('parts.' + each).value for each in names])",
        {"parts/one.py": "value = 1", "parts/two.py": "value = 2"},
        [1, 2] * 4,
    ),
    "a configuration in Python that is run by its path": (
        "import importlib.util as u\nspec = u.spec_from_file_location('c', args.file)\n"
        "module = u.module_from_spec(spec)\nspec.loader.exec_module(module)\nlib.call(module.cfg['a'])",
        {},
        "runs/a",
    ),
    "a configuration in Python that its name imports": (
        "import importlib\nlib.call(importlib.import_module('configs.small').cfg['a'])",
        {},
        "runs/a",
    ),
    "a configuration of yacs that begins with another one": (
        "from yacs.config import CfgNode\nc = CfgNode()\nc.merge_from_file('own.yaml')\nlib.call(c.a, c.b)",
        {},
        (1, 3),
    ),
    "whether a configuration is there": (
        "import os\nasks = (os.path.isfile, os.path.exists, os.path.isdir)\n"
        "lib.call(*(ask('own.yaml') for ask in asks), os.path.isfile('other.yaml'))",
        {},
        (True, True, False, UNKNOWN),
    ),
    "the rest of the words": ("lib.call(args.rest)", {}, ["a.b", "2"]),
    "a path": ("lib.call(str(args.out / 'x'))", {}, "o/x"),
    "the program's own words": ("import sys\nlib.call(sys.argv[0])", {}, "train.py"),
}
DOCUMENTS = {
    "configs/small.py": {"cfg": {"a": "runs/a"}},
    "own.yaml": {"_BASE_": "base.yaml", "b": 3},
    "base.yaml": {"a": 1, "b": 2},
}


@pytest.mark.parametrize("name", FILES)
def test_what_words_name_is_read(program: ReadProgram, name: str) -> None:
    text, others, wanted = FILES[name]
    parser = """
        import argparse
        import lib
        from pathlib import Path
        parser = argparse.ArgumentParser()
        parser.add_argument("--name", default="one")
        parser.add_argument("--file", default="configs/small.py")
        parser.add_argument("--out", type=Path)
        parser.add_argument("rest", nargs=argparse.REMAINDER)
        args = parser.parse_args()
    """
    words = ("--out", "o", "a.b", "2")
    world = RankWorld(0, 0, 16, 8, 8, words, variables_of_torchrun(16, 8, 0), "torchrun")
    read = program(dedent(parser) + text, **others)
    run = run_rank(read, world, lambda name: DOCUMENTS.get(name or ""))
    assert given(run) == [wanted]


def test_a_class_of_the_program_calls_that_of_the_library_above_it(program: ReadProgram) -> None:
    text = """
        class Pictures(lib.Folder):
            def __init__(self, root):
                super().__init__(root, deep=True)
        class Others(lib.Folder): ...
        Pictures("a")
        Others("b")
    """
    made = [(each.args, each.keywords) for each in run_of(program, text).calls("lib.Folder")]
    assert made == [(("a",), {"deep": True}), (("b",), {})]


def test_options_of_a_trainer_are_given_to_it(program: ReadProgram) -> None:
    text = """
        import argparse
        from pytorch_lightning import Trainer
        parser = Trainer.add_argparse_args(argparse.ArgumentParser())
        Trainer.from_argparse_args(parser.parse_args(), max_epochs=3)
    """
    (made,) = run_of(program, text, ["--gpus", "8", "--max_epochs", "9"]).calls("lightning.pytorch.Trainer")
    assert made.keywords == {"gpus": "8", "max_epochs": 3}


def test_a_parser_that_refuses_the_words_ends_the_process(program: ReadProgram) -> None:
    run = run_of(program, OPTIONS, ["--number", "many"])
    assert isinstance(run.ended_by, ProcessEnded)
    assert given(run) == []


def test_an_error_that_nobody_catches_is_kept_and_the_run_goes_on(program: ReadProgram) -> None:
    run = run_of(program, "raise ValueError('no')\nlib.call(1)")
    assert (str(run.ended_by), given(run)) == ("ValueError", [1])


def test_a_call_is_made_as_it_is_written_and_known_where_it_is_indexed(program: ReadProgram) -> None:
    """Rules ask of the nodes of the index, which writes out what a call unpacks."""
    read = program("import lib\nfound = {'a': 1, 'b': 2}\nlib.call(**{'c': found.pop('a')}, **found)\n")
    run = run_rank(read, RankWorld(0, 0, 1, 1, 1, (), {}, "torchrun"))
    (event,) = run.calls("lib.call")
    assert event.keywords == {"c": 1, "b": 2}
    assert event.node in read.entry.calls


def test_a_function_that_python_calls_is_called_where_python_is_asked(program: ReadProgram) -> None:
    read = program("import lib\nlist(map(lib.call, [1, 2]))\n")
    run = run_rank(read, RankWorld(0, 0, 1, 1, 1, (), {}, "torchrun"))
    assert given(run) == [1, 2]
    assert {each.node.lineno for each in run.calls("lib.call")} == {2}


HOSTILE = {
    "a function that calls itself": "def f(n): return f(n + 1)\nlib.call(f(0))",
    "functions that call each other": "def f(n): return g(n)\ndef g(n): return f(n) + f(n)\nlib.call(f(0))",
    "a tower of powers": "lib.call(10**10**10)",
    "a number that is squared again and again": "x = 3\nfor i in [1] * 60: x = x * x\nlib.call(x)",
    "a number that is shifted": "lib.call(1 << 10**10, round(15, -10**10))",
    "a number of many digits": (
        "import json\nlib.call(int('9' * 4000), json.loads('9' * 4000), int(float('inf')))"
    ),
    "a list that doubles": "a = [1]\nfor i in [1] * 60: a = a + a\nlib.call(a)",
    "a list that takes itself": "a = [1]\nfor i in [1] * 60: a.extend(a)\nlib.call(len(a))",
    "a list in a list": "a = []\na.append(a)\nlib.call(str(a), a == a, sorted(a))",
    "lists of lists": "a, b = [], []\nfor i in [1] * 60: a, b = [a, a], [b, b]\nlib.call(a == b, b in [a])",
    "a list that grows as it is gone through": "a = [1]\nfor x in a: a.append(x)\nlib.call(len(a))",
    "a dictionary in itself": "import copy\nd = {}\nd['d'] = d\nlib.call(f'{copy.deepcopy(d)}', d == d)",
    "a long text": "lib.call('a' * 10**9, 10**9 * 'a', b'a' * 10**9)",
    "a text that doubles": "a = 'ab'\nfor i in [1] * 60: a = f'{a}{a}' + a.join([a] * 9)\nlib.call(a)",
    "a text that is put into itself": "a = 'a' * 500\nfor i in [1] * 60: a = a.replace('a', a)\nlib.call(a)",
    "a path that doubles": (
        "from pathlib import Path\np = Path('a')\nfor i in [1] * 60: p = p / p\nlib.call(p)"
    ),
    "wide formats": (
        "w = '999999999'\nlib.call(f'{1:1000000000}', '%1000000000d' % 1)\n"
        "lib.call(f'{1:{w}}', '{:>99999999}'.format(1))"
    ),
    "a long range": "lib.call(list(range(10**12)), sum(range(10**12)), 5.5 in range(10**12))",
    "a loop without an end": "while True:\n    lib.call(1)",
    "loops in loops": "\n".join("  " * i + f"for i{i} in [1] * 60:" for i in range(8)) + " lib.call(1)",
    "a comprehension of many loops": "lib.call([1 for a in [1] * 500 for b in [1] * 500 for c in [1] * 500])",
    "tests in tests": (
        "def f0(): lib.call(1)\n"
        + "".join(f"def f{i}():\n    if lib.x: f{i - 1}()\n    else: f{i - 1}()\n" for i in range(1, 30))
        + "f29()"
    ),
    "calls of calls": (
        "def f0(): lib.call(1)\n"
        + "".join(f"def f{i}():\n    f{i - 1}()\n    f{i - 1}()\n" for i in range(1, 38))
        + "f37()"
    ),
    "choices of choices": "f = [lambda: f[lib.x](), lambda: f[lib.y](), lambda: f[lib.z]()]\nf[lib.w]()",
    "a class that is its own base": "class A: pass\nclass A(A): pass\nA.__bases__ = (A,)\nlib.call(A().x)",
    "many ways to a class": (
        "class A: pass\nclass B: pass\n"
        + "class C(A, B): pass\nclass D(A, B): pass\nA, B = C, D\n" * 99
        + "lib.call(A().x)"
    ),
    "an object that gives itself": "class A:\n    def __iter__(self): return A()\nlib.call(list(A()))",
    "an object that asks itself": (
        "class A:\n    def __getattr__(self, n): return getattr(self, n)\n"
        "    def __bool__(self): return bool(A())\n    def __str__(self): return f'{self}'\n"
        "if A(): lib.call(A().x, str(A()))"
    ),
    "a context manager that enters itself": (
        "import contextlib\n@contextlib.contextmanager\ndef c():\n    with c():\n        yield\n"
        "with c(): lib.call(1)"
    ),
    "a long sum": "lib.call(" + " + ".join(["1"] * 900) + ")",
    "a long chain of attributes": "lib" + ".a" * 900 + ".call(1)",
    "what Python refuses": (
        "lib.call([1, 2][::0], 'a'.split(''), range(1, 2, 0), len(), dict(1))\n"
        "lib.call({[]: 1}, {1, [2]}, {}.get([]), sorted([1, 'a']))"
    ),
    "parsers that Python refuses": (
        "import argparse\np = argparse.ArgumentParser(parents=[1])\np.add_argument()\n"
        "p.add_argument('--a', nargs=-5)\np.add_argument('--b', choices=5)\ns = p.add_subparsers()\n"
        "p.add_subparsers()\ns.add_parser('x')\ns.add_parser('x')\nlib.call(p.parse_args([1]))"
    ),
    "names that are taken away": "del x\ndel lib\nlib.call(1)\na, b = 1, 2, 3\n(c, *d) = 5",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_program_ends(program: ReadProgram, name: str) -> None:
    """Whole or not: without an error of the run itself, in steps that are counted."""
    run = run_of(program, HOSTILE[name])
    assert run.is_whole or run.ended_by is None


def test_a_run_of_too_many_steps_is_not_whole(program: ReadProgram) -> None:
    assert not run_of(program, HOSTILE["calls of calls"]).is_whole


CLICK = """
    import click

    class Listed(click.ParamType):
        def convert(self, value, param, ctx):
            return value.split(",")

    @click.command()
    @click.pass_context
    @click.option("--gpus", "-g", type=int, default=1)
    @click.option("--out", required=True)
    @click.option("--names", type=Listed())
    @click.option("--mirror", type=bool)
    @click.option("--fast/--slow", default=True)
    @click.option("--dry", is_flag=True)
    @click.option("--size", multiple=True, type=float)
    @click.option("--box", nargs=2, type=int)
    @click.option("-v", count=True)
    @click.option("--rate", default=0.5)
    @click.option("--lr", "learning_rate", type=click.FLOAT)
    def main(ctx, **options):
        lib.call(options[{asked!r}])

    main()
"""


@pytest.mark.parametrize(
    ("asked", "words", "wanted"),
    [
        ("gpus", ["--gpus=8"], 8),
        ("gpus", ["-g", "4"], 4),
        ("gpus", [], 1),
        ("out", ["--out", "runs"], "runs"),
        ("out", [], UNKNOWN),
        ("names", ["--names", "a,b"], ["a", "b"]),
        ("names", [], None),
        ("mirror", ["--mirror=1"], True),
        ("mirror", ["--mirror=no"], False),
        ("fast", ["--slow"], False),
        ("fast", [], True),
        ("dry", ["--dry"], True),
        ("dry", [], False),
        ("size", ["--size", "1", "--size", "2.5"], (1.0, 2.5)),
        ("size", [], ()),
        ("box", ["--box", "3", "4"], (3, 4)),
        ("v", ["-vv"], 2),
        ("rate", ["--rate", "0.25"], 0.25),
        ("learning_rate", ["--lr", "0.1"], 0.1),
    ],
)
def test_options_of_click_have_the_values_of_the_words(
    program: ReadProgram, asked: str, words: list[str], wanted: object
) -> None:
    assert given(run_of(program, CLICK.replace("{asked!r}", repr(asked)), words)) == [wanted]


def test_a_word_that_click_refuses_ends_the_run(program: ReadProgram) -> None:
    run = run_of(program, CLICK.replace("{asked!r}", "'gpus'"), ["--gpus", "many"])
    assert isinstance(run.ended_by, ProcessEnded) and given(run) == []


@pytest.mark.parametrize(
    ("words", "wanted"),
    [((), 1), (("--config", "base.yaml"), 3), (("--config", "base.yaml", "--a", "7"), 7), (("--c", "x"), 1)],
)
def test_configuration_files_are_the_defaults_of_configargparse(
    program: ReadProgram, words: tuple[str, ...], wanted: int
) -> None:
    text = """
        import configargparse
        import lib
        parser = configargparse.ArgParser()
        parser.add("--c", is_config_file=True) if False else None
        parser.add_argument("--config", is_config_file=True)
        parser.add_argument("--a", type=int, default=1)
        lib.call(parser.parse_known_args()[0].a)
    """
    world = RankWorld(0, 0, 16, 8, 8, words, variables_of_torchrun(16, 8, 0), "torchrun")
    run = run_rank(program(dedent(text)), world, lambda name: {"base.yaml": {"a": 3}}.get(name or ""))
    assert given(run) == [wanted]


def test_a_program_that_starts_itself_again_is_followed(program: ReadProgram) -> None:
    text = """
        import subprocess, sys
        if "--rank" not in sys.argv:
            for rank in range(2):
                subprocess.Popen([sys.executable, *sys.argv, "--rank", str(rank)])
        else:
            lib.call(sys.argv[1:])
    """
    assert given(run_of(program, text, ["--epochs", "3"])) == [["--epochs", "3", "--rank", "0"]]


@pytest.mark.parametrize(
    ("rank", "start", "wanted"),
    [
        (
            3,
            "'-m', 'torch.distributed.launch', '--nproc_per_node', '4',",
            [("0", "4", ["--local_rank=0", "a"])],
        ),
        (3, "'-m', 'torch.distributed.launch', '--nproc_per_node=2', '--use_env',", [("0", "2", ["a"])]),
        (3, "'-m', 'torch.distributed.run',", [("0", "1", ["a"])]),
        (3, "", [("3", "16", ["a"])]),
    ],
)
def test_a_program_that_starts_a_launcher_gets_what_that_tells(
    program: ReadProgram, rank: int, start: str, wanted: list[object]
) -> None:
    text = f"""
        import os, subprocess, sys
        if sys.argv[1:] == ["begin"]:
            subprocess.run([sys.executable, {start} "train.py", "a"])
        else:
            lib.call(os.environ["RANK"], os.environ["WORLD_SIZE"], sys.argv[1:])
    """
    assert given(run_of(program, text, ["begin"], rank)) == wanted


def test_a_call_that_takes_most_of_the_steps_is_passed_over(program: ReadProgram) -> None:
    text = """
        def tokens():
            return [[a + b for a in range(60) for b in range(60)] for _ in range(60)]
        tokens()
        lib.call("behind")
    """
    run = run_of(program, text)
    assert run.is_whole and given(run) == ["behind"]
    assert run.skips_calls and not run_of(program, "lib.call()").skips_calls


@pytest.mark.parametrize(
    ("gone", "wanted"),
    [("torch._six", ["new"]), ("torch.other", ["old"])],
)
def test_a_try_that_is_ready_for_a_name_that_is_gone_is_left(
    program: ReadProgram, gone: str, wanted: list[object]
) -> None:
    text = """
        import lib
        try:
            from torch._six import inf
            lib.call("old")
        except ImportError:
            lib.call("new")
    """
    world = RankWorld(0, 0, 16, 8, 8, (), variables_of_torchrun(16, 8, 0), "torchrun")
    run = run_rank(program(dedent(text)), world, is_gone=lambda name: name == gone)
    assert given(run) == wanted


@pytest.mark.parametrize(
    ("asked", "words", "wanted"),
    [
        ("--checkpoint-dir", [], "checkpoints"),
        ("--checkpoint-dir", ["--checkpoint-dir=runs"], "runs"),
        ("--checkpoint", [], None),
        ("--checkpoint", ["--checkpoint", "last.pth"], "last.pth"),
        ("--fast", ["--fast"], True),
        ("--fast", [], False),
        ("<data>", [], UNKNOWN),
    ],
)
def test_docopt_takes_options_from_the_text_of_usage(
    program: ReadProgram, asked: str, words: list[str], wanted: object
) -> None:
    text = f'''"""Training.

    usage: train.py [options] <data>

    options:
        -o, --checkpoint-dir=<dir>  Where to save [default: checkpoints].
        --checkpoint=<path>         Where to begin.
        --fast                      Leave out what takes time.
        -h, --help                  Show this.
    """
import lib
from docopt import docopt
lib.call(docopt(__doc__)[{asked!r}])
'''
    variables = variables_of_torchrun(16, 8, 0)
    run = run_rank(program(text), RankWorld(0, 0, 16, 8, 8, tuple(words), variables, "torchrun"))
    assert given(run) == [wanted]
