"""Checkpoints: who writes them, with which keys, and what is kept."""

from __future__ import annotations

from textwrap import dedent

import pytest

from launcher.failure_modes.model import Finding, Severity
from launcher.rules.script import checkpoints
from tests.program.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

SAVE = """
import argparse, io, os, tempfile, torch
import torch.distributed as dist
parser = argparse.ArgumentParser()
parser.add_argument("--out")
args = parser.parse_args()
dist.init_process_group("nccl")
rank = dist.get_rank()
local_rank = int(os.environ["LOCAL_RANK"])
world_size = dist.get_world_size()
"""


def judge(program: ReadProgram, text: str, **others: str) -> list[Finding]:
    read = program(text, **others)
    return [finding for rule in checkpoints.CHECKPOINT_RULES for finding in rule(read)]


def told(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(each.code, each.subject or "") for each in findings]


@shows(checkpoints.one_rank_writes_a_file)
@pytest.mark.parametrize(
    "text",
    [
        'torch.save(state, "model.pt")',
        'torch.save(state, os.path.join(args.out, "model.pt"))',
        'torch.save(state, f=os.environ["SM_MODEL_DIR"] + "/model.pt")',
        'for epoch in range(3):\n    torch.save(state, f"{args.out}/{epoch}.pt")',
        'for epoch in range(3):\n    if epoch % 2 == 0:\n        torch.save(state, f"{epoch}.pt")',
        'def main():\n    torch.save(state, "model.pt")\nif __name__ == "__main__":\n    main()',
        'def save(path):\n    torch.save(state, path)\nsave("model.pt")',
        'if dist.is_initialized():\n    torch.save(state, "model.pt")',
        'if rank == 0:\n    print("saving")\ntorch.save(state, "model.pt")',
        "class T:\n    def __init__(self, path):\n        self.path = path\n    def save(self):\n"
        '        torch.save(state, self.path)\nT("model.pt").save()',
        'for epoch in range(3):\n    if epoch % args.save_every == 0:\n        torch.save(state, "model.pt")',
        "class T:\n    def __init__(self, save_every):\n        self.save_every = save_every\n"
        "    def train(self):\n        for epoch in range(self.start, 9):\n"
        '            if epoch % self.save_every == 0:\n                torch.save(state, "x.pt")\n'
        "def main(every):\n    T(every).train()\nmain(args.save_every)",
        'with open("model.pt", "wb") as file:\n    torch.save(state, file)',
        'from safetensors.torch import save_file\nsave_file(state, "model.safetensors")',
        'torch.jit.save(scripted, "model.pt")',
        'for epoch in range(read()):\n    torch.save(state, "model-%02d.pt" % epoch)',
        'for epoch in range(2, read(), 3):\n    torch.save(state, "model-%02d.pt" % epoch)',
        'start = torch.load(args.out, map_location=f"cuda:{local_rank}")["epoch"] + 1\n'
        'for epoch in range(start, 9):\n    torch.save(state, "model-%02d.pt" % epoch)',
        'import json\nname = json.load(open(args.out))["name"]\ntorch.save(state, name)',
        'class config:\n    folder = "out"\ntorch.save(state, config.folder + "/model.pt")',
        "class config:\n    folder = None\nconfig.folder = args.out\n"
        'def save(cfg):\n    torch.save(state, f"{cfg.folder}/model.pt")\nsave(config)',
        'from pathlib import Path\ntorch.save(state, Path.cwd() / "model.pt")',
        'paths = [args.out]\nif world_size > 8:\n    paths.append(args.out + "/best.pt")\n'
        "for path in paths:\n    torch.save(state, path)",
        'for name in ("last.pt", "best.pt"):\n    torch.save(state, os.path.join(args.out, name))',
        'start = torch.hub.load_state_dict_from_url(args.out)["epoch"]\n'
        'for epoch in range(start, 9):\n    torch.save(state, "model-%02d.pt" % epoch)',
        'import joblib\njoblib.dump(state, filename=args.out + "/state")',
        "from transformers import AutoModelForCausalLM\nm = AutoModelForCausalLM.from_pretrained(args.name)\n"
        "m.save_pretrained(args.out)",
    ],
)
def test_a_save_that_every_rank_runs_with_one_path_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, SAVE + text)
    assert finding.code == "CKPT008"
    assert finding.severity is Severity.ERROR
    assert "every rank saves" in finding.message


@leaves_alone(checkpoints.one_rank_writes_a_file)
@pytest.mark.parametrize(
    "text",
    [
        'if rank == 0:\n    torch.save(state, "model.pt")',
        'if rank != 0:\n    raise SystemExit\ntorch.save(state, "model.pt")',
        'torch.save(state, f"model-{rank}.pt")',
        'torch.save(state, os.path.join(args.out, str(dist.get_rank()) + ".pt"))',
        "torch.save(state, io.BytesIO())",
        "torch.save(state, tempfile.mktemp())",
        "torch.save(state, somewhere())",
        'torch.save(state, torch.load(f"{rank}.pt")["path"])',
        'torch.save(state, torch.load(somewhere())["path"])',
        "class config:\n    folder = None\nconfig.folder = f'{rank}'\n"
        'torch.save(state, config.folder + "/model.pt")',
        'class config:\n    folder = place()\ntorch.save(state, config.folder + "/model.pt")',
        'class config:\n    other = "out"\ntorch.save(state, config.folder + "/model.pt")',
        'paths = ["a.pt"]\npaths.append(f"{rank}.pt")\nfor path in paths:\n    torch.save(state, path)',
        'paths = ["a.pt"]\nfill(paths)\nfor path in paths:\n    torch.save(state, path)',
        'paths = ["a.pt"]\nif rank:\n    paths = [rank]\nfor path in paths:\n    torch.save(state, path)',
        "for path in paths():\n    torch.save(state, path)",
        "for path, state in [('a.pt', one)]:\n    torch.save(state, path)",
        'for epoch in range(somewhere(), 9):\n    torch.save(state, f"{epoch}.pt")',
        'def save():\n    torch.save(state, "model.pt")\nif rank == 0:\n    save()',
        'def save():\n    if rank:\n        return\n    torch.save(state, "model.pt")\nsave()',
        'def save():\n    torch.save(state, "model.pt")',
        'import lib\n@lib.rank_zero\ndef save():\n    torch.save(state, "model.pt")\nsave()',
        'if trainer.is_main:\n    torch.save(state, "model.pt")',
        "args.out = args.out + str(rank)\ntorch.save(state, args.out)",
        "args.out = place()\ntorch.save(state, args.out)",
        'try:\n    train()\nexcept Exception:\n    torch.save(state, "model.pt")',
        'def save(path):\n    torch.save(state, path)\nsave(f"model-{rank}.pt")',
        'if args.machine_rank == 0 and epoch:\n    torch.save(state, "model.pt")',
        'if saves:\n    torch.save(state, "model.pt")',
        "class T:\n    def __init__(self, saves):\n        self.saves = saves\n    def save(self):\n"
        '        if self.saves:\n            torch.save(state, "x.pt")\nT(rank == 0).save()',
        'def save(saves):\n    if saves:\n        torch.save(state, "x.pt")\nsave(somehow())',
        'with open(f"{rank}.pt", "wb") as file:\n    torch.save(state, file)',
        'from safetensors.torch import save_file\nif rank == 0:\n    save_file(state, "model.safetensors")',
        "from transformers import AutoModelForCausalLM\nm = AutoModelForCausalLM.from_pretrained(args.name)\n"
        "m.save_pretrained(args.out, is_main_process=rank == 0)",
        "from transformers import AutoTokenizer\nt = AutoTokenizer.from_pretrained(args.name)\n"
        "t.save_pretrained(args.out)",
        "m.save_pretrained(args.out)",
        'import json\njson.dump(metrics, open("metrics.json", "w"))',
        "def validate():\n    loss = 0\n    for x in loader:\n        loss += f(x)\n    return loss\n"
        'loss = validate()\ntorch.save(state, f"model-{loss}.pt")',
    ],
)
def test_a_save_of_one_rank_or_to_a_path_of_its_own_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, SAVE + text) == []


def test_a_save_under_what_is_set_on_the_object_may_be_of_one_rank(program: ReadProgram) -> None:
    text = SAVE + dedent("""\
        class Learner:
            def __init__(self): self.is_first = True
            def save(self):
                if self.is_first: torch.save(self.state, "model.pt")
        learner = Learner()
        {}
        learner.save()
        """)
    assert len(judge(program, text.format("pass"))) == 1
    assert judge(program, text.format("learner.is_first = rank == 0")) == []


def test_a_save_of_what_never_joins_others_is_informational(program: ReadProgram) -> None:
    library = (
        "import torch.distributed as dist\ndef start(): dist.init_process_group('nccl')\ndef read(): pass\n"
    )
    text = (
        "import torch\nfrom library import read, start\n{}()\nloss.backward()\ntorch.save(read(), 'm.pt')\n"
    )
    found = [judge(program, text.format(each), **{"library.py": library}) for each in ("read", "start")]
    assert [[each.severity for each in one] for one in found] == [[Severity.INFO], [Severity.ERROR]]
    # Inference that imports what can join others is mostly one process.
    text = text.replace("loss.backward()", "print(loss)").format("start")
    assert [each.severity for each in judge(program, text, **{"library.py": library})] == [Severity.INFO]


def test_a_save_of_a_single_process_is_right(program: ReadProgram) -> None:
    assert judge(program, 'import torch\ntorch.save({}, "model.pt")') == []


def test_a_save_once_per_host_is_a_warning_that_shows_its_guard(program: ReadProgram) -> None:
    (finding,) = judge(program, SAVE + 'if local_rank == 0:\n    torch.save(state, "model.pt")')
    assert (finding.code, finding.severity) == ("CKPT008", Severity.WARNING)
    (guard,) = finding.related
    assert guard.location.line == len(SAVE.splitlines()) + 1


def test_the_number_that_spawn_gives_is_the_rank_on_a_single_host(program: ReadProgram) -> None:
    text = """
    import torch
    def work(rank, size):
        torch.distributed.init_process_group("nccl", rank=rank, world_size=size)
        if rank == 0:
            torch.save({}, "model.pt")
    torch.multiprocessing.spawn(work, args=(2,), nprocs=2)
    """
    assert judge(program, text) == []


def test_a_save_before_the_ranks_are_spawned_is_of_one_process(program: ReadProgram) -> None:
    text = """
    import torch
    def save(): torch.save({{}}, "model.pt")
    def work(rank, size):
        torch.distributed.init_process_group("nccl", rank=rank, world_size=size)
        {}
    def main():
        {}
        torch.multiprocessing.spawn(work, args=(2,), nprocs=2)
    main()
    """
    processes = text.replace(
        "torch.multiprocessing.spawn(work, args=(2,), nprocs=2)",
        "[torch.multiprocessing.Process(target=work, args=(rank, 2)).start() for rank in range(2)]",
    )
    for each in (text, processes):
        assert judge(program, each.format("pass", "save()")) == []
        assert [found.severity for found in judge(program, each.format("save()", "pass"))] == [Severity.ERROR]


def test_a_library_that_can_spawn_ranks_does_not_make_the_script_their_parent(program: ReadProgram) -> None:
    library = (
        "import torch\nimport torch.distributed as dist\ndef start(): dist.init_process_group('nccl')\n"
        "def spawn(work): torch.multiprocessing.spawn(work, nprocs=2)\n"
    )
    text = "import torch\nfrom library import start\nstart()\nloss.backward()\ntorch.save({}, 'm.pt')\n"
    assert [each.severity for each in judge(program, text, **{"library.py": library})] == [Severity.ERROR]


def test_a_name_of_another_library_is_no_function_of_the_program(program: ReadProgram) -> None:
    library = (
        "import torch.distributed as dist\nfrom torch.nn import init as fill\n"
        "def init(): dist.init_process_group('nccl')\ndef read(): return fill.init(x)\n"
    )
    text = "import torch\nfrom library import read\ntorch.save(read(), 'model.pt')\n"
    assert [each.severity for each in judge(program, text, **{"library.py": library})] == [Severity.INFO]


KEYS = 'import torch\nstate = torch.load("x.pt")\n'


@shows(checkpoints.keys_are_not_cut_by_partition)
@pytest.mark.parametrize(
    "text",
    [
        'new = {k.partition("module.")[2]: v for k, v in state.items()}',
        "new = {key.partition('model.')[2]: state[key] for key in state}",
        'prefix = "module."\nnew = {k.partition(prefix)[2]: v for k, v in state.items()}',
        'new = {k.partition("module.")[-1]: v for k, v in state.items()}',
        'new = {}\nfor k, v in state.items():\n    new[k.partition("module.")[2]] = v',
        'new = dict((k.partition("module.")[2], v) for k, v in state.items())',
    ],
)
def test_keys_cut_by_partition_are_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, KEYS + text)
    assert finding.code == "CKPT005"
    assert "partition" in (finding.subject or "")


@leaves_alone(checkpoints.keys_are_not_cut_by_partition)
@pytest.mark.parametrize(
    "text",
    [
        'if list(state)[0].startswith("module."):\n'
        '    new = {k.partition("module.")[2]: v for k, v in state.items()}',
        'new = {k.removeprefix("module."): v for k, v in state.items()}',
        'new = {k.partition("module.")[2]: v for k, v in state.items() if k.startswith("module.")}',
        'new = {k.partition("module.")[2] if "module." in k else k: v for k, v in state.items()}',
        'new = {}\nfor k, v in state.items():\n    if k.startswith("module."):\n'
        '        new[k.partition("module.")[2]] = v',
        'new = {k.rpartition("module.")[2]: v for k, v in state.items()}',
        'new = {k.partition(".")[0]: v for k, v in state.items()}',
        'name = path.partition("module.")[2]',
        'new = {k: v.partition("module.")[2] for k, v in names.items()}',
    ],
)
def test_other_ways_to_cut_keys_are_right(program: ReadProgram, text: str) -> None:
    assert judge(program, KEYS + text) == []


@shows(checkpoints.uploads_are_looked_at)
@pytest.mark.parametrize(
    "text",
    [
        'subprocess.run(["aws", "s3", "sync", path, uri])',
        'subprocess.call(["aws", "s3", "cp", "--recursive", path, uri])',
        'subprocess.Popen(["aws", "s3", "sync", path, uri]).wait()',
        'process = subprocess.Popen(["aws", "s3", "sync", path, uri])\nprocess.wait()',
        'command = ["aws", "s3", "sync", path, uri]\nsubprocess.run(command)',
        'os.system(f"aws s3 sync {path} {uri}")',
        'os.system("aws s3 sync {} {}".format(path, uri))',
        'subprocess.run("aws s3 sync a b", shell=True, check=False)',
    ],
)
def test_an_upload_that_nobody_looks_at_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, "import os, subprocess\n" + text)
    assert (finding.code, finding.severity) == ("CKPT004", Severity.WARNING)


@leaves_alone(checkpoints.uploads_are_looked_at)
@pytest.mark.parametrize(
    "text",
    [
        'subprocess.run(["aws", "s3", "sync", path, uri], check=True)',
        'os.system(f"aws s3 cp s3://bucket/{name}/sizes.json sizes.json")',
        'subprocess.check_call(["aws", "s3", "sync", path, uri])',
        'if subprocess.call(["aws", "s3", "sync", path, uri]):\n    raise RuntimeError',
        'code = os.system(f"aws s3 sync {path} {uri}")\nassert code == 0',
        'process = subprocess.Popen(["aws", "s3", "sync", path, uri])\nif process.wait():\n    raise OSError',
        'process = subprocess.Popen(["aws", "s3", "sync", a, b])\nprocess.wait()\nprint(process.returncode)',
        'def sync():\n    return subprocess.run(["aws", "s3", "sync", path, uri])',
        'subprocess.run(["aws", "s3", "ls", uri])',
        'subprocess.run(["rsync", path, uri])',
        "subprocess.run(command)",
    ],
)
def test_an_upload_whose_result_is_read_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, dedent("import os, subprocess\n") + text) == []


__all___state_keys = ["program"]

START = """
import torch
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP
class Net(nn.Module):
    pass
net = Net().to("cuda")
"""


def judge_state_keys(program: ReadProgram, text: str) -> list[Finding]:
    read = program(START + text)
    return [finding for rule in checkpoints.STATE_KEY_RULES for finding in rule(read)]


@shows(checkpoints.states_are_loaded_as_they_are_saved)
@pytest.mark.parametrize(
    ("text", "prefixes"),
    [
        (
            'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
            "`module.`",
        ),
        (
            'if resume:\n    net.load_state_dict(torch.load(args.path)["model"])\nnet = DDP(net)\n'
            'torch.save({"model": net.state_dict(), "epoch": 1}, args.path)',
            "`module.`",
        ),
        (
            'torch.save(net.state_dict(), "a.pt")\nm = DDP(net)\nm.load_state_dict(torch.load("a.pt"))',
            "no prefix",
        ),
        (
            'm = torch.compile(net)\ntorch.save(m.state_dict(), "a.pt")\n'
            'other = Net()\nstate = torch.load("a.pt")\nother.load_state_dict(state, strict=False)',
            "`_orig_mod.`",
        ),
        (
            'if distributed:\n    net = DDP(net)\ntorch.save(net.state_dict(), "a.pt")\n'
            'nn.Linear(1, 1).load_state_dict(torch.load("a.pt"))',
            "`module.`",
        ),
        (
            'm = DDP(torch.compile(net))\ntorch.save(m.state_dict(), "a.pt")\n'
            'DDP(net).load_state_dict(torch.load("a.pt"))',
            "`module._orig_mod.`",
        ),
    ],
)
def test_keys_that_do_not_match_are_found(program: ReadProgram, text: str, prefixes: str) -> None:
    (finding,) = judge_state_keys(program, text)
    assert finding.code == "CKPT005"
    assert prefixes in finding.message
    assert len(finding.related) == 1


@leaves_alone(checkpoints.states_are_loaded_as_they_are_saved)
@pytest.mark.parametrize(
    "text",
    [
        'm = DDP(net)\ntorch.save(m.module.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nm.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\ntorch.save(net.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("b.pt"))',
        'm = DDP(net)\ntorch.save({"a": m.state_dict()}, "x")\nnet.load_state_dict(torch.load("x")["b"])',
        "def save(path):\n    torch.save(DDP(net).state_dict(), path)\n"
        "def load(path):\n    net.load_state_dict(torch.load(path))",
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nstate = torch.load("a.pt")\nstrip(state)\n'
        "net.load_state_dict(state)",
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\n'
        'net.load_state_dict({k[7:]: v for k, v in torch.load("a.pt").items()})',
        'm = DDP(net)\ntorch.save(m.state_dict(), "a.pt")\nunknown.load_state_dict(torch.load("a.pt"))',
        'm = wrap(net)\ntorch.save(m.state_dict(), "a.pt")\nnet.load_state_dict(torch.load("a.pt"))',
        'm = DDP(net)\nr = m.module\ntorch.save(r.state_dict(), "x")\nnet.load_state_dict(torch.load("x"))',
        'm = DDP(net)\ntorch.save(sgd.state_dict(), "x")\nsgd.load_state_dict(torch.load("x"))',
    ],
)
def test_keys_that_match_or_are_not_known_are_right(program: ReadProgram, text: str) -> None:
    assert judge_state_keys(program, text) == []


def test_a_model_that_is_made_of_itself_in_every_method_is_followed_to_its_start(
    program: ReadProgram,
) -> None:
    methods = "".join(
        f"    def change_{number}(self):\n        self.model = self.model.{method}()\n"
        for number, method in enumerate(["half", "cuda", "train", "eval", "cpu"] * 4)
    )
    text = (
        "class Trainer:\n    def __init__(self):\n        self.model = nn.Linear(1, 1)\n"
        "        self.wrapped = DDP(self.model)\n"
        f"{methods}"
        '    def save(self):\n        torch.save(self.wrapped.state_dict(), "a.pt")\n'
        '    def load(self):\n        self.model.load_state_dict(torch.load("a.pt"))\n'
    )
    (found,) = judge_state_keys(program, text)
    assert "`module.`" in found.message
