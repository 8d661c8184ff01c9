"""What the rules judge together, what stands above them, and which findings configuration accepts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.failure_modes.registry import registered
from launcher.program.execution.ranks import RankRun
from launcher.program.program import Program, read_program
from launcher.program.surroundings.options import is_registered_and_not_taken
from launcher.rules.script import check
from launcher.rules.script.acceptance import (
    Configurations,
    LintConfiguration,
    is_code_among,
    read_configuration,
)
from launcher.rules.script.check import (
    JOB_RULES,
    RULES,
    RUN_RULES,
    RuleDescription,
    check_program,
    descriptions_of,
    rule_descriptions,
    unread_finding,
)
from launcher.rules.script.runs.rank_runs import RankRuns
from launcher.session.lint_scripts import TakesTooLongError, lint
from launcher.session.prepare_plan import JobSource, prepare, read_job
from tests.program.conftest import ReadProgram, program

RULES_ROOMS = ("launcher.rules.script.", "launcher.rules.training_compiler.")
NO_RULES = ("launcher.rules.script.check.", "launcher.rules.script.acceptance.")
"""What these find is about the judging itself."""


def test_every_registered_rule_is_called_once() -> None:
    listed = [*RULES, *JOB_RULES, *RUN_RULES]
    registered_rules = {
        each.function
        for each in registered()
        if each.stage is Stage.SCRIPT
        and each.name.startswith(RULES_ROOMS)
        and not each.name.startswith(NO_RULES)
    }
    assert set(listed) == registered_rules
    assert len(listed) == len(set(listed))


@pytest.mark.parametrize(
    ("name", "severity"),
    [
        ("train.py", Severity.ERROR),
        ("test_train.py", Severity.INFO),
        ("train_test.py", Severity.INFO),
        ("latest.py", Severity.ERROR),
        ("tests/training/lora.py", Severity.INFO),
        ("training/lora.py", Severity.ERROR),
    ],
)
@pytest.mark.parametrize("checkout", [".", "tests", "test/of/mine"])
def test_a_test_is_for_one_host_wherever_its_project_lies(
    tmp_path: Path, checkout: str, name: str, severity: Severity
) -> None:
    root = tmp_path / checkout
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(
        'import torch.distributed as dist\ndist.init_process_group("nccl")\n'
        'dist.init_process_group("nccl", init_method="tcp://10.0.0.1:23456")\n'
    )
    program = read_program(root / name, root)
    assert isinstance(program, Program)
    found = {each.severity for each in check_program(program) if each.code == "DIST006"}
    assert found == {severity}


__all__ = ["program"]

TRAINING = """
import torch
import torch.distributed as dist

def start():
    dist.init_process_group("nccl")
    torch.cuda.set_device(dist.get_rank() % 8)

def train(model):
    start()
    torch.save(model.state_dict(), "model.pt")

def log(text):
    if dist.get_rank() == 0:
        dist.barrier()

def load(path):
    return torch.load(path, map_location="cpu", weights_only=True)

class Trainer:
    def __init__(self):
        start()

if __name__ == "__main__":
    train(None)
"""

CONVERT = """
import torch
import training
from training import load, log
torch.save(load("model.pt")["model"], "bare.pt")
"""


def told(program: ReadProgram, text: str, training: str = TRAINING) -> list[str]:
    found = list(check_program(program(text, **{"training.py": training})))
    return sorted(each.code for each in found if each.code in ("CKPT008", "DDP004"))


def test_a_converter_that_shares_a_module_with_the_training_is_one_process(program: ReadProgram) -> None:
    assert told(program, CONVERT) == []


@pytest.mark.parametrize(
    "line",
    [
        "training.start()",
        "begin = training.start\nbegin()",
        "from training import start as begin\nbegin()",
        "training.Trainer()",
        "getattr(training, 'start')()",
        "import sys\nrun = {'train': training.start}[sys.argv[1]]\nrun()",
        "class Mine(training.Trainer):\n    pass",
        "import accelerate",
    ],
)
def test_it_is_judged_as_several_where_it_may_come_to_the_start(program: ReadProgram, line: str) -> None:
    assert told(program, CONVERT + line) == ["CKPT008"]


@pytest.mark.parametrize(
    "change",
    [
        ("def start", "start_all = register('start')\n@start_all\ndef start"),
        ("def train(", "start()\ndef train("),
        ("def train(", "if dist.is_available():\n    start()\ndef train("),
        ("def train(", "try:\n    start()\nexcept OSError:\n    start()\ndef train("),
        ("def train(", "MODES = register({'start': start})\ndef train("),
    ],
)
def test_what_a_shared_module_may_start_by_itself_counts(
    program: ReadProgram, change: tuple[str, str]
) -> None:
    assert told(program, CONVERT, TRAINING.replace(*change, 1)) == ["CKPT008"]


@pytest.mark.parametrize(
    ("change", "line"),
    [
        (("def start", "@REGISTRY.add\ndef start"), "print(training.REGISTRY)"),
        (("def train(", "REGISTRY.add(start)\ndef train("), "print(training.REGISTRY)"),
        (("def train(", "MODES = {'start': start}\ndef train("), "print(training.MODES)"),
    ],
)
def test_a_registry_is_come_to_where_it_is_read(
    program: ReadProgram, change: tuple[str, str], line: str
) -> None:
    training = TRAINING.replace(*change, 1)
    assert told(program, CONVERT, training) == []
    assert told(program, CONVERT + line, training) == ["CKPT008"]


def test_a_shared_function_is_judged_in_the_program_that_calls_it(program: ReadProgram) -> None:
    start = CONVERT + "training.start()\n"
    assert told(program, start) == ["CKPT008"]
    assert told(program, start + "log('done')\n") == ["CKPT008", "DDP004"]


def test_the_main_guard_of_a_module_is_for_the_program_that_it_starts(program: ReadProgram) -> None:
    guard = TRAINING.replace("    train(None)", "    if dist.get_rank() == 0:\n        dist.barrier()")
    assert told(program, "import training\ntraining.start()\n", guard) == []
    assert told(program, guard, "") == ["DDP004", "DDP004"]


def test_a_function_that_only_such_a_guard_calls_is_not_run(program: ReadProgram) -> None:
    line = "training.start()\nif 'train' == input():\n    print()\n"
    assert told(program, CONVERT + line) == ["CKPT008"]
    assert told(program, CONVERT + line + "training.train(None)\n") == ["CKPT008", "CKPT008"]


def test_the_functions_of_the_entry_are_judged_whoever_calls_them(program: ReadProgram) -> None:
    functions = TRAINING.partition("if __name__")[0]
    assert told(program, functions, "") == ["DDP004"]
    assert told(program, "from training import log\n" + functions, "") == ["DDP004"]


def test_what_a_demo_downloads_by_itself_is_fine(program: ReadProgram) -> None:
    """Accelerate, of which the demo takes something, does not make the group that the training makes."""
    fetching = TRAINING + (
        "from torchvision.datasets.utils import download_url\n"
        "def fetch(url):\n    download_url(url, 'models')\n"
    )
    demo = "import accelerate\nfrom training import fetch\nfetch('https://example.com/a.pt')\n"
    found = list(check_program(program(demo, **{"training.py": fetching})))
    assert [each.code for each in found if each.code == "DATA009"] == []
    joined = check_program(
        program(demo + "from training import start\nstart()\n", **{"training.py": fetching})
    )
    assert [each.code for each in joined if each.code == "DATA009"] == ["DATA009"]


def test_rules_see_the_files_that_a_program_uses(
    program: ReadProgram, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[list[str]] = []

    def look(read: Program) -> Iterator[Finding]:
        seen.append([each.path.name for each in read.files])
        return iter(())

    monkeypatch.setattr(check, "RULES", (look,))
    files = {"small.py": "def small():\n    pass\n", "large.py": "def large():\n    pass\n"}
    for call in ("small()\n", "large()\n"):
        start = "import torch.distributed as dist\ndist.init_process_group('nccl')\n"
        imports = "from small import small\nfrom large import large\n"
        list(check_program(program(start + imports + call, **files)))
    assert seen == [["train.py", "small.py"], ["train.py", "large.py"]]


def test_every_rule_is_described() -> None:
    names = [rule.__name__ for rule in (*RULES, unread_finding, *JOB_RULES, *RUN_RULES)]
    assert [each.rule for each in rule_descriptions()] == names


@pytest.mark.parametrize("description", rule_descriptions(), ids=lambda each: each.rule)
def test_a_docstring_says_what_why_bad_good_and_source(description: RuleDescription) -> None:
    parts = ("finds", "why", "bad", "good", "source")
    assert [part for part in parts if not getattr(description, part)] == []


@pytest.mark.parametrize("description", rule_descriptions(), ids=lambda each: each.rule)
def test_a_source_is_one_sentence_and_what_is_silent_stands_before_it(description: RuleDescription) -> None:
    assert ". " not in description.source
    assert description.source.endswith(".")


def test_a_mode_has_the_descriptions_of_all_rules_that_find_it() -> None:
    assert [(each.rule, each.with_job) for each in descriptions_of("NCCL002")] == [
        ("settings_are_read_by_something", False),
        ("settings_suit_the_job", True),
    ]
    assert descriptions_of("EFA002") == []


WHOLE = """
[tool.slipway.lint]
select = ["DDP", "CKPT008"]
ignore = ["DDP006"]
exclude = ["old", "*_test.py"]

[tool.slipway.lint.per-file-ignores]
"tools/*" = ["DDP004"]
"""


def read(folder: Path, text: str) -> LintConfiguration:
    (folder / "pyproject.toml").write_text(text, "utf-8")
    found = read_configuration(folder / "pyproject.toml")
    assert found is not None
    return found


def test_a_family_stands_for_its_codes() -> None:
    assert is_code_among("DDP004", ["DDP"])
    assert is_code_among("DDP004", ["DDP004"])
    assert not is_code_among("DDP004", ["DD", "DDP00", "DDP008", "DATA"])


def test_everything_is_read(tmp_path: Path) -> None:
    found = read(tmp_path, WHOLE)
    assert found.findings == ()
    assert [found.selects(code) for code in ("DDP004", "CKPT008", "CKPT007")] == [True, True, False]
    assert found.ignores("DDP006", tmp_path / "train.py")
    assert found.ignores("DDP004", tmp_path / "tools" / "deep" / "train.py")
    assert not found.ignores("DDP004", tmp_path / "train.py")
    assert found.excludes(tmp_path / "old")
    assert found.excludes(tmp_path / "old" / "train.py")
    assert found.excludes(tmp_path / "sub" / "a_test.py")
    assert not found.excludes(tmp_path / "older.py")


def test_a_folder_above_the_project_is_not_matched(tmp_path: Path) -> None:
    project = tmp_path / "old"
    project.mkdir()
    assert not read(project, WHOLE).excludes(project / "train.py")


def test_without_the_section_there_is_no_configuration(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text("[tool.ruff]\nselect = 1\n", "utf-8")
    assert read_configuration(tmp_path / "pyproject.toml") is None


def test_the_nearest_file_that_has_the_section_counts(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[tool.slipway.lint]\nignore = ["DDP004"]\n', "utf-8")
    inner = tmp_path / "a" / "b"
    inner.mkdir(parents=True)
    (tmp_path / "a" / "pyproject.toml").write_text("[project]\nname = 'a'\n", "utf-8")
    assert Configurations().configuration_for(inner / "train.py").ignore == ("DDP004",)


@pytest.mark.parametrize(
    ("text", "code", "message", "place", "remedy"),
    [
        ('ignore = ["DDP04"]', "SPEC002", "DDP04 in `ignore`", (2, 11), "Did you mean DDP004?"),
        ('selct = ["DDP"]', "SPEC002", "unknown key `selct`", (2, 1), "Did you mean `select`?"),
        ('select = "DDP"', "SPEC003", "`select` of [tool.slipway.lint] is no list", (2, 1), "Write it as"),
        ("per-file-ignores = 3", "SPEC003", "`per-file-ignores` is no table", (2, 1), "Write it as"),
        ('[tool.slipway.lint.per-file-ignores]\n"a" = 1', "SPEC003", "`a` of", (3, 1), "Write it as"),
    ],
)
def test_what_is_wrong_is_told_where_it_stands(
    tmp_path: Path, text: str, code: str, message: str, place: tuple[int, int], remedy: str
) -> None:
    (finding,) = read(tmp_path, f"[tool.slipway.lint]\n{text}\n").findings
    assert (finding.code, finding.severity) == (code, Severity.ERROR)
    assert finding.message.startswith(message)
    assert finding.remedy.startswith(remedy)
    assert finding.location is not None
    assert (finding.location.line, finding.location.column) == place


@pytest.mark.parametrize("text", ["[tool.slipway.lint\n", "tool = 1 # slipway\n", "[tool]\nslipway = 3\n"])
def test_a_file_that_is_no_toml_or_no_table_is_a_finding(tmp_path: Path, text: str) -> None:
    (finding,) = read(tmp_path, text).findings
    assert finding.code == "SPEC001"


def test_what_is_right_beside_a_mistake_holds(tmp_path: Path) -> None:
    assert read(tmp_path, '[tool.slipway.lint]\nignore = ["DDP004", "X"]\n').ignore == ("DDP004", "X")


EXPORT = "export CUDA_LAUNCH_BLOCKING=1"


@pytest.mark.parametrize(
    ("text", "ignored"),
    [
        (f"{EXPORT}\n", False),
        (f"{EXPORT}  # slipway: ignore[NCCL003] while we look\n", True),
        (f"# slipway: ignore[NCCL003]\n{EXPORT}\n", True),
        (f"# slipway: ignore-file[NCCL003]\n\n{EXPORT}\n", True),
        (f"{EXPORT}  # slipway: ignore[NCCL001]\n", False),
    ],
)
def test_a_finding_in_a_shell_script_is_accepted_there(tmp_path: Path, text: str, ignored: bool) -> None:
    (tmp_path / "train.py").write_text("a = 1\n", "utf-8")
    (tmp_path / "run.sh").write_text(f"{text}torchrun train.py\n", "utf-8")
    found = [each for each in lint([tmp_path / "train.py"]).findings if each.code == "NCCL003"]
    assert [each.ignored for each in found] == [ignored]


# What was read, and what the ranks do.

ALONE = """
import os, torch.distributed as dist
dist.init_process_group("nccl")
if os.environ["RANK"] == "0":
    dist.barrier()
"""


def test_what_was_read_is_kept_where_the_ranks_cannot_be_followed(
    write_job: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: RankRuns) -> list[RankRun]:
        raise TakesTooLongError

    monkeypatch.setattr(RankRuns, "runs", property(fail))
    file = write_job()
    (file.parent / "src" / "train.py").write_text(ALONE, "utf-8")
    found = prepare(read_job(JobSource(file)), session_region="us-west-2").findings
    assert "DDP004" in {each.code for each in found if each.severity is Severity.ERROR}
    assert any(each.message.startswith("not judged to the end: after") for each in found)


# What two hosts may see in another order, and the ranks of one see alike.

LISTED = """
import os
from torch.utils.data import DataLoader, Dataset, DistributedSampler
class Images(Dataset):
    def __init__(self, folder):
        self.files = [os.path.join(folder, name) for name in os.listdir(folder)]
    def __len__(self):
        return len(self.files)
    def __getitem__(self, index):
        return load(self.files[index])
images = Images("/opt/ml/input/data/train")
loader = DataLoader(images, batch_size=8, sampler=DistributedSampler(images))
"""


@pytest.mark.parametrize(("hosts", "severity"), [(1, Severity.INFO), (2, Severity.ERROR)])
def test_an_order_of_files_is_a_mistake_where_hosts_may_differ(
    write_job: Callable[..., Path], hosts: int, severity: Severity
) -> None:
    file = write_job(resources={"instance_type": "ml.p4d.24xlarge", "instance_count": hosts})
    (file.parent / "src" / "train.py").write_text(LISTED, "utf-8")
    found = prepare(read_job(JobSource(file)), session_region="us-west-2").findings
    assert [each.severity for each in found if each.code == "DATA002"] == [severity]


STORE = """
import os
import torch.distributed as dist
dist.init_process_group("nccl")
rank, world = dist.get_rank(), dist.get_world_size()
store = dist.TCPStore(os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]), world, rank == 0)
"""


@pytest.mark.parametrize(("version", "severity"), [("2.6", Severity.ERROR), ("2.7", Severity.INFO)])
def test_a_store_on_the_port_of_the_agent_is_a_mistake_before_pytorch_uses_the_agents(
    write_job: Callable[..., Path], version: str, severity: Severity
) -> None:
    file = write_job(framework={"name": "pytorch", "version": version})
    (file.parent / "src" / "train.py").write_text(STORE, "utf-8")
    found = prepare(read_job(JobSource(file)), session_region="us-west-2").findings
    assert [each.severity for each in found if each.code == "NCCL009"] == [severity]


def test_what_the_entry_never_names_is_no_finding_of_its_job(write_job: Callable[..., Path]) -> None:
    file = write_job()
    source = file.parent / "src"
    (source / "train.py").write_text("from tools import seed\nseed()\n", "utf-8")
    tools = """
import torch
def seed():
    torch.manual_seed(7)
def export(model):
    torch.save(model.state_dict(), "exported.pt")
"""
    (source / "tools.py").write_text(tools, "utf-8")
    found = prepare(read_job(JobSource(file)), session_region="us-west-2").findings
    assert "CKPT007" not in {each.code for each in found}
    (source / "train.py").write_text("from tools import export\nexport(None)\n", "utf-8")
    found = prepare(read_job(JobSource(file)), session_region="us-west-2").findings
    assert "CKPT007" in {each.code for each in found}


# What a job gives an option, in place of its default.

CACHED = """
import argparse, os, dataclasses
@dataclasses.dataclass
class Options:
    cache: str = "/fsx/triton"
    debug: str = "off"
parser = argparse.ArgumentParser()
for field in dataclasses.fields(Options):
    parser.add_argument("--" + field.name, default=field.default)
options = Options(**vars(parser.parse_args()))
os.environ["TRITON_CACHE_DIR"] = options.cache
if options.debug != "off":
    os.environ["CUDA_LAUNCH_BLOCKING"] = "1"
"""


@pytest.mark.parametrize(
    ("given", "codes"),
    [
        ({}, ["DISK002"]),
        ({"hyperparameters": {"cache": "/tmp/triton"}}, []),
        ({"hyperparameters": {"cache": "/tmp/triton", "debug": "kernels"}}, ["NCCL003"]),
        ({"code": {"source_dir": "src", "entry_point": "train.py", "arguments": ["--cache=/tmp/t"]}}, []),
    ],
)
def test_what_a_job_gives_an_option_counts_in_place_of_its_default(
    write_job: Callable[..., Path], given: dict[str, object], codes: list[str]
) -> None:
    file = write_job(**given)
    (file.parent / "src" / "train.py").write_text(CACHED, "utf-8")
    plan = prepare(read_job(JobSource(file)), session_region="us-west-2")
    told = [each for each in plan.findings if each.stage is Stage.SCRIPT]
    assert [each.code for each in told if each.severity is not Severity.INFO] == codes
    assert [each.code for each in lint([file.parent / "src" / "train.py"]).findings] == ["DISK002"]


HOOKS = """
import argparse
TABLE = {}
def hook(name):
    def keep(kind):
        TABLE[name] = kind
        return kind
    return keep
@hook("waiter")
class Waiter:
    def run(self): print("waits")
parser = argparse.ArgumentParser()
parser.add_argument("--hooks", default="printer")
for each in parser.parse_args().hooks.split(","):
    TABLE[each]().run()
"""


@pytest.mark.parametrize(("words", "is_left"), [((), True), (("--hooks=waiter",), False)])
def test_a_hook_that_a_job_names_is_taken(
    program: ReadProgram, words: tuple[str, ...], is_left: bool
) -> None:
    started = replace(program(HOOKS), words=words)
    [method] = [each for each in started.entry.functions if getattr(each, "name", "") == "run"]
    assert is_registered_and_not_taken(started, method.body[0]) is is_left
