"""What writes the state of a training, and where to."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from launcher.program.dataflow import argument_of, has_star_arguments, origins, text_parts
from launcher.program.index import class_of, last_name, parent_of, scope_of
from launcher.program.program import Program, calls_as_given
from launcher.program.values import PATH, Constant, Instance, like

SAVERS = {
    "torch.save": ("f", 1),
    "torch.jit.save": ("f", 1),
    "safetensors.torch.save_file": ("filename", 1),
    "safetensors.torch.save_model": ("filename", 1),
    "joblib.dump": ("filename", 1),
    "torch.onnx.export": ("f", 2),
    **dict.fromkeys(("torch.jit.script.save", "torch.jit.trace.save"), ("f", 0)),
    "torch_xla.xla_model.save": ("file_or_path", 1),
}
"""What writes a checkpoint to one file, and which argument is its path.

Not texts such as metrics.json, which are small and the same, nor pickle and numpy, which also write caches.
"""

WRITE_ON_ONE_RANK = {"torch_xla.xla_model.save": ("master_only", 2)}
"""Those which all ranks call and one of each host alone writes, unless this argument is False."""

SAVED_FOLDER = ("save_directory", 0)
"""Where a transformers model is saved."""

_BESIDE_MODELS = ("tokenizer", "processor", "extractor", "config", "scheduler")
"""What the names of things hold that are saved in the same way beside a model."""

SAVED_TO = {
    **{name: where for name, where in SAVERS.items() if not name.startswith("joblib.")},
    "torch.distributed.checkpoint.save": ("checkpoint_id", None),
    "transformers.TrainingArguments": ("output_dir", 0),
    "transformers.Seq2SeqTrainingArguments": ("output_dir", 0),
    "trl.SFTConfig": ("output_dir", 0),
    "lightning.pytorch.Trainer": ("default_root_dir", None),
    "lightning.pytorch.callbacks.ModelCheckpoint": ("dirpath", 0),
    **{f"lightning.pytorch.loggers.{name}": ("save_dir", 0) for name in ("TensorBoardLogger", "CSVLogger")},
    "lightning.pytorch.loggers.TestTubeLogger": ("save_dir", 0),
    "lightning.fabric.Fabric.save": ("path", 0),
    **dict.fromkeys(
        ("transformers.Trainer.train", "transformers.Seq2SeqTrainer.train"), ("args.output_dir", 1)
    ),
    "trl.SFTTrainer.train": ("args.output_dir", 2),
    "accelerate.Accelerator.save_state": ("output_dir", 0),
    "accelerate.Accelerator.save_model": ("save_directory", 1),
    "accelerate.Accelerator.save": ("f", 1),
    **dict.fromkeys(("transformers.Trainer.save_model", "trl.SFTTrainer.save_model"), ("output_dir", 0)),
    "deepspeed.DeepSpeedEngine.save_checkpoint": ("save_dir", 0),
    **dict.fromkeys(
        ("tensorflow.keras.callbacks.ModelCheckpoint", "keras.callbacks.ModelCheckpoint"), ("filepath", 0)
    ),
    "mmcv.runner.build_runner": ("default_args.work_dir", 1),
    "mmcv.runner.save_checkpoint": ("filename", 1),
    "mmengine.runner.Runner": ("work_dir", 1),
    "mmengine.runner.Runner.from_cfg": ("cfg.work_dir", 0),
    "fvcore.common.checkpoint.Checkpointer": ("save_dir", 1),
    "detectron2.checkpoint.DetectionCheckpointer": ("save_dir", 1),
    "detectron2.engine.DefaultTrainer.train": ("cfg.OUTPUT_DIR", 0),
    "timm.utils.CheckpointSaver": ("checkpoint_dir", 7),
}
"""What writes the state of a training, and which argument says where, or which of its members."""


def path_of_file(program: Program, path: ast.expr | None) -> ast.expr | None:
    """The path of what is written to: that of `open(path, "wb")`, where it is such a file."""
    value = None if path is None else program.value(path)
    if isinstance(value, Instance) and value.name == "open":
        return argument_of(value.call, "file", 0)
    if isinstance(value, Instance) and value.name == f"{PATH}.open":
        return value.call.func.value if isinstance(value.call.func, ast.Attribute) else path
    return path


def spelling_of_path(program: Program, path: ast.expr, depth: int = 10) -> str | None:
    """A text that is the same for two paths that surely are the same, wherever they are written."""
    value = program.value(path)
    if isinstance(value, Constant):
        return str(value.value)
    if not depth:
        return None
    parts, between = text_parts(program, path)
    if parts:
        texts = [spelling_of_path(program, each, depth - 1) for each in parts]
        return None if None in texts else between.join(each for each in texts if each)
    made = origins(program, path)
    if len(made) == 1 and made[0] is not None and made[0] is not path:
        return spelling_of_path(program, made[0], depth - 1)
    if isinstance(path, ast.Attribute):
        owner = spelling_of_path(program, path.value, depth - 1)
        return None if owner is None else f"{owner}.{path.attr}"
    if isinstance(path, ast.Name):
        function = scope_of(path).function
        own = class_of(function.node) if path.id == "self" and function is not None else None
        return f"<{path.id} {id(own or scope_of(path).holder_of(path.id))}>"
    return f"<{id(path)}>"  # The same expression, such as a call, by whatever names.


def state_saves(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The calls that write a state, with the file or folder that it goes to."""
    for call, name in calls_as_given(program, *SAVED_TO):
        (where, position), holder = SAVED_TO[name], parent_of(call)
        keyword, _, member = where.partition(".")
        if "heckpointer" in name and isinstance(holder, ast.Attribute):
            continue  # `DetectionCheckpointer(model, folder).load(weights)`, which saves nothing.
        made = _construction(program, call) if name.endswith(".train") else call
        if name.endswith("Trainer.train") and (made is None or _is_told_by_its_call(program, made)):
            continue
        given = None if made is None else argument_of(made, keyword, position)
        if given is None and name == _LIGHTNING_CALLBACK:
            given = argument_of(call, "filepath")  # Before version 1.0.
        if given is not None and member:
            given = like(call, ast.Attribute(given, member, ast.Load()))
        path = path_of_file(program, given) or _project_folder(program, call)
        if path is not None:
            yield call, path
    yield from _saves_of_lightning(program)
    for file in program.files:
        for call in file.calls_of.get("save_pretrained", ()):
            path = argument_of(call, *SAVED_FOLDER)
            model = last_name(call.func.value) if isinstance(call.func, ast.Attribute) else None
            if path is not None and not any(word in (model or "").lower() for word in _BESIDE_MODELS):
                yield call, path


LIGHTNING_LOGS = "lightning_logs"
"""The folder below the working directory that Lightning saves to where it is told no other."""
_LIGHTNING_TRAINERS = ("lightning.pytorch.Trainer", "lightning.pytorch.Trainer.from_argparse_args")
_LIGHTNING_CALLBACK = "lightning.pytorch.callbacks.ModelCheckpoint"


def _saves_of_lightning(program: Program) -> Iterator[tuple[ast.Call, ast.expr]]:
    """The trainer of Lightning that is told no folder, or its callback, with what it takes then."""
    callbacks = [call for call, _ in program.calls(_LIGHTNING_CALLBACK)]
    if any(argument_of(each, "dirpath", 0) or has_star_arguments(each) for each in callbacks):
        return
    for call, name in program.calls(*_LIGHTNING_TRAINERS):
        given = [argument_of(call, each) for each in ("enable_checkpointing", "checkpoint_callback")]
        is_off = any(each is not None and program.value(each) == Constant(False) for each in given)
        told = any(argument_of(call, each) for each in ("default_root_dir", "logger", "weights_save_path"))
        is_read = has_star_arguments(call) or (name == _LIGHTNING_TRAINERS[0] and bool(call.args))
        if not (is_off or told or is_read) and any(file.calls_of.get("fit") for file in program.files):
            yield (callbacks or [call])[0], like(call, ast.Constant(LIGHTNING_LOGS))


def _is_told_by_its_call(program: Program, trainer: ast.Call) -> bool:
    """Whether the arguments of transformers' Trainer are made by a call, which is asked for itself."""
    told = argument_of(trainer, "args")
    made = None if told is None else program.value(told)
    return isinstance(made, Instance) and made.name in SAVED_TO


def _construction(program: Program, call: ast.Call) -> ast.Call | None:
    """The call that makes the object whose method is called, where that is the only one."""
    made = origins(program, call.func.value) if isinstance(call.func, ast.Attribute) else ()
    return made[0] if len(made) == 1 and isinstance(made[0], ast.Call) else None


def _project_folder(program: Program, call: ast.Call) -> ast.expr | None:
    """Where `accelerator.save_state()` saves that is told nothing: below the folder of its project."""
    owner = program.value(call.func.value) if isinstance(call.func, ast.Attribute) else None
    if not isinstance(owner, Instance) or owner.name != "accelerate.Accelerator":
        return None
    project = argument_of(owner.call, "project_config")
    made = None if project is None else program.value(project)
    asked = made.call if isinstance(made, Instance) else owner.call
    return argument_of(asked, "project_dir", 0 if asked is not owner.call else None)


def is_a_cache(program: Program, call: ast.Call) -> bool:
    """Whether what is saved is surely no state of a training: data, to be read again in the same run."""
    what = argument_of(call, "obj", 0) if program.qualified(call.func) == "torch.save" else None
    written = "" if what is None else ast.unparse(what)
    if _OF_DATA.search(written) and not OF_STATES.search(written):
        return True
    found = (None,) if what is None else origins(program, what)
    parts = [part for each in found for part in _written_parts(each)]
    return len(parts) > 0 and None not in found and not any(OF_STATES.search(each) for each in parts)


_OF_DATA = re.compile(r"data(set)?s?$|^feat")
OF_STATES = re.compile(r"state|model|optim|epoch|step|weight|param|net|config|args|actor|critic|policy|agent")
"""What the parts of a training's state are called."""


def _written_parts(whole: ast.expr | None) -> list[str]:
    """What a tuple, list or dictionary holds, as it is written."""
    match whole:
        case ast.Tuple(elts=parts) | ast.List(elts=parts):
            return [ast.unparse(each) for each in parts]
        case ast.Dict(keys=keys, values=values):
            return [ast.unparse(each) for each in (*keys, *values) if each is not None]
    return []
