"""What one rank alone sees decides no step of all."""

from __future__ import annotations

import pytest

from launcher.failure_modes.model import Finding
from launcher.rules.script import memory, steps
from tests.programs.conftest import ReadProgram, program
from tests.rules.script.counting import leaves_alone, shows

__all__ = ["program"]

START = """
import math, sys, time, torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel
def reduce_copy(tensor):
    copy = tensor.clone()
    dist.all_reduce(copy)
    return copy
def reduce_in_place(tensor):
    dist.all_reduce(tensor)
    return tensor.clone()
rank = dist.get_rank()
model = torch.nn.Linear(1, 1)
model = DistributedDataParallel(model)
begun = time.time()
for batch in data:
    loss = model(batch).sum()
"""
END = "\n    loss.backward()\n"


def judge(program: ReadProgram, text: str) -> list[Finding]:
    read = program(text)
    return [finding for rule in (*steps.RULES, *memory.RULES) for finding in rule(read)]


def indented(text: str) -> str:
    return "".join(f"    {line}\n" for line in text.splitlines())


@shows(steps.ranks_skip_steps_together)
@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("if torch.isnan(loss):\n    continue", "this rank's own"),
        ("if not torch.isfinite(loss).all():\n    print(loss)\n    continue", "this rank's own"),
        ("if not math.isfinite(loss.item()):\n    break", "this rank's own"),
        ("value = loss.item()\nif math.isnan(value):\n    continue", "this rank's own"),
        ("bad = torch.isnan(loss)\nif bad:\n    continue", "this rank's own"),
        ("if loss.isnan():\n    continue", "this rank's own"),
        ("torch.cuda.synchronize()\nif torch.isnan(loss):\n    continue", "this rank's own"),
        ("dist.all_reduce(torch.ones(1))\nif torch.isnan(loss):\n    continue", "this rank's own"),
        ("shown = reduce_copy(loss)\nif torch.isnan(loss):\n    continue", "this rank's own"),
        ("if time.time() - begun > 3600:\n    break", "clocks"),
        ("spent = time.time() - begun\nif spent > 3600:\n    break", "clocks"),
        ("if batch and time.monotonic() > 9:\n    break", "clocks"),
    ],
)
def test_a_step_that_one_rank_skips_is_found(program: ReadProgram, text: str, why: str) -> None:
    (finding,) = judge(program, START + indented(text) + END)
    assert finding.code == "DDP007"
    assert why in finding.message


@pytest.mark.parametrize(
    ("library", "found"), [("accelerate.Accelerator", 1), ("lightning.fabric.Fabric", 1), ("mine.Engine", 0)]
)
def test_a_librarys_backward_is_one_of_a_wrapped_model(
    program: ReadProgram, library: str, found: int
) -> None:
    module, _, name = library.rpartition(".")
    text = (
        f"import torch\nfrom {module} import {name}\nlib = {name}()\nmodel = lib.prepare(make())\n"
        "for batch in data:\n    loss = model(batch)\n    if torch.isnan(loss):\n        continue\n"
        "    lib.backward(loss)\n"
    )
    assert len(judge(program, text)) == found


@leaves_alone(steps.ranks_skip_steps_together)
@pytest.mark.parametrize(
    "text",
    [
        "if torch.isnan(loss):\n    sys.exit(1)",
        "if torch.isnan(loss):\n    raise ValueError",
        "if torch.isnan(loss):\n    print('nan')",
        "dist.all_reduce(loss)\nif torch.isnan(loss):\n    continue",
        "bad = torch.isnan(loss)\ndist.all_reduce(bad)\nif bad:\n    continue",
        "mean = reduce_mean(loss)\nif math.isnan(mean):\n    continue",
        "loss = reduce_copy(loss)\nif torch.isnan(loss):\n    continue",
        "shown = reduce_in_place(loss)\nif torch.isnan(loss):\n    continue",
        "shown = reduced(loss)\nif torch.isnan(loss):\n    continue",
        "if step >= 10:\n    break",
        "if torch.isnan(batch).any():\n    print(1)",
        "spent = time.time() - begun\nif rank == 0:\n    print(spent)",
        "loss.backward()\nnorm = clip(model)\nif not math.isfinite(norm):\n    break",
    ],
)
def test_a_step_that_all_skip_or_none_is_right(program: ReadProgram, text: str) -> None:
    end = "" if "backward" in text else END
    assert judge(program, START + indented(text) + end) == []


@pytest.mark.parametrize(
    ("wrapping", "found"),
    [
        ("fully_shard(model)", 1),
        ("fully_shard(model, reshard_after_forward=True)", 1),
        ("fully_shard(model, mesh=mesh)", 0),  # Of which ranks nobody can tell.
        ("fully_shard(other)", 0),
    ],
)
def test_a_model_that_was_sharded_in_place_is_wrapped(
    program: ReadProgram, wrapping: str, found: int
) -> None:
    start = START.replace(
        "torch.nn.parallel import DistributedDataParallel", "torch.distributed.fsdp import fully_shard"
    )
    start = start.replace("model = DistributedDataParallel(model)", wrapping)
    text = start + indented("if torch.isnan(loss):\n    continue") + END
    assert len(judge(program, text)) == found


@pytest.mark.parametrize(
    ("made", "found"),
    [
        ("loss = model.forward(batch).sum()", 1),
        ("loss = diffusion.losses(model, batch)['loss'].mean()", 1),
        ("losses = criterion(batch, net=model)\nloss = losses.sum()", 1),
        ("loss = criterion(model.module, batch)", 0),
        ("loss = other(batch)\nshow(model)", 0),
        ("loss = other.forward(batch)", 0),
    ],
)
def test_a_wrapped_model_runs_where_it_is_called_or_makes_the_loss(
    program: ReadProgram, made: str, found: int
) -> None:
    text = START.replace("    loss = model(batch).sum()\n", indented(made))
    assert len(judge(program, text + indented("if torch.isnan(loss):\n    continue") + END)) == found


def test_a_model_with_synchronised_statistics_is_nothing_that_ranks_agree_on(program: ReadProgram) -> None:
    converted = (
        "model = torch.nn.SyncBatchNorm.convert_sync_batchnorm(model)\nmodel = DistributedDataParallel"
    )
    text = START.replace("model = DistributedDataParallel", converted)
    assert len(judge(program, text + indented("if torch.isnan(loss):\n    continue") + END)) == 1


def test_a_bare_model_skips_what_it_likes(program: ReadProgram) -> None:
    text = (START + indented("if torch.isnan(loss):\n    continue") + END).replace(
        "model = DistributedDataParallel(model)\n", ""
    )
    assert judge(program, text) == []


TRY = START.replace("    loss = model(batch).sum()\n", "    try:\n        model(batch).backward()\n")


@shows(memory.exhausted_memory_ends_the_process)
@pytest.mark.parametrize(
    "handler",
    [
        "except torch.cuda.OutOfMemoryError:\n    continue",
        "except torch.OutOfMemoryError as error:\n    torch.cuda.empty_cache()",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        continue\n    raise",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        1\n    else:\n        raise",
        "except (torch.cuda.OutOfMemoryError, ValueError):\n    pass",
    ],
)
def test_going_on_with_exhausted_memory_is_found(program: ReadProgram, handler: str) -> None:
    (finding,) = judge(program, TRY + indented(handler))
    assert finding.code == "DDP007"
    assert "memory is exhausted" in finding.message


@pytest.mark.parametrize(
    "text",
    [
        "try:\n    loss = model(batch)\nexcept RuntimeError as e:\n    if 'out of memory' in str(e):\n"
        "        torch.cuda.empty_cache()\n        loss = model(batch[:1])",
        "def train_epoch():\n    for batch in data:\n        model(batch).backward()\nfor epoch in range(9):"
        "\n    try:\n        train_epoch()\n    except RuntimeError as e:"
        "\n        if 'out of memory' in str(e):\n"
        "            smaller()\n            continue\n        raise",
    ],
)
def test_a_retry_of_one_rank_is_found(program: ReadProgram, text: str) -> None:
    (finding,) = judge(program, START.partition("for batch")[0] + text)
    assert "memory is exhausted" in finding.message


@leaves_alone(memory.exhausted_memory_ends_the_process)
@pytest.mark.parametrize(
    "handler",
    [
        "except torch.cuda.OutOfMemoryError:\n    raise",
        "except torch.cuda.OutOfMemoryError:\n    sys.exit(1)",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        print('smaller')\n    raise",
        "except RuntimeError as e:\n    if 'out of memory' in str(e):\n        raise ValueError from e",
        "except ValueError:\n    continue",
        "except RuntimeError:\n    continue",
        "except KeyboardInterrupt:\n    break",
        "except torch.cuda.OutOfMemoryError:\n    dist.all_reduce(flag)\n    continue",
    ],
)
def test_ending_with_exhausted_memory_is_right(program: ReadProgram, handler: str) -> None:
    assert judge(program, TRY + indented(handler)) == []


@shows(steps.ranks_run_equally_many_steps)
@pytest.mark.parametrize("count", ["rank", "rank + 1", "2 * rank", "0, rank", "int(dist.get_rank())"])
def test_a_number_of_steps_that_differs_by_rank_is_found(program: ReadProgram, count: str) -> None:
    text = START.replace("for batch in data:", f"for batch in range({count}):") + END
    (finding,) = judge(program, text)
    assert finding.subject == f"range({count})"


@leaves_alone(steps.ranks_run_equally_many_steps)
@pytest.mark.parametrize(
    "loop",
    [
        "for batch in range(10):",
        "for batch in range(len(data)):",
        "for batch in range(dist.get_world_size()):",
        "for batch in range(rank, 10 + rank):",
        "for batch in range(count):",
        "for batch in range(args.steps):",
        "for batch in enumerate(data):",
        "for batch in data[rank:]:",
    ],
)
def test_a_number_of_steps_that_ranks_share_or_nobody_knows_is_right(program: ReadProgram, loop: str) -> None:
    assert judge(program, START.replace("for batch in data:", loop) + END) == []


def test_uneven_steps_under_join_are_right(program: ReadProgram) -> None:
    text = START.replace("for batch in data:", "with model.join():\n  for batch in range(rank):") + END
    assert judge(program, text) == []


@shows(steps.every_rank_stays_in_the_loop)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("if rank == 0:\n    break\nloss.backward()", "rank 0 may leave"),
        ("loss.backward()\nif rank == 0 and loss < 1:\n    break", "rank 0 may leave"),
        ("if rank > 0:\n    continue\nloss.backward()", "every rank but 0 may leave"),
    ],
)
def test_a_wrapped_model_that_some_ranks_train_alone_is_found(
    program: ReadProgram, text: str, message: str
) -> None:
    (finding,) = judge(program, START + indented(text))
    assert finding.code == "DDP004"
    assert message in finding.message


@leaves_alone(steps.every_rank_stays_in_the_loop)
@pytest.mark.parametrize(
    "text",
    [
        "loss.backward()\nif rank == 0:\n    print(loss)",
        "loss.backward()\nif rank == 0:\n    for name in names:\n        break",
        "if rank == 0:\n    model(batch).backward()\nelse:\n    model(2 * batch).backward()",
        "loss.backward()\nif rank != -1:\n    break",
        "loss.backward()\nif step > 10:\n    break",
        "loss.backward()\nif rank == 0:\n    model(batch)",
        "loss.backward()\nif dist.get_world_size() > 1:\n    break",
        "loss.backward()\nif rank == 0:\n    raise ValueError",
        "if rank % 2 == 0:\n    model(batch).backward()",
        "m = DistributedDataParallel(model, process_group=g)\nif rank == 0:\n    m(batch).backward()",
    ],
)
def test_a_wrapped_model_that_all_ranks_train_is_right(program: ReadProgram, text: str) -> None:
    assert judge(program, START + indented(text)) == []
