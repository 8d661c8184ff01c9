"""Which objects below a checkpoint prefix are the newest complete checkpoint. Pure: names, sizes, times.

How training code lays out checkpoints, and what it writes last:
- a folder or file per step, the step in its name (`checkpoint-500`, `epoch=3-step=1500.ckpt`);
- torch.distributed.checkpoint writes `.metadata` into the folder after all ranks' parts
  (pytorch, distributed/checkpoint/filesystem.py, finish); the transformers Trainer `trainer_state.json`
  (huggingface/transformers, trainer.py, _save_checkpoint);
- a file per rank, the rank in its name (`step-500-rank3.pt`, `mp_rank_00_model_states.pt`);
- DeepSpeed and Megatron name the newest complete one in a file of its own, written last;
- slipway.CheckpointManager gives each checkpoint a manifest, written last, which names its files and sizes.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

POINTERS: Mapping[str, Callable[[str], str]] = {
    "latest": str.strip,
    "latest_checkpointed_iteration.txt": lambda text: f"iter_{text.strip():0>7}",
}
"""Files that name the newest complete checkpoint, and how their text becomes its name."""

MARKERS = frozenset({".metadata", "trainer_state.json", "_COMPLETE", "_SUCCESS"})
"""Files that a checkpoint's folder gets when all else is in it."""

_UNFINISHED = re.compile(
    r"(^|/)\.?tmp[-_.]|\.(tmp|temp|part|partial|incomplete|writing|saving)(/|$)|\.sagemaker-upload(ing|ed)$"
)
_RANK = re.compile(
    r"(rank|shard|host|node|algo|worker|process)s?[-_.=]?\d+|(?<!\d)\d+[-_]of[-_]\d+|__\d+_\d+\.distcp",
    re.IGNORECASE,
)
_NUMBER = re.compile(r"\d+")
_MANAGED = re.compile(r"step-\d{12}-[0-9a-f]{8}")
"""A folder of slipway.CheckpointManager: step, and a token of the start that saved it."""

MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class StoredObject:
    """An object below the prefix: its name there, with slashes, and its bytes."""

    name: str
    size: int


@dataclass(frozen=True, slots=True)
class CheckpointChoice:
    """What to copy: the names of the checkpoint, all objects that go along, and newer names passed over."""

    names: Sequence[str]
    objects: Sequence[StoredObject]
    incomplete: Sequence[str] = ()


def choose_checkpoint(
    objects: Iterable[StoredObject],
    pointers: Mapping[str, str] | None = None,
    manifests: Mapping[str, str] | None = None,
) -> CheckpointChoice:
    """The newest complete checkpoint among the objects below a prefix.

    `pointers` holds the texts of the files in POINTERS that are there, `manifests` those of MANIFEST by the
    folder that each is in. What slipway.CheckpointManager saved counts where its manifest does and all its
    files are there with their sizes. Of other files a checkpoint is all that bears the
    same numbers in its top-level name, but for a rank's (`model-500.pt` with `optimizer-500.pt`); the
    highest numbers are the newest. Names that have their numbers to themselves (`resnet50.pt` beside
    `checkpoint-3.pt`) count as another series, and each series gives its newest. What has no number (a
    configuration, a pointer, `best.pt`) goes along.

    Complete is one that a pointer names or that holds a marker; where the series has no markers, one with
    as many files as any other of the series, for the newest may still have been written when the job ended.
    Files under the names of unfinished work are left out everywhere.
    """
    kept = [each for each in objects if not _UNFINISHED.search(each.name) and not each.name.endswith("/")]
    managed = _newest_managed([each for each in kept if is_managed(each)], manifests or {})
    kept = [each for each in kept if not is_managed(each)]
    pointed = {POINTERS[file](text) for file, text in (pointers or {}).items()}
    names = list(managed.names)
    chosen = [*(each for each in kept if not _numbers(each)), *managed.objects]
    passed = list(managed.incomplete)
    for steps in _series([each for each in kept if _numbers(each)]):
        newest_first = sorted(steps, reverse=True)
        complete = _complete(steps, pointed)
        step = next(step for step in newest_first if step in complete)
        names += sorted({_top(each) for each in steps[step]})
        chosen += steps[step]
        newer = newest_first[: newest_first.index(step)]
        passed += sorted({_top(each) for step in newer for each in steps[step]})
    return CheckpointChoice(names, chosen, passed)


def is_managed(item: StoredObject) -> bool:
    """Whether an object lies in a folder of slipway.CheckpointManager."""
    return "/" in item.name and _MANAGED.fullmatch(_top(item)) is not None


def _newest_managed(objects: Sequence[StoredObject], manifests: Mapping[str, str]) -> CheckpointChoice:
    """The newest of slipway.CheckpointManager's that is whole; its manifest is the last of the objects."""
    passed: list[str] = []
    for folder in sorted({_top(each) for each in objects}, reverse=True):
        there = {each.name: each for each in objects if _top(each) == folder}
        files = _files_of(manifests.get(folder, ""))
        found = [there.get(f"{folder}/{name}") for name, size in files.items()]
        whole = [
            each for each in found if each is not None and each.size == files[each.name[len(folder) + 1 :]]
        ]
        if files and len(whole) == len(files):
            return CheckpointChoice([folder], [*whole, there[f"{folder}/{MANIFEST}"]], passed)
        passed.append(folder)
    return CheckpointChoice([], [], passed)


def _files_of(manifest: str) -> dict[str, int]:
    """The names and sizes that a manifest tells; nothing where it is none.

    The resuming job reads it strictly (slipway/checkpoints/manifest.py) and verifies every file.
    """
    try:
        files = json.loads(manifest)["files"]
        return {str(each["name"]): int(each["bytes"]) for each in files}
    except (ValueError, TypeError, KeyError, RecursionError):
        return {}


_Steps = dict[tuple[int, ...], list[StoredObject]]


def _series(objects: Iterable[StoredObject]) -> list[_Steps]:
    """The numbered objects by their numbers, in series that have numbers in common."""
    by_pattern: dict[str, _Steps] = defaultdict(lambda: defaultdict(list))
    for each in objects:
        by_pattern[_NUMBER.sub("#", _RANK.sub("*", _top(each)))][_numbers(each)].append(each)
    joined: list[_Steps] = []
    for steps in by_pattern.values():
        apart = []
        for other in joined:
            if steps.keys().isdisjoint(other):
                apart.append(other)
            else:
                steps = {step: [*other.get(step, ()), *steps.get(step, ())] for step in {**other, **steps}}
        joined = [*apart, steps]
    return joined


def _complete(steps: _Steps, pointed: Collection[str]) -> set[tuple[int, ...]]:
    """The steps of a series that are complete; there is always one."""
    named = {step for step, members in steps.items() if any(_top(each) in pointed for each in members)}
    marked = {step for step, members in steps.items() if any(map(_is_marker, members))}
    fullest = max(map(len, steps.values()))
    return named or marked or {step for step, members in steps.items() if len(members) == fullest}


def _top(item: StoredObject) -> str:
    return item.name.split("/")[0]


def _numbers(item: StoredObject) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(_RANK.sub("*", _top(item))))


def _is_marker(item: StoredObject) -> bool:
    _, slash, name = item.name.rpartition("/")
    return bool(slash) and name in MARKERS
