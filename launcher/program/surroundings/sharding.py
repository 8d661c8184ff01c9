"""Whether the parameters of a program lie in shards on its ranks, by what configures its libraries.

ZeRO's stage 3 and FSDP shard them, and often nothing of that stands in the program: a DeepSpeed JSON, the
arguments of a trainer, or the file that `accelerate launch` reads. What is not known is not sharded here.

Source: deepspeed 0.19.8, runtime/config.py; accelerate 1.15, commands/config and utils/dataclasses.py;
transformers 5.23, trainer.py (`save_model`).
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path

from launcher.program.dataflow import argument_of, constant_argument, has_star_arguments
from launcher.program.program import NOT_LOOKED_INTO, Program
from launcher.program.ranks.sharded_models import keeps_whole_model
from launcher.program.surroundings.options import as_attribute, option_of
from launcher.program.surroundings.shell_starts import ShellStarts
from launcher.program.values import Constant, Dictionary, Instance
from launcher.text.regular_files import read_regular

_LARGEST_FILE = 50_000
"""Bytes of a file that is read; those of settings have a few kilobytes."""
_MOST_FILES = 40
_TRAINER_ARGUMENTS = (
    "transformers.TrainingArguments",
    "transformers.Seq2SeqTrainingArguments",
    "trl.SFTConfig",
)
_SHARDING_WORDS = ("full_shard", "shard_grad_op", "hybrid_shard")
_OF_ACCELERATE = re.compile(r"^distributed_type:[ \t]*['\"]?(\w+)", re.MULTILINE)
_ZERO_STAGE = re.compile(r"^[ \t]+zero_stage:[ \t]*(\d)[ \t]*$", re.MULTILINE)
_ZERO_FILE = re.compile(r"^[ \t]+deepspeed_config_file:[ \t]*(\S+)[ \t]*$", re.MULTILINE)
_NOT_SHARDED = re.compile(r"^[ \t]+fsdp_sharding_strategy:[ \t]*['\"]?(?:NO_SHARD|3)\b", re.MULTILINE)
_SHARDS_SAVED = re.compile(r"SHARDED_STATE_DICT|version['\"]?:\s*['\"]?2\b")
"""Where each rank saves its own shards: a trainer collects nothing then."""


class Sharding:
    """What one program is told of shards."""

    def __init__(self, program: Program) -> None:
        """Of a program; nothing is looked at before somebody asks."""
        self._program = program
        self._roots = tuple(dict.fromkeys((program.entry.path.parent, Path(program.root))))

    def shards(self, name: str) -> bool:
        """Whether there are shards for a call of this name to collect."""
        library = name.partition(".")[0]
        if library == "accelerate":
            return self._by_accelerate
        if library in ("transformers", "trl"):
            return self._by_trainer
        return self._by_deepspeed or self._by_trainer or self._by_accelerate

    @cached_property
    def _by_deepspeed(self) -> bool:
        calls = [call for call, _ in self._program.calls("deepspeed.initialize")]
        return bool(calls) and all(map(self._is_third_stage_of_engine, calls))

    def _is_third_stage_of_engine(self, call: ast.Call) -> bool:
        given = argument_of(call, "config", 10) or argument_of(call, "config_params")
        if given is None:
            return not has_star_arguments(call) and self._is_third_stage_in(self._word("deepspeed_config"))
        return self._is_third_stage(given)

    @cached_property
    def _by_trainer(self) -> bool:
        calls = [call for call, _ in self._program.calls(*_TRAINER_ARGUMENTS)]
        if self._configuration is not None and self._is_sharded_by(self._configuration, of_trainer=True):
            return True
        if calls:
            return all(map(self._is_sharded_trainer, calls))
        if not any("HfArgumentParser" in file.mentioned for file in self._program.files):
            return False
        return self._is_third_stage_in(self._word("deepspeed")) or self._is_sharding_word(self._word("fsdp"))

    def _is_sharded_trainer(self, call: ast.Call) -> bool:
        settings, fsdp = (
            argument_of(call, "deepspeed"),
            constant_argument(self._program, argument_of(call, "fsdp")),
        )
        if settings is not None and self._is_third_stage(settings):
            return True
        if fsdp is None or not self._is_sharding_word(fsdp.value):
            return False
        given = argument_of(call, "fsdp_config")
        file = constant_argument(self._program, given)
        text = self._text_of(str(file.value)) if file else ast.unparse(given) if given else ""
        return text is not None and _SHARDS_SAVED.search(text) is None

    def _is_sharding_word(self, value: object) -> bool:
        return isinstance(value, str) and any(word in value for word in _SHARDING_WORDS)

    @cached_property
    def _by_accelerate(self) -> bool:
        calls = [call for call, _ in self._program.calls("accelerate.Accelerator")]
        plugins = [argument_of(call, name) for call in calls for name in ("deepspeed_plugin", "fsdp_plugin")]
        given = [each for each in plugins if each is not None]
        if given:
            return len(given) == len(calls) and all(map(self._is_sharding_plugin, given))
        if not calls or any(map(has_star_arguments, calls)):
            return False
        if self._configuration is not None:
            return self._is_sharded_by(self._configuration)
        if self._program.analysis(ShellStarts).starts:
            return False  # The shell script says how it is started, and names no file.
        texts = list(self._configurations_beside())
        return bool(texts) and all(map(self._is_sharded_by, texts))

    def _is_sharding_plugin(self, node: ast.expr) -> bool:
        plugin = self._program.value(node)
        if not isinstance(plugin, Instance):
            return False
        if plugin.name.endswith("FullyShardedDataParallelPlugin"):
            strategy = argument_of(plugin.call, "sharding_strategy", 0)
            return strategy is None or not keeps_whole_model(self._program, strategy)
        stage = argument_of(plugin.call, "zero_stage")
        file = argument_of(plugin.call, "hf_ds_config", 0)
        is_third = stage is not None and self._program.value(stage) == Constant(3)
        return plugin.name.endswith("DeepSpeedPlugin") and (
            is_third or (file is not None and self._is_third_stage(file))
        )

    @cached_property
    def _configuration(self) -> str | None:
        """The text of the file that `accelerate launch` is told in every line that starts the program."""
        starts = self._program.analysis(ShellStarts).starts
        names = {each.configuration for each in starts}
        name = names.pop() if len(names) == 1 else None
        return None if name is None else self._text_of(name)

    def _configurations_beside(self) -> Iterator[str]:
        """The texts of accelerate's files beside the program, and in the folders next to it."""
        above = self._program.entry.path.parent
        try:
            inner = [each for each in sorted(above.iterdir()) if each.is_dir() and each.name[0] != "."]
        except OSError:
            return
        seen = 0
        for folder in (above, *(each for each in inner if each.name not in NOT_LOOKED_INTO)):
            files = sorted(each for each in folder.iterdir() if each.suffix in (".yaml", ".yml"))
            seen += len(files)
            for file in files if seen <= _MOST_FILES else ():
                text = _read(file)
                if text is not None and _OF_ACCELERATE.search(text):
                    yield text

    def _is_sharded_by(self, text: str, *, of_trainer: bool = False) -> bool:
        found = _OF_ACCELERATE.search(text)
        if found is None:
            return False
        if found[1] == "FSDP":
            return _NOT_SHARDED.search(text) is None and not (of_trainer and _SHARDS_SAVED.search(text))
        stage, file = _ZERO_STAGE.search(text), _ZERO_FILE.search(text)
        is_third = stage is not None and stage[1] == "3"
        return found[1] == "DEEPSPEED" and (
            is_third or (file is not None and self._is_third_stage_in(file[1]))
        )

    def _is_third_stage(self, settings: ast.expr) -> bool:
        """Whether DeepSpeed's settings, a file or a table that is written, ask for ZeRO's stage 3."""
        value = self._program.value(settings)
        if isinstance(value, Constant):
            return self._is_third_stage_in(value.value)
        if isinstance(value, Dictionary):
            zero = self._entry(value, "zero_optimization")
            inner = None if zero is None else self._program.value(zero)
            stage = self._entry(inner, "stage") if isinstance(inner, Dictionary) else None
            return stage is not None and self._program.value(stage) == Constant(3)
        option = option_of(self._program, settings)
        if option is None:
            return False
        return self._is_third_stage_in(self._word(option.name) or option.value)

    def _entry(self, table: Dictionary, key: str) -> ast.expr | None:
        if not isinstance(table.node, ast.Dict):
            return argument_of(table.node, key)
        pairs = zip(table.node.keys, table.node.values, strict=True)
        return next((value for name, value in pairs if getattr(name, "value", None) == key), None)

    def _is_third_stage_in(self, file: object) -> bool:
        text = self._text_of(file) if isinstance(file, str) and file.endswith(".json") else None
        try:
            settings = json.loads(text or "null")
            return bool(settings["zero_optimization"]["stage"] == 3)
        except (ValueError, KeyError, TypeError, RecursionError):
            return False

    def _word(self, option: str) -> str | None:
        """What each line of the shell script gives an option, where it is one text that is written."""
        found = set[str | None]()
        for start in self._program.analysis(ShellStarts).starts:
            given = None
            for word, following in zip(start.words, (*start.words[1:], None), strict=True):
                name, sign, value = word.text.partition("=")
                if name.startswith("-") and as_attribute(name) == option:
                    told = word if sign else following
                    is_known = told is not None and not told.is_open and "$" not in told.text
                    given = (value if sign else told.text) if told is not None and is_known else None
            found.add(given)
        return found.pop() if len(found) == 1 else None

    def _text_of(self, name: str) -> str | None:
        if not name or name.startswith(("~", "/")) or len(name) > 300 or "\0" in name:
            return None
        return next((text for root in self._roots if (text := _read(root / name)) is not None), None)


def _read(file: Path) -> str | None:
    try:
        text = read_regular(file, _LARGEST_FILE + 1).decode("utf-8", "replace")
    except OSError:
        return None
    return text if len(text) <= _LARGEST_FILE else None
