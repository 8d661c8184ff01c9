"""Trouble on one rank is known on all of them: three real ranks."""

from __future__ import annotations

import math
import sys
from collections import namedtuple
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import slipway
from slipway.training.guard import (
    MOST_IN_A_ROW,
    Exhaustion,
    Memory,
    batch_size,
    device_memory,
    exhaustion_of,
    host_memory,
    memories_here,
    near_limit_text,
    parts_of,
)
from slipway.training.step_measures import MOST_STEPS_IN_BLOCK, STEPS_PER_PACE_LOOK
from tests.examples.forking import ForkedRanks
from tests.slipway.worlds import Outcome, World, run_world

RANKS = 3
OUT_OF_MEMORY = (
    "CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 79.15 GiB of which 1.00 GiB is free."
)


def training() -> tuple[Any, torch.optim.Optimizer]:
    torch.manual_seed(0)
    model: Any = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 1))
    if dist.is_initialized():
        model = nn.parallel.DistributedDataParallel(model)
    return model, torch.optim.SGD(model.parameters(), lr=0.1)


def batch_of(step: int, samples: int = 8) -> torch.Tensor:
    rank = dist.get_rank() if dist.is_initialized() else 0
    return torch.randn(samples, 4, generator=torch.Generator().manual_seed(100 * step + rank))


def weights(model: nn.Module) -> list[float]:
    return [round(number.item(), 5) for one in model.parameters() for number in one.flatten()]


def loss_with(model: nn.Module, factor: float) -> Callable[[torch.Tensor], torch.Tensor]:
    return lambda batch: model(batch).square().mean() * factor


def factor_at(step: int, broken: int) -> float:
    return math.nan if step == broken and dist.get_rank() == 1 else 1.0


def stop(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer)
    for step in range(1, 4 + MOST_STEPS_IN_BLOCK):
        print(f"step {step}", file=sys.stderr)
        guard.step(batch_of(step), loss_with(model, factor_at(step, 3)))


def stop_at_the_last_step(_: Path) -> Any:
    model, optimizer = training()
    with slipway.guard(model, optimizer) as guard:
        for step in range(1, 4):
            guard.step(batch_of(step), loss_with(model, factor_at(step, 3)))


def skip(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer, not_finite="skip")
    for step in range(1, 6):
        guard.step(batch_of(step), loss_with(model, factor_at(step, 3)))
    ours = weights(model)
    model, optimizer = training()
    for step in (1, 2, 4, 5):
        optimizer.zero_grad()
        loss_with(model, 1)(batch_of(step)).backward()
        optimizer.step()
    return ours, weights(model)


def restore(_: Path) -> Any:
    model, optimizer = training()
    saved: dict[str, Any] = {}
    restored = []

    def back() -> None:
        restored.append(step)
        model.load_state_dict(saved["state"])

    guard = slipway.guard(model, optimizer, not_finite="restore", restore=back)
    for step in range(1, 8):
        guard.step(batch_of(step), loss_with(model, factor_at(step, 4)))
        if step % 2 == 0 and guard.settle():
            saved["state"] = {name: one.clone() for name, one in model.state_dict().items()}
            saved["step"] = step
    return restored, saved["step"], weights(model)


def own_loop(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(not_finite="skip")
    steps = []
    for step in range(1, 4):
        optimizer.zero_grad()
        loss = loss_with(model, factor_at(step, 2))(batch_of(step))
        loss.backward()
        if guard.check(loss):
            optimizer.step()
            steps.append(step)
    return steps


def limited(model: nn.Module, most: int, error: Callable[[], Exception]) -> Callable[[torch.Tensor], Any]:
    """Rank 1 has memory for so many samples."""

    def loss_of(batch: torch.Tensor) -> Any:
        loss = model(batch).square().mean()
        if dist.get_rank() == 1 and len(batch) > most:
            raise error()
        return loss

    return loss_of


def split(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer, out_of_memory="split")
    losses = []
    for step in range(1, 4):
        samples = 8 if step < 3 else 5
        loss_of = limited(model, 2, lambda: RuntimeError(OUT_OF_MEMORY))
        losses.append(round(guard.step(batch_of(step, samples), loss_of).item(), 5))
    ours = weights(model)
    model, optimizer = training()
    theirs = []
    for step in range(1, 4):
        optimizer.zero_grad()
        loss = loss_with(model, 1)(batch_of(step, 8 if step < 3 else 5))
        theirs.append(round(loss.item(), 5))
        loss.backward()
        optimizer.step()
    return ours, weights(model), losses, theirs


def split_with_unused_parameters(_: Path) -> Any:
    torch.manual_seed(0)
    parts: Any = nn.ModuleDict({"a": nn.Linear(4, 1), "b": nn.Linear(4, 1), "c": nn.Linear(4, 1)})

    class Choosing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.parts = parts

        def forward(self, batch: torch.Tensor) -> Any:
            return self.parts["a" if dist.get_rank() else "b"](batch)

    model: Any = nn.parallel.DistributedDataParallel(Choosing(), find_unused_parameters=True)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    guard = slipway.guard(model, optimizer, out_of_memory="split")
    guard.step(batch_of(1), lambda batch: model(batch).square().mean())
    return weights(model), parts["c"].weight.grad is None


def one_sample_does_not_fit(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer, out_of_memory="split")
    guard.step(batch_of(1), limited(model, 0, MemoryError))


def another_error_in_a_split_step(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer, out_of_memory="split")

    def loss_of(batch: Any) -> Any:
        raise RuntimeError("mat1 and mat2 shapes cannot be multiplied")

    guard.step(batch_of(1), loss_of)


class Laborious(nn.Module):
    """Rank 1 has much more to compute, and no rank waits for it before the backward."""

    def __init__(self) -> None:
        super().__init__()
        self.last = nn.Linear(4, 1)

    def forward(self, batch: torch.Tensor) -> Any:
        work = torch.ones(128, 128)
        for _ in range(100 if dist.get_rank() == 1 else 0):
            work = work @ work * 1e-3
        return self.last(batch) + 0 * work.sum()


def slow(_: Path) -> Any:
    model: Any = nn.parallel.DistributedDataParallel(Laborious())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with slipway.guard(model, optimizer) as guard:
        for step in range(2 * STEPS_PER_PACE_LOOK + 1):
            guard.step(batch_of(step), loss_with(model, 1))


def with_join(_: Path) -> Any:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer)
    for batch in slipway.even_batches([batch_of(1)], mode="join", model=model):
        guard.step(batch, loss_with(model, 1))


CASES = [
    stop, stop_at_the_last_step, skip, restore, own_loop, split, split_with_unused_parameters,
    one_sample_does_not_fit, another_error_in_a_split_step, slow, with_join,
]  # fmt: skip


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory, forked_ranks: ForkedRanks) -> World:
    return run_world(forked_ranks, CASES, RANKS, tmp_path_factory.mktemp("world"))


def values(outcomes: list[Outcome]) -> list[Any]:
    assert [outcome.error for outcome in outcomes] == [None] * RANKS
    return [outcome.value for outcome in outcomes]


def test_a_loss_that_is_not_finite_ends_all_ranks_in_one_of_the_next_steps(world: World) -> None:
    for outcome in world["stop"]:
        assert outcome.error is not None
        assert outcome.error.startswith(
            "SlipwayError: NUM001 the loss of rank 1 on algo-2 is nan in step 3: "
        )
        assert outcome.said == world["stop"][0].said, "in the same step on all"
        assert outcome.said.startswith("step 1\nstep 2\nstep 3\nstep 4\n")


def test_the_last_step_is_looked_at_when_the_block_ends(world: World) -> None:
    for outcome in world["stop_at_the_last_step"]:
        assert "NUM001 the loss of rank 1 on algo-2 is nan in step 3" in str(outcome.error)


def test_a_skipped_step_leaves_the_weights_of_all_ranks_as_they_were(world: World) -> None:
    for ours, theirs in values(world["skip"]):
        assert ours == theirs
    assert world["skip"][0].said == (
        "slipway: NUM001 the loss of rank 1 on algo-2 is nan in step 3: the step is skipped on all ranks\n"
    )
    assert world["skip"][1].said == ""


def test_all_ranks_go_back_at_the_same_step_and_broken_weights_are_not_saved(world: World) -> None:
    outcomes = values(world["restore"])
    for restored, saved, final in outcomes:
        assert restored == [4], "settle() found it before the save of step 4"
        assert saved == 6
        assert all(math.isfinite(weight) for weight in final)
    assert outcomes[0][2] == outcomes[1][2] == outcomes[2][2]


def test_a_loop_of_ones_own_asks_whether_to_make_its_step(world: World) -> None:
    assert values(world["own_loop"]) == [[1, 3]] * RANKS


def test_where_one_rank_has_too_little_memory_all_split_and_learn_the_same(world: World) -> None:
    for ours, theirs, losses, whole in values(world["split"]):
        assert ours == pytest.approx(theirs, abs=2e-5)
        assert losses == pytest.approx(whole, abs=2e-5)
    said = world["split"][0].said.splitlines()
    assert said[0].startswith(
        "slipway: MEM001 rank 1 on algo-2 ran out of GPU memory (asked for 2.00 GiB with 1.00 GiB free) in "
        "step 1: from this step on all ranks compute each batch in 2 parts"
    )
    assert len(said) == 2 and "in 4 parts" in said[1], "once for each split, not in each step"


def test_parameters_that_some_ranks_do_not_use_are_averaged_as_ddp_does(world: World) -> None:
    outcomes = values(world["split_with_unused_parameters"])
    assert outcomes[0] == outcomes[1] == outcomes[2]
    assert outcomes[0][1], "what no rank used has no gradient"


def test_a_sample_that_does_not_fit_ends_all_ranks(world: World) -> None:
    for outcome in world["one_sample_does_not_fit"]:
        assert str(outcome.error).startswith("SlipwayError: MEM002 rank 1 on algo-2 ran out of host memory")
        assert "nothing left to split" in str(outcome.error)


def test_another_error_is_not_taken_for_memory(world: World) -> None:
    for outcome in world["another_error_in_a_split_step"]:
        assert outcome.error == "RuntimeError: mat1 and mat2 shapes cannot be multiplied"


def test_a_rank_that_is_slow_by_itself_is_named_once(world: World) -> None:
    values(world["slow"])
    named = [line for line in world["slow"][0].said.splitlines() if "rank 1 on algo-2 is slow" in line]
    assert len(named) == 1
    assert "forward" in named[0]
    assert world["slow"][2].said == ""


def test_a_guard_and_ranks_that_leave_do_not_go_together(world: World) -> None:
    for outcome in world["with_join"]:
        assert 'guard and even_batches(mode="join") do not go together' in str(outcome.error)


def test_skipping_without_end_is_ended() -> None:
    guard = slipway.guard(not_finite="skip")
    assert guard.check(1.0)
    assert not any(guard.check(math.inf) for _ in range(MOST_IN_A_ROW))
    with pytest.raises(slipway.SlipwayError, match=rf"^NUM001 .* is inf in step {MOST_IN_A_ROW + 2}, after"):
        guard.check(torch.tensor([1.0, -math.inf]).min().abs())


def test_a_good_step_begins_the_count_anew() -> None:
    guard = slipway.guard(not_finite="skip")
    for _ in range(3 * MOST_IN_A_ROW):
        guard.check(math.nan)
        assert guard.check(torch.tensor(1.0))


def test_one_process_alone_out_of_memory_says_what_was_asked_and_free() -> None:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer)

    def loss_of(_: Any) -> Any:
        raise RuntimeError(OUT_OF_MEMORY)

    with pytest.raises(slipway.SlipwayError, match=r"^MEM001 rank 0 .* \(asked for 2.00 GiB with 1.00 GiB"):
        guard.step(batch_of(1), loss_of)


def test_one_process_alone_splits(capsys: pytest.CaptureFixture[str]) -> None:
    model, optimizer = training()
    guard = slipway.guard(model, optimizer, out_of_memory="split")

    def loss_of(batch: Any) -> Any:
        if len(batch) > 4:
            raise MemoryError
        return model(batch).square().mean()

    assert guard.step(batch_of(1), loss_of) == pytest.approx(loss_with(training()[0], 1)(batch_of(1)).item())
    assert "MEM002 rank 0" in capsys.readouterr().err


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(ValueError, match="not_finite='abort' is not one of stop, skip, restore"):
        slipway.guard(not_finite="abort")
    with pytest.raises(ValueError, match="out_of_memory='halve' is not one of stop, split"):
        slipway.guard(out_of_memory="halve")
    with pytest.raises(ValueError, match="belong together"):
        slipway.guard(not_finite="restore")
    with pytest.raises(ValueError, match="belong together"):
        slipway.guard(restore=lambda: None)
    with pytest.raises(TypeError, match="needs the optimizer"):
        slipway.guard().step(torch.ones(1), lambda batch: batch.sum())


GIB = 2**30
MEMINFO = "MemTotal:       16777216 kB\nMemFree:         1000 kB\nMemAvailable:    4194304 kB\n"


def read_from(files: dict[str, str]) -> Memory | None:
    return host_memory(files.get)


def test_within_3_percent_of_the_limit_is_told() -> None:
    said = near_limit_text(Memory("GPU 0", 98 * GIB, 100 * GIB))
    assert said is not None
    assert said.startswith("GPU 0 is close to its limit: 98.0 GiB of 100.0 GiB (98.0 %)")
    assert near_limit_text(Memory("GPU 0", 97 * GIB, 100 * GIB)) is not None
    assert near_limit_text(Memory("GPU 0", 97 * GIB - 1, 100 * GIB)) is None
    assert near_limit_text(Memory("GPU 0", 0, 0)) is None


def test_what_torch_keeps_and_never_needed_counts_as_free() -> None:
    """Of 80 GiB 1 is free by the driver, but torch has 20 in its cache that it never needed at once."""
    memory = device_memory(1 * GIB, 80 * GIB, reserved=70 * GIB, allocated_at_most=50 * GIB, device=3)
    assert memory == Memory("GPU 3", 59 * GIB, 80 * GIB)
    assert device_memory(1 * GIB, 80 * GIB, 70 * GIB, 71 * GIB, 0).used == 79 * GIB


def test_a_control_group_of_version_2_counts_without_its_copies_of_files() -> None:
    memory = read_from({
        "/proc/meminfo": MEMINFO,
        "/sys/fs/cgroup/memory.max": f"{8 * GIB}\n",
        "/sys/fs/cgroup/memory.current": f"{6 * GIB}\n",
        "/sys/fs/cgroup/memory.stat": f"anon {4 * GIB}\ninactive_file {2 * GIB}\n",
    })  # fmt: skip
    assert memory == Memory("the container's memory", 4 * GIB, 8 * GIB)


def test_a_control_group_of_version_1_counts_as_well() -> None:
    memory = read_from({
        "/proc/meminfo": MEMINFO,
        "/sys/fs/cgroup/memory/memory.limit_in_bytes": f"{8 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{7 * GIB}\n",
        "/sys/fs/cgroup/memory/memory.stat": f"cache 0\ntotal_inactive_file {GIB}\n",
    })  # fmt: skip
    assert memory == Memory("the container's memory", 6 * GIB, 8 * GIB)


@pytest.mark.parametrize(
    "files",
    [
        {"/sys/fs/cgroup/memory.max": "max\n", "/sys/fs/cgroup/memory.current": f"{6 * GIB}\n"},
        {
            "/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
            "/sys/fs/cgroup/memory/memory.usage_in_bytes": f"{6 * GIB}\n",
        },
        {},
    ],
)
def test_without_a_limit_of_its_own_the_hosts_memory_counts(files: dict[str, str]) -> None:
    assert read_from({"/proc/meminfo": MEMINFO, **files}) == Memory("the host's memory", 12 * GIB, 16 * GIB)


@pytest.mark.parametrize("text", ["", "MemTotal:", "MemTotal: many kB", "\x00\xff"])
def test_what_cannot_be_read_is_not_judged(text: str) -> None:
    assert read_from({"/proc/meminfo": text}) is None


def test_this_host_has_a_memory() -> None:
    if not Path("/proc/meminfo").exists():
        pytest.skip("no /proc here")
    (memory,) = [one for one in memories_here(with_host=True) if "GPU" not in one.what]
    assert 0 < memory.used < memory.limit
    assert [one for one in memories_here(with_host=False) if "GPU" not in one.what] == []


Pair = namedtuple("Pair", ["image", "label"])


@given(st.integers(1, 100), st.integers(1, 40))
def test_every_sample_is_in_one_part_and_parts_are_nearly_alike(samples: int, parts: int) -> None:
    cut = parts_of(torch.arange(samples), parts)
    assert torch.cat(cut).tolist() == list(range(samples))
    sizes = [len(part) for part in cut]
    assert len(sizes) == min(parts, samples)
    assert max(sizes) - min(sizes) <= 1


def test_dicts_lists_and_tuples_are_cut_within() -> None:
    batch = {
        "pair": Pair(torch.arange(4), [torch.ones(4, 2)]),
        "names": ["a", "b", "c", "d"],
        "scale": torch.tensor(2.0),
        "mode": "train",
    }
    first, second = parts_of(batch, 2)
    assert isinstance(first["pair"], Pair)
    assert first["pair"].image.tolist() == [0, 1]
    assert second["pair"].label[0].shape == (2, 2)
    assert (first["names"], second["names"]) == (["a", "b"], ["c", "d"])
    assert first["scale"] is second["scale"] is batch["scale"]
    assert first["mode"] == "train"


@pytest.mark.parametrize(
    "batch",
    [
        "text",
        {},
        torch.tensor(1.0),
        [torch.ones(3, 8, 8), torch.ones(5, 4)],
        (torch.ones(4, 2), torch.ones(2, 2)),
    ],
)
def test_where_it_is_not_plain_what_counts_samples_nothing_is_guessed(batch: Any) -> None:
    with pytest.raises(TypeError, match="cannot be split into parts"):
        batch_size(batch)


TORCH_1_13 = (
    "CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 15.78 GiB total capacity; 14.23 GiB already "
    "allocated; 18.75 MiB free; 14.61 GiB reserved in total by PyTorch) If reserved memory is >> allocated"
)
TORCH_2_1 = (
    "CUDA out of memory. Tried to allocate 1.96 GiB. GPU 5 has a total capacty of 23.43 GiB of which 198.06 "
    "MiB is free. Including non-PyTorch memory, this process has 23.23 GiB memory in use."
)
CPU = (
    "[enforce fail at alloc_cpu.cpp:114] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to "
    "allocate 94371840000 bytes. Error code 12 (Cannot allocate memory)"
)


@pytest.mark.parametrize(
    ("error", "found"),
    [
        (RuntimeError(TORCH_1_13), Exhaustion("MEM001", "20.00 MiB", "18.75 MiB")),
        (torch.cuda.OutOfMemoryError(TORCH_2_1), Exhaustion("MEM001", "1.96 GiB", "198.06 MiB")),
        (RuntimeError("CUDA error: out of memory"), Exhaustion("MEM001", None, None)),
        (
            RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"),
            Exhaustion("MEM001", None, None),
        ),
        (RuntimeError(CPU), Exhaustion("MEM002", "94371840000 bytes", None)),
        (MemoryError(), Exhaustion("MEM002", None, None)),
        (
            MemoryError("Unable to allocate 12.0 GiB for an array with shape (1,)"),
            Exhaustion("MEM002", "12.0 GiB", None),
        ),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), None),
        (ValueError("out of memory is what this model dreams of"), None),
    ],
)
def test_each_text_is_understood(error: Exception, found: Exhaustion | None) -> None:
    assert exhaustion_of(error) == found


def test_a_real_allocation_that_fails_is_recognised() -> None:
    with pytest.raises(RuntimeError) as raised:
        torch.empty(2**60, dtype=torch.uint8)
    found = exhaustion_of(raised.value)
    assert found is not None
    assert (found.code, found.asked) == ("MEM002", f"{2**60} bytes")
