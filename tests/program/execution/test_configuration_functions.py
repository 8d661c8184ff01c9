"""What a program with hydra is given: the configuration of its files and words, and what is made of it.

The configurations are those that hydra-core 1.3.8 composes of these files, where another version is named
those of 0.11.3 and 1.0.7.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from textwrap import dedent
from typing import Any

import pytest

from launcher.program.execution.objects import OPEN, OWN, CallMade, RankWorld, Symbol
from launcher.program.execution.ranks import RankRun, run_rank, variables_of_torchrun
from launcher.program.surroundings.hydra_configurations import value_of_word
from launcher.rules.script.configuration_files import ConfigurationFiles
from tests.program.conftest import ReadProgram

Files = Mapping[str, str]
UNKNOWN = "?"
"""Stands for what nobody knows."""
MAIN = '@hydra.main(config_path="conf", config_name="config", version_base="1.3")'


def run_of(
    program: ReadProgram, text: str, files: Files, words: Sequence[str] = (), version: str = ""
) -> RankRun:
    """The run of a program with the files below its folder `conf`."""
    named = {f"conf/{name}.yaml": dedent(each) for name, each in files.items()}
    read = program("import hydra, lib\n" + dedent(text), **named)
    found = read.analysis(ConfigurationFiles)
    versions = {"hydra-core": version} if version else {}
    variables = variables_of_torchrun(16, 8, 1)
    world = RankWorld(1, 1, 16, 8, 8, tuple(words), variables, "torchrun", versions.get)
    return run_rank(read, world, found.document, found.packaged)


def plain(value: Any) -> Any:
    """A value with a sign for what is open in it."""
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return UNKNOWN if isinstance(value, Symbol) else value


def given(run: RankRun) -> list[Any]:
    """What `lib.call` is given, one argument alone without its list."""
    found = [plain(each.args) for each in run.calls("lib.call")]
    return [each[0] if len(each) == 1 else each for each in found]


def composed(
    program: ReadProgram, files: Files, words: Sequence[str] = (), main: str = MAIN, version: str = ""
) -> Any:
    """The configuration that the function is given."""
    text = f"{main}\ndef main(cfg): lib.call(cfg)\nmain()"
    return given(run_of(program, text, files, words, version))[0]


DB = {"db/mysql": "host: h\nport: 2\n", "db/pg": "host: p\nport: 3\n"}
LISTED = "defaults:\n  - db: mysql\n"

CONFIGURATIONS: dict[str, tuple[Files, Sequence[str], Any]] = {
    "a file alone": ({"config": "a: 1e-3\nb: {c: x}"}, [], {"a": 0.001, "b": {"c": "x"}}),
    "words that change, add and take away": (
        {"config": "a: 1\nb: {c: x, d: [1, 2]}\n"},
        ["b.c=y", "+e=1e-3", "++a=true", "b.d.1=5", "~b.none", "+f.g=[1,{h: null}]"],
        {"a": True, "b": {"c": "y", "d": [1, 5]}, "e": 0.001, "f": {"g": [1, {"h": None}]}},
    ),
    "the option of a group, before the file itself": (
        {"config": LISTED + "  - _self_\ndb: {port: 1}\n", **DB},
        ["db=pg"],
        {"db": {"host": "p", "port": 1}},
    ),
    "the option of a group, behind the file": (
        {"config": "defaults:\n  - _self_\n  - db: mysql\ndb: {port: 1}\n", **DB},
        [],
        {"db": {"host": "h", "port": 2}},
    ),
    "a file that does not say where it stands": (
        {"config": LISTED + "db: {port: 1}\n", **DB},
        [],
        {"db": {"host": "h", "port": 1}},
    ),
    "an experiment that changes another choice": (
        {
            "config": "defaults: [model: a, _self_, experiment: null]\n",
            "model/a": "n: 1\n",
            "model/b": "n: 2\nm: 3\n",
            "experiment/x": "# @package _global_\ndefaults: [override /model: b]\nmodel: {n: 9}\n",
        },
        ["experiment=x"],
        {"model": {"n": 9, "m": 3}},
    ),
    "an experiment of another one, that a word adds": (
        {
            "config": "a: 1\n",
            "experiment/base": "# @package _global_\nseed: 1\na: 2\n",
            "experiment/x": "# @package _global_\ndefaults: [base]\nseed: 3\n",
        },
        ["+experiment=x"],
        {"a": 2, "seed": 3},
    ),
    "groups in a group, and the word for one": (
        {
            "config": "defaults: [model: a, _self_]\n",
            "model/a": "defaults: [act: relu, base, _self_]\nw: 1\n",
            "model/base": "depth: 4\nw: 0\n",
            "model/act/relu": "slope: 0\n",
            "model/act/leaky": "slope: 0.1\n",
        },
        ["model/act=leaky", "model.depth=5"],
        {"model": {"act": {"slope": 0.1}, "depth": 5, "w": 1}},
    ),
    "packages that a list says": (
        {"config": "defaults: [db@src: mysql, db@dst: pg, _self_]\n", **DB},
        ["db@dst=mysql"],
        {"src": {"host": "h", "port": 2}, "dst": {"host": "h", "port": 2}},
    ),
    "the package that a file says": (
        {"config": "defaults: [opt: adam]\n", "opt/adam": "# @package train.optim\nlr: 1\n"},
        ["train.optim.lr=3"],
        {"train": {"optim": {"lr": 3}}},
    ),
    "what is optional, and named by other choices": (
        {
            "config": "defaults: [db: pg, optional local: none, optional of: '${db}']\n",
            **DB,
            "of/pg": "# @package _global_\ndb: {port: 7}\n",
        },
        [],
        {"db": {"host": "p", "port": 7}},
    ),
    "several options, and an empty one": (
        {"config": "defaults: [cb: [a, none], _self_]\n", "cb/a": "a: 1\n", "cb/none": "# nothing\n"},
        [],
        {"cb": {"a": 1}},
    ),
    "a choice that is taken away": ({"config": LISTED + "  - _self_\na: 1\n", **DB}, ["~db"], {"a": 1}),
    "what is missing": (
        {"config": "defaults: [base, _self_]\na: ???\nb: ???\nc: ???\n", "base": "a: 1\n"},
        ["b=2"],
        {"a": 1, "b": 2, "c": UNKNOWN},
    ),
    "interpolations": (
        {
            "config": """
            root: /data
            a: {x: "${root}/y", z: "${.x}/z", k: "${..root}"}
            l: ["${root}", 2]
            i: "${l[1]}"
            d: "${a}"
            e: "${oc.env:NOT_SET,fallback}"
            f: "${oc.env:${name}}"
            name: LOCAL_RANK
            g: ${env:LOCAL_RANK}
            h: ${hydra:runtime.cwd}/data
            o: "${nothing.there}"
            """
        },
        ["root=/fsx"],
        {
            "root": "/fsx",
            "a": {"x": "/fsx/y", "z": "/fsx/y/z", "k": "/fsx"},
            "l": ["/fsx", 2],
            "i": 2,
            "d": {"x": "/fsx/y", "z": "/fsx/y/z", "k": "/fsx"},
            "e": "fallback",
            "f": "1",
            "name": "LOCAL_RANK",
            "g": 1,
            "h": "/opt/ml/code/data",
            "o": UNKNOWN,
        },
    ),
    "a text that may be a switch": ({"config": "a: on\n"}, [], {"a": UNKNOWN}),
    "an option that is not there": ({"config": LISTED, **DB}, ["db=oracle"], UNKNOWN),
    "a file that is not there": ({}, [], UNKNOWN),
    "a group without a choice": ({"config": "defaults: [db: ???]\na: 1\n", **DB}, [], UNKNOWN),
    "a circle of lists": (
        {"config": "defaults: [a]\n", "a": "defaults: [b]\n", "b": "defaults: [a]\n"},
        [],
        UNKNOWN,
    ),
    "lists that double": (
        {"config": "defaults: [a0, a0@x]\n"}
        | {f"a{n}": f"defaults: [a{n + 1}, a{n + 1}@x]\n" for n in range(12)}
        | {"a12": "k: 1\n"},
        [],
        UNKNOWN,
    ),
    "interpolations in a circle": ({"config": "a: ${b}\nb: ${a}\n"}, [], {"a": UNKNOWN, "b": UNKNOWN}),
}


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_a_function_gets_the_configuration_that_hydra_composes(program: ReadProgram, name: str) -> None:
    files, words, wanted = CONFIGURATIONS[name]
    assert composed(program, files, words) == wanted


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("3", 3),
        ("-1_000", -1000),
        (".5", 0.5),
        ("1e5", 1e5),
        ("010", "010"),
        ("True", True),
        ("null", None),
        ("", ""),
        ("s3://x/y.z", "s3://x/y.z"),
        ("'a,b'", "a,b"),
        (r"'a\'b'", "a'b"),
        ("[[1,2],[x,'y z']]", [[1, 2], ["x", "y z"]]),
        ("{a:1,b:{c:d}}", {"a": 1, "b": {"c": "d"}}),
        ("[]", []),
        ("${a.b}", "${a.b}"),
        ("1,2", "???"),
        ("choice(1,2)", "???"),
        ("[" * 100 + "]" * 100, "???"),
    ],
)
def test_values_of_words_are_read_as_hydras_grammar_has_it(text: str, wanted: Any) -> None:
    found = value_of_word(text)
    assert (found, type(found)) == (wanted, type(wanted))


OF_ITS_TIME = {"config": LISTED + "db: {port: 1}\nhost: x\n", **DB}


@pytest.mark.parametrize(
    ("main", "version", "wanted"),
    [
        # Until 1.0 the list holds before the file, and a file without a package stands at the top.
        ('@hydra.main(config_path="conf/config.yaml")', "0.11", {"db": {"port": 1}, "host": "h", "port": 2}),
        ('@hydra.main(config_path="conf", config_name="config")', "1.0", "as above"),
        ('@hydra.main(config_path="conf/config.yaml")', "", "as above"),
        (MAIN, "", {"db": {"host": "h", "port": 1}, "host": "x"}),
        # Nobody knows which of both holds.
        (
            '@hydra.main(config_path="conf", config_name="config")',
            "",
            {"db": {"host": "h", "port": UNKNOWN}, "host": "x"},
        ),
    ],
)
def test_older_versions_compose_in_another_order(
    program: ReadProgram, main: str, version: str, wanted: Any
) -> None:
    of_old = {"db": {"port": 1}, "host": "h", "port": 2}
    found = composed(program, OF_ITS_TIME, main=main, version=version)
    assert found == (of_old if wanted == "as above" else wanted)


def test_words_name_another_file_and_another_folder(program: ReadProgram) -> None:
    files = {"config": "a: 1\n", "other": "a: 2\n", "more/config": "a: 3\n"}
    assert composed(program, files, ["--config-name", "other"]) == {"a": 2}
    assert composed(program, files, ["--config-name=other", "--a=4"]) == {"a": 4}
    assert composed(program, files, ["--config-path", "conf/more"]) == {"a": 3}


def test_a_program_composes_itself(program: ReadProgram) -> None:
    text = """
    with hydra.initialize(config_path="conf", version_base=None):
        cfg = hydra.compose(config_name="config", overrides=["db=pg", "db.port=9"])
    lib.call(cfg.db.host, cfg["db"]["port"], cfg.get("none"))
    """
    assert given(run_of(program, text, {"config": LISTED, **DB})) == [["p", 9, None]]


STORED = """
from dataclasses import dataclass, field
from hydra.core.config_store import ConfigStore
from omegaconf import MISSING, OmegaConf

@dataclass
class Adam:
    lr: float = 0.1
    betas: list = field(default_factory=lambda: [0.9, 0.99])

@dataclass
class Config:
    defaults: list = field(default_factory=lambda: ["_self_", {"optim": "adam"}])
    epochs: int = 3
    folder: str = MISSING
    optim: object = MISSING

store = ConfigStore.instance()
store.store(name="config", node=Config)
store.store(group="optim", name="adam", node=Adam)

@hydra.main(config_path=None, config_name="config", version_base="1.3")
def main(cfg):
    OmegaConf.update(cfg, "more.x", 1)
    lib.call(OmegaConf.to_container(cfg), OmegaConf.select(cfg, "optim.lr"))

main()
"""


def test_a_configuration_may_be_of_classes_that_are_stored(program: ReadProgram) -> None:
    optim = {"lr": 0.2, "betas": [0.9, 0.99]}
    wanted = {"epochs": 3, "folder": UNKNOWN, "optim": optim, "more": {"x": 1}}
    assert given(run_of(program, STORED, {}, ["optim.lr=0.2"])) == [[wanted, 0.2]]


INSTANTIATED = """
from hydra.utils import get_class, get_original_cwd, instantiate, to_absolute_path

class Net:
    def __init__(self, width, act=None, depth=1):
        self.width, self.act, self.depth = width, act, depth

def double(x):
    return 2 * x
{main}
def main(cfg):
    net = instantiate(cfg.net, depth=4)
    lib.call(net.width, net.act, net.depth, instantiate(cfg.half)(x=5), get_class("train.Net") is Net)
    instantiate(cfg.loader, dataset=[1])
    lib.call(get_original_cwd(), to_absolute_path("data"), to_absolute_path("/data"))

main()
"""

TARGETS = """
net: {_target_: train.Net, width: "${width}", act: {_target_: train.double, x: 3}}
half: {_target_: train.double, _partial_: true}
loader: {_target_: torch.utils.data.DataLoader, num_workers: 8, _convert_: all}
width: 16
"""


def test_what_an_entry_names_is_called_with_its_other_entries(program: ReadProgram) -> None:
    run = run_of(program, INSTANTIATED.replace("{main}", MAIN), {"config": TARGETS}, ["width=32"])
    assert given(run) == [
        [32, 6, 4, 10, True],
        ["/opt/ml/code", "/opt/ml/code/data", "/data"],
    ]
    [loader] = run.calls("torch.utils.data.DataLoader")
    assert (loader.keywords, loader.args) == ({"num_workers": 8, "dataset": [1]}, ())


FOLDERS = f"/opt/ml/code/outputs/{OWN}"


@pytest.mark.parametrize(
    ("main", "config", "words", "folder"),
    [
        (MAIN, "a: 1", [], "/opt/ml/code"),
        (MAIN.replace('"1.3"', "None"), "a: 1", [], "/opt/ml/code"),
        (MAIN.replace('"1.3"', '"1.1"'), "a: 1", [], FOLDERS),
        (MAIN.replace(', version_base="1.3"', ""), "a: 1", [], FOLDERS),
        (MAIN, "a: 1", ["hydra.job.chdir=true"], FOLDERS),
        (MAIN.replace(', version_base="1.3"', ""), "hydra: {job: {chdir: false}}", [], "/opt/ml/code"),
        (MAIN, "hydra: {job: {chdir: true}, run: {dir: '/fsx/${a}'}}\na: b", [], "/fsx/b"),
        (MAIN, "a: 1", ["hydra.job.chdir=true", "hydra.run.dir=."], "/opt/ml/code"),
        (MAIN, "hydra: {job: {chdir: true}, run: {dir: '${nobody}'}}", [], OPEN),
    ],
)
def test_older_bases_change_into_the_folder_of_the_output(
    program: ReadProgram, main: str, config: str, words: list[str], folder: str
) -> None:
    text = (
        f"import os\n{main}\ndef main(cfg): lib.call(os.getcwd(), os.path.abspath('x'))\n"
        "main()\nlib.call(os.getcwd())"
    )
    run = run_of(program, text, {"config": config}, words)
    assert given(run) == [[folder, f"{folder}/x"], "/opt/ml/code"]
    events: list[CallMade] = [*run.calls("lib.call")]
    assert [each.folder for each in events] == [folder, "/opt/ml/code"]


HOSTILE: dict[str, Files] = {
    "texts that double": {
        "config": "a0: xxxxxxxx\n" + "".join(f"a{n}: ${{a{n - 1}}}${{a{n - 1}}}\n" for n in range(1, 60))
    },
    "entries that double": {
        "config": "a0: {x: 1}\n"
        + "".join(f"a{n}: {{x: '${{a{n - 1}}}', y: '${{a{n - 1}}}'}}\n" for n in range(1, 60))
    },
    "an entry of itself": {"config": "a: {b: '${a}', c: '${.b}'}\n"},
    "a long list": {"config": f"a: [{', '.join(['1'] * 4000)}]\n"},
    "lists of wrong things": {"config": "defaults: [1, [2], {}, {a: {b: 1}}, null, {'': x}, '', '@', ???]\n"},
    "an entry for the list": {"config": "defaults: 5\n"},
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_configuration_ends(program: ReadProgram, name: str) -> None:
    text = f"{MAIN}\ndef main(cfg): lib.call(1)\nmain()"
    run = run_of(program, text, HOSTILE[name], ["a.b.c.d=1", "~x.y", "=", "+=1", "a[0]=1", "b=" + "[{" * 300])
    assert given(run) == [1]
    assert run.is_whole


def test_a_program_that_composes_without_end_has_too_many_steps(program: ReadProgram) -> None:
    text = """
    hydra.initialize(config_path="conf", version_base=None)
    for a in range(3):
        for b in [*"abcdefghijklmnopqrstuvwxyz"]:
            for c in [*"abcdefghijklmnopqrstuvwxyz"]:
                hydra.compose("config")
    """
    large = "\n".join(f"k{number}: {number}" for number in range(2000))
    files = {"config": f"defaults: [{', '.join(['a'] * 100)}]\n", "a": large}
    assert not run_of(program, text, files).is_whole
