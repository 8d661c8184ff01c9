"""Objects and calls are followed in whatever form people let them travel.

Each row of `cases/object_travel.test` is one way. `[object WAY: USE]` makes an object, `MADE`, or one of its
class, `KIND`, with what it is `GIVEN`; at the end it is USE. `[call WAY: CALL]` runs `WORK` by CALL. Each is
told as a program with a failure mode, which is found, and as one without it, which is left alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from launcher.program.program import Program
from launcher.rules.script.collectives import collectives_are_run_by_every_rank
from launcher.rules.script.data.epochs import samplers_know_the_epoch
from tests.case_files import read_parts
from tests.program.conftest import CASES, ReadProgram

HEADING = re.compile(r"\[(object|call) (.+)\]")
FRAME = """
import asyncio, argparse, contextlib, copy, functools, os, sys, threading, types
from abc import ABC, abstractmethod
from collections import defaultdict, namedtuple
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Callable, NamedTuple, cast
import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, DistributedSampler
dist.init_process_group("nccl")
data = torch.utils.data.TensorDataset(torch.ones(8, 2))
model = torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2))
class Meter:
    def __init__(self, size):
        self.sums = torch.zeros(size)
    def sync(self):
        dist.all_reduce(self.sums)
"""
EPOCHS = """
for epoch in range(9):
    {told}for batch in {use}:
        model(batch).sum().backward()
"""
LOADER = ("DataLoader", "data, batch_size=8, sampler=DistributedSampler(data)")
METER = ("Meter", "2")


def _programs(kind: str, use: str, text: str) -> Iterator[tuple[str, str, str | None]]:
    """The programs of a row, with the names of their sinks and the code that is found in each."""
    guarded = "if dist.get_rank() == 0:\n    "
    if kind == "call":
        meter = f"{FRAME}meter = Meter(2)\n{text}\n"
        work = {"WORK": "meter.sync()"}
        yield "guarded call", f"{_with(meter, work)}{guarded}{use}\n", "DDP004"
        yield "call of all", f"{_with(meter, work)}{use}\n", None
        return
    made = f"{FRAME}{text}\n"
    meters, loaders = _with(made, _object(*METER)), _with(made, _object(*LOADER))
    yield "guarded method", f"{meters}{guarded}{use}.sync()\n", "DDP004"
    yield "method of all", f"{meters}{use}.sync()\n", None
    yield "epochs", loaders + EPOCHS.format(told="", use=use), "DATA004"
    told = f"{use}.sampler.set_epoch(epoch)\n    "
    yield "epochs that are told", loaders + EPOCHS.format(told=told, use=use), None


def _object(kind: str, given: str) -> dict[str, str]:
    return {"MADE": f"{kind}({given})", "KIND": kind, "GIVEN": given}


def _with(text: str, words: dict[str, str]) -> str:
    for word, written in words.items():
        text = text.replace(word, written)
    return text


def _codes(program: Program) -> set[str]:
    found = (*collectives_are_run_by_every_rank(program), *samplers_know_the_epoch(program))
    return {each.code for each in found}


def test_objects_and_calls_are_followed_however_they_travel(program: ReadProgram) -> None:
    wrong: list[str] = []
    for part in read_parts(CASES / "object_travel.test", HEADING):
        way, _, use = part.name.rpartition(": ")
        for sink, text, code in _programs(part.kind, use, "\n".join(part.lines)):
            found = _codes(program(text))
            if found != ({code} if code else set()):
                wrong.append(f"object_travel.test:{part.number}: {way}, {sink}: {found or 'nothing'}")
    assert not wrong, "\n".join(wrong)
