"""The job file of a training script: what the script says itself, and questions about the rest.

Options of the script stand there with their own defaults, commented out: a hyperparameter is what a job
changes. What an option requires, which data a channel holds and which hosts are taken is asked.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from launcher.drafts.hydra_config import HydraConfig
from launcher.drafts.job_draft import (
    DraftDefault,
    DraftField,
    DraftNote,
    DraftQuestion,
    JobDraft,
    SourceLine,
)
from launcher.drafts.script_uses import (
    Assumptions,
    ProcessStart,
    Saving,
    choose_start,
    find_assumptions,
    find_saving,
    is_kept_already,
    line_in_entry,
    place_of,
)
from launcher.frozen import frozen
from launcher.jobs.job_sections import DEFAULT_REQUIREMENTS
from launcher.planning.images import image_release, image_versions
from launcher.program.dataflow import calculate_number
from launcher.program.index import parent_of
from launcher.program.program import Program
from launcher.program.surroundings.channels import channel_reads
from launcher.program.surroundings.flags import flag_parsers
from launcher.program.surroundings.options import as_attribute
from launcher.program.surroundings.parsers import DeclaredWords, ScriptParser, script_parsers
from launcher.program.values import Constant, External
from launcher.source.requirements_file import RequirementsFile

GPU_TYPE, CPU_TYPE, LIBRARY_TYPE = "ml.g5.xlarge", "ml.m5.xlarge", "ml.p4d.24xlarge"
_WITH_GPUS = {1: GPU_TYPE, 4: "ml.g5.12xlarge", 8: "ml.g5.48xlarge"}
_WHICH = {
    **dict.fromkeys(_WITH_GPUS.values(), "This is the smallest with so many GPUs that know bf16"),
    GPU_TYPE: "This is the smallest with a GPU that knows bf16",
    CPU_TYPE: "This is a small one without a GPU",
    LIBRARY_TYPE: "This is one on which SageMaker's library runs",
}
"""What stands for hosts that nobody has chosen (Amazon EC2 instance types, accelerated computing and general
purpose; SageMaker's documentation of smddp and smp, supported instance types)."""

EXAMPLE_CLUSTER = "dev"


_TRAINER = ("the Trainer", "PyTorch Lightning")
"""How the reasons of strategies begin whose trainers save by themselves."""

_ARGUMENTS = ("code", "arguments")


@frozen
class ScriptSource:
    """A script as it was found: `code` are the fields `source_dir` and `entry_point` or `module` of its job,
    `name` the job's. `program` is None of a shell script, of which `shell` is the text; `config` is what
    Hydra reads, None without one. `requirements` are what is installed, None without a file;
    `packages_named_in` is then the path of another file that names packages: of the project's own, beside the
    code, or a requirements.txt in a folder above it. With `leaves_requirements_out` there is a file, and
    .gitignore or .slipwayignore leaves it out.
    """

    shown: str
    name: str
    code: Mapping[str, str]
    program: Program | None
    shell: str = ""
    config: HydraConfig | None = None
    requirements: RequirementsFile | None = None
    packages_named_in: str | None = None
    leaves_requirements_out: bool = False


@frozen
class GivenByUser:
    """What the user has said of the job already; None is not said. `arguments` are words for the script."""

    instance_type: str | None = None
    instance_count: int | None = None
    processes: int | None = None
    cluster: str | None = None
    arguments: tuple[str, ...] = ()


def default_instance_type(script: ScriptSource, processes: int | None = None) -> str:
    """What stands for the hosts of a script until somebody has chosen, with so many processes on each."""
    if script.program is None:
        return CPU_TYPE
    if script.program.analysis(choose_start).strategy in ("smp", "smddp"):
        return LIBRARY_TYPE
    compiled = script.program.analysis(choose_start).strategy == "torch_xla"
    if not compiled and not script.program.analysis(find_assumptions).speaks_of_gpus:
        return CPU_TYPE
    return next((name for gpus, name in _WITH_GPUS.items() if gpus >= (processes or 1)), CPU_TYPE)


def draft_script(script: ScriptSource, wanted: GivenByUser) -> JobDraft:
    """The draft of a script's job, with all that is open as questions."""
    parts: list[Part] = [
        DraftField(("name",), script.name),
        DraftField(("code",), dict(script.code), _about_requirements(script)),
        *_of_cluster(wanted),
    ]
    if script.program is None:
        parts += [DraftField(("framework",), {"name": "pytorch"}, _VERSION), *_of_shell(script.shell)]
        parts += _of_hosts(wanted, Assumptions(False), CPU_TYPE)
    else:
        parts += _of_program(script, script.program, wanted)
    if wanted.arguments:
        own = [each.value for each in parts if isinstance(each, DraftField) and each.path == _ARGUMENTS]
        parts.append(DraftField(_ARGUMENTS, [*(word for words in own for word in words), *wanted.arguments]))
    return JobDraft(
        f"Made by `launch init {script.shown}`. What stands behind TODO could not be read from the script; "
        "what is commented out holds without being said.",
        tuple(_merged(each for each in parts if isinstance(each, DraftField))),
        tuple(each for each in parts if isinstance(each, DraftQuestion)),
        tuple(each for each in parts if isinstance(each, DraftDefault)),
        tuple(each for each in parts if isinstance(each, DraftNote)),
    )


Part = DraftField | DraftQuestion | DraftDefault | DraftNote


def _source_line(line: int | None) -> SourceLine | None:
    return None if line is None else SourceLine(line)


def _merged(fields: Iterator[DraftField]) -> Iterator[DraftField]:
    """Fields of sections before those within them, so that the latter are added."""
    yield from sorted(fields, key=lambda each: len(each.path))


_VERSION = "the newest version with an image that is still patched; such as `version: 2.8.0` pins one"


def _of_program(script: ScriptSource, program: Program, wanted: GivenByUser) -> Iterator[Part]:
    start, assumed = program.analysis(choose_start), program.analysis(find_assumptions)
    saving = find_saving(program)
    framework = _framework(program, script.requirements)
    if framework.value["name"] == "tensorflow" and start.strategy == "torchrun":
        start = ProcessStart("none", "one process per host, as torchrun starts no TensorFlow")
    yield framework
    yield from _of_other_framework(program)
    if not _does_something(program):
        yield DraftQuestion(
            ("code", "entry_point"),
            "nothing runs when this file is started, as it only defines: which script calls it?",
            "train.py",
        )
    yield DraftField(("distribution", "strategy"), start.strategy, start.reason)
    if start.question:
        yield DraftQuestion(("distribution", "strategy"), start.question, None, _source_line(start.line))
    if wanted.processes is not None:
        yield DraftField(("distribution", "processes_per_host"), wanted.processes)
    if start.options:
        yield DraftField(("distribution", "options"), dict(start.options))
    yield from _of_hosts(wanted, assumed, default_instance_type(script, wanted.processes))
    if saving is not None and saving.place:
        yield DraftField(
            ("checkpoint",),
            {},
            f"the script saves ({saving.place}): what is below SM_CHECKPOINT_DIR goes to S3, and comes back",
        )
    elif start.reason.startswith(_TRAINER):
        yield DraftQuestion(
            ("checkpoint",),
            "where does the Trainer save? Below SM_CHECKPOINT_DIR is kept what it saves, with this.",
            {},
        )
    if script.config is not None or _is_hydra(program):
        yield from _of_hydra(script.config)
        yield from _of_channels(program)
    else:
        channels = list(_of_channels(program))
        yield from channels
        yield from _of_parsers(program, saving, wanted.arguments, knows_data=bool(channels))


def _does_something(program: Program) -> bool:
    """Whether the entry does more than import, define and set names when it is started."""
    quiet = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Import, ast.ImportFrom, ast.Pass)
    for each in program.entry.tree.body:
        if isinstance(each, quiet) or (isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)):
            continue
        calls = any(isinstance(node, ast.Call) for node in ast.walk(each))
        if calls or not isinstance(each, ast.Assign | ast.AnnAssign | ast.If):
            return True
    return False


def _framework(program: Program, requirements: RequirementsFile | None) -> DraftField:
    """PyTorch or TensorFlow, in the version that the requirements pin, where there is an image of it.

    Where they exclude the newest image, it is the newest that they allow.
    """
    modules = _imported(program)
    name = "tensorflow" if {"tensorflow", "keras"} & modules and "torch" not in modules else "pytorch"
    package = "torch" if name == "pytorch" else name
    for each in requirements.packages if requirements else ():
        said = each.requirement
        if said is None or said.name.lower() != package or said.marker is not None:
            continue
        exact = [one.version for one in said.specifier if one.operator == "==" and "*" not in one.version]
        pins = [each.partition("+")[0] for each in exact]
        release = image_release(name, pins[0]) if len(pins) == 1 else None
        if release is not None:
            return DraftField(("framework",), {"name": name, "version": pins[0]}, f"as {each.place} has it")
        allowed = [version for version in image_versions(name) if said.specifier.contains(version)]
        if allowed and allowed[-1] != image_versions(name)[-1]:
            comment = f"the newest with an image that {each.place} allows"
            return DraftField(("framework",), {"name": name, "version": allowed[-1]}, comment)
        if pins and not allowed:
            comment = f"{each.place} asks for {pins[0]}, of which there is no image; {_VERSION}"
            return DraftField(("framework",), {"name": name}, comment)
    return DraftField(("framework",), {"name": name}, _VERSION)


def _imported(program: Program) -> set[str]:
    """The topmost modules of what a program imports."""
    return {(each.module or "").partition(".")[0] for file in program.files for each in file.imports}


_OTHER_FRAMEWORKS = ("jax", "flax", "mxnet", "paddle", "mindspore")


def _of_other_framework(program: Program) -> Iterator[Part]:
    """A question where a program trains with neither PyTorch nor TensorFlow."""
    modules = _imported(program)
    other = next((each for each in _OTHER_FRAMEWORKS if each in modules), None)
    if other is not None and modules.isdisjoint({"torch", "tensorflow", "keras"}):
        yield DraftQuestion(
            ("framework",),
            f"the script imports {other}, and neither PyTorch nor TensorFlow, for which alone there are "
            f"images: have the requirements install {other}.",
        )


def _about_requirements(script: ScriptSource) -> str:
    found, named = script.requirements, script.packages_named_in
    if found is None and named is not None and named.endswith(DEFAULT_REQUIREMENTS):
        return f"nothing is installed: {named} lies outside of `source_dir`, which may be its folder instead"
    if found is None and named is not None:
        return (
            f"nothing is installed: there is no {DEFAULT_REQUIREMENTS}; one with the line `.` installs what "
            f"{named} names"
        )
    if found is not None and not found.packages:
        return f"nothing is installed: {DEFAULT_REQUIREMENTS} names no package that pip reads"
    if found is None and script.leaves_requirements_out:
        return f"nothing is installed: an ignore file leaves {DEFAULT_REQUIREMENTS} out"
    if found is None:
        return f"nothing is installed: there is no {DEFAULT_REQUIREMENTS}"
    names = ", ".join(each.text for each in found.packages[:12])
    more = len(found.packages) - 12
    return f"installed first: {names}{f' and {more} more' if more > 0 else ''}"


def _of_cluster(wanted: GivenByUser) -> Iterator[Part]:
    if wanted.cluster is not None:
        yield DraftField(("cluster",), wanted.cluster)
    else:
        yield DraftQuestion(
            ("cluster",),
            "which cluster? It brings role, network and buckets; without one give role_arn and "
            "output.s3_uri. Neither is needed with --local.",
            EXAMPLE_CLUSTER,
        )


def _of_hosts(wanted: GivenByUser, assumed: Assumptions, default: str) -> Iterator[Part]:
    said = [f"The script names {', '.join(assumed.precisions)}."] if assumed.precisions else []
    said += [f"It takes for granted: {'; '.join(assumed.sizes)}."] if assumed.sizes else []
    yield DraftField(("resources", "instance_type"), wanted.instance_type or default, " ".join(said))
    if wanted.instance_type is None:
        yield DraftQuestion(
            ("resources", "instance_type"), f"which hosts? {_WHICH[default]}, and enough for --local."
        )
    yield DraftField(("resources", "instance_count"), wanted.instance_count or 1)


# The words of the command line.


def _of_parsers(
    program: Program, saving: Saving | None, words: tuple[str, ...], *, knows_data: bool
) -> Iterator[Part]:
    """The options of all parsers of the script; `words` are what the user gives it, and `knows_data` says
    that the script is seen to read channels already."""
    parsers = list(script_parsers(program)) or list(script_parsers(program, in_some_runs=True))
    parsers = parsers or list(flag_parsers(program))
    declared = list({each.names: each for parser in parsers for each in parser.declared}.values())
    given = {as_attribute(each.partition("=")[0]) for each in words if each.startswith("-")}
    folders = {
        option: folder
        for option, folder in _folders_to_give(program, declared, saving)
        if as_attribute(option) not in given
    }
    if any(map(_has_output_folder, parsers)) and "output_dir" not in given:
        folders["--output_dir"] = "${SM_CHECKPOINT_DIR}"
    for option, folder in folders.items():
        yield DraftField(("hyperparameters", option.lstrip("-")), folder, "where the script saves")
    left = [each for each in declared if _attribute(each) not in {*given, *map(as_attribute, folders)}]
    yield from _of_options(program, left)
    if saving is None:
        yield from _of_checkpoint_options(program, left)
    if not knows_data:
        yield from _of_data_options(program, left)
    libraries = dict.fromkeys(name.rpartition(".")[2] for each in parsers for name in each.of_libraries)
    others = [f"those of {name}" for name in libraries]
    if not others and not all(parser.knows_all for parser in parsers):
        others = ["others that could not be read"]
    if any(map(_hyperparameter, left)):
        also = f", and {' and '.join(others)}" if others else ""
        yield DraftNote(("hyperparameters",), f"the script's own options, as they are by default{also}")
    elif others or (not parsers and _has_parser(program)):
        yield DraftQuestion(
            ("hyperparameters", "..."),
            "which options are changed? Not all could be read; `python SCRIPT --help` shows them.",
        )
    elif not parsers:
        yield from _of_own_words(program)


_READ_AS_PAIRS = ("omegaconf.OmegaConf.from_cli",)


def _of_own_words(program: Program) -> Iterator[Part]:
    """A question about what a program without a parser takes from sys.argv, or by the file that it runs."""
    for call, _ in program.calls(*_READ_AS_PAIRS):
        yield DraftQuestion(
            _ARGUMENTS,
            "the script takes words such as seed=1 (OmegaConf.from_cli): which are given?",
            ["..."],
            _source_line(line_in_entry(program, call)),
        )
        return
    for file in program.files:
        uses = [
            parent_of(use)
            for use in (*file.attributes.get("argv", ()), *file.names.get("argv", ()))
            if program.value(use) == External("sys.argv")
        ]
        taken = [each for each in uses if isinstance(each, ast.Subscript) and not _is_own_name(each.slice)]
        run = [each for each in file.calls_of.get("exec", ()) if "open" in ast.unparse(each)]
        for node in (*taken, *run):
            what = "runs another file" if node in run else "reads sys.argv"
            line = line_in_entry(program, node)
            where = f" ({place_of(program, node)})" if line is None else ""
            yield DraftQuestion(
                _ARGUMENTS,
                f"the script {what} itself{where}: which arguments does it take?",
                ["..."],
                _source_line(line),
            )
            return


def _is_own_name(index: ast.expr) -> bool:
    """Whether a place in sys.argv is the first, the script's name."""
    return isinstance(index, ast.Constant) and index.value == 0


def _of_options(program: Program, left: Sequence[DeclaredWords]) -> Iterator[Part]:
    needed = [
        each
        for each in left
        if (_is_needed(each) if not each.names[0].startswith("-") else _is_for_arguments_alone(each))
    ]
    if needed:
        names = ", ".join(f"`{each.names[0]}`{_one_of(each)}" for each in needed)
        yield DraftQuestion(
            _ARGUMENTS,
            f"the script requires {'the argument' if len(needed) == 1 else 'the arguments'} {names}.",
            [word for each in needed for word in _example_words(each)],
            _source_line(line_in_entry(program, needed[0].node)),
        )
    options = [each for each in left if each.names[0].startswith("-")]
    switches = [each for each in options if each.is_switch and not _is_for_arguments_alone(each)]
    lettered = [
        each
        for each in options
        if not each.is_switch and _hyperparameter(each) is None and not _is_for_arguments_alone(each)
    ]
    for each in options:
        if each not in switches and _hyperparameter(each) is not None:
            yield _of_option(program, each)
    if lettered:
        words = " ".join(f"{each.names[0]} {_default_in_words(program, each)}" for each in lettered)
        yield DraftNote(("code",), f"options that no hyperparameter becomes, for `arguments`: {words}")
    if switches:
        names = " ".join(_long_name(each) or each.names[0] for each in switches)
        yield DraftNote(("code",), f"switches of the script, for `arguments`: {names}")


def _is_needed(words: DeclaredWords) -> bool:
    may_be_none = (argparse.OPTIONAL, argparse.ZERO_OR_MORE, argparse.REMAINDER)
    return bool(words.settings.get("required", True)) and words.settings.get("nargs") not in may_be_none


def _example_words(words: DeclaredWords) -> tuple[str, ...]:
    name = words.names[0]
    return (name, "...") if name.startswith("-") else (str(next(iter(_choices_of(words)), name.upper())),)


def _choices_of(words: DeclaredWords) -> Sequence[Any]:
    return words.settings.get("choices") or ()


def _one_of(words: DeclaredWords) -> str:
    choices = _choices_of(words)
    return f" (one of {', '.join(map(str, choices))})" if choices else ""


def _is_for_arguments_alone(words: DeclaredWords) -> bool:
    """Whether an option is required and has no name that a hyperparameter could have."""
    return bool(words.settings.get("required")) and _hyperparameter(words) is None


def _default_in_words(program: Program, words: DeclaredWords) -> str:
    value = None if words.default is None else program.value(words.default)
    return str(value.value) if isinstance(value, Constant) else "..."


def _has_output_folder(parser: ScriptParser) -> bool:
    """Whether the options are those of transformers' TrainingArguments or what is made of them."""
    return any(
        re.search(r"(TrainingArguments|(SFT|DPO|GRPO|Reward)Config)$", name) for name in parser.of_libraries
    )


def _folders_to_give(
    program: Program, declared: Sequence[DeclaredWords], saving: Saving | None
) -> Iterator[tuple[str, str]]:
    """The options by which the job says where to save, and the folder or file that each is given; not those
    that find SageMaker's folders themselves, nor those of the data, beside which a script keeps what it made
    of them."""
    for folder in saving.folders if saving else ():
        for each in declared:
            option = _long_name(each)
            if _attribute(each) != folder.name or not option or is_kept_already(each.default):
                continue
            kept = f"${{{'SM_MODEL_DIR' if folder.is_of_model else 'SM_CHECKPOINT_DIR'}}}"
            if folder.is_file:
                default = None if each.default is None else program.value(each.default)
                if isinstance(default, Constant) and default.value and isinstance(default.value, str):
                    yield option, f"{kept}/{PurePosixPath(default.value).name}"
            elif not _NAMES_DATA.search(option[2:]):
                yield option, kept


def _attribute(words: DeclaredWords) -> str:
    return as_attribute(_long_name(words) or words.names[0])


def _long_name(words: DeclaredWords) -> str | None:
    return next((each for each in words.names if each.startswith("--")), None)


def _hyperparameter(words: DeclaredWords) -> str | None:
    """The name by which a hyperparameter becomes the option: `--lr` of `lr`, `-e` of `e`; None of `--p`, as a
    name of one letter is given as `-p`."""
    long = _long_name(words)
    if long is not None and len(long) > len("--p"):
        return long[2:]
    return next((each[1:] for each in words.names if re.fullmatch(r"-\w", each)), None)


def _of_option(program: Program, words: DeclaredWords) -> Part:
    """What stands for an option: a question where it is required, else its default."""
    name = str(_hyperparameter(words))
    value = Constant(None) if words.default is None else program.value(words.default)
    if words.settings.get("required"):
        said = value.value if isinstance(value, Constant) else None
        is_data = said is None and _DATA.search(name) is not None
        return DraftQuestion(
            ("hyperparameters", name),
            f"the script requires --{name}{_one_of(words)}"
            f"{' (its data: a channel of `inputs`)' if is_data else ''}.",
            _example(name, words) if said is None else said,
            _source_line(line_in_entry(program, words.node)),
        )
    counted = None if words.default is None else calculate_number(program, words.default, lambda _: None)
    if isinstance(words.default, ast.Call | ast.BinOp) and counted is not None:
        return DraftDefault(("hyperparameters", name), counted)
    if isinstance(value, Constant):
        return DraftDefault(("hyperparameters", name), value.value)
    assert words.default is not None
    return DraftDefault(("hyperparameters", name), None, _source_of(words.default))


def _example(name: str, words: DeclaredWords) -> Any:
    """What a required option could be given: a folder of SageMaker's by what its name says, or a choice."""
    if _DATA.search(name):
        return "${SM_CHANNEL_TRAIN}"
    if _CHECKPOINTS.search(name):
        return "${SM_CHECKPOINT_DIR}"
    return _choices_of(words)[0] if _choices_of(words) else "..."


def _source_of(default: ast.expr) -> str:
    """A default as it is written; of a dataclass's field what its factory gives."""
    if isinstance(default, ast.Call):
        for keyword in default.keywords:
            if keyword.arg == "default_factory" and isinstance(keyword.value, ast.Lambda):
                return ast.unparse(keyword.value.body)
    return ast.unparse(default)


_NAMES_DATA = re.compile(
    r"^(train|training|input)?[-_]?(data|dataset|corpus)([-_]?(dir|path|root|folder|files?))?$", re.IGNORECASE
)
_DATA = re.compile(
    rf"{_NAMES_DATA.pattern}|^(train|training|input)[-_](dir|path|root|folder|files?)$|^root[-_](dir|path|folder)$",
    re.IGNORECASE,
)
"""Names of options by which scripts take the folder or file of their data: surely, and as a rule."""

_CHECKPOINTS = re.compile(
    r"^(checkpoints?|ckpts?|snapshots?|save|output|out)([-_]?(dir|path|root|folder))?$", re.IGNORECASE
)
"""Names of options by which scripts take the folder into which they save."""


def _of_data_options(program: Program, left: Sequence[DeclaredWords]) -> Iterator[Part]:
    """A question about the option that names data, whether these are files: one that is a path by default,
    or else the first."""
    named = list[tuple[DeclaredWords, str, str | None]]()
    for each in left:
        name = _hyperparameter(each)
        value = Constant(None) if each.default is None else program.value(each.default)
        if not name or not _DATA.search(name) or each.settings.get("required"):
            continue
        if isinstance(value, Constant) and (value.value is None or isinstance(value.value, str)):
            named.append((each, name, value.value))
    named.sort(key=lambda one: "/" not in (one[2] or ""))
    for each, name, default in named[:1]:
        by_default = "" if default is None else f" (by default {default!r})"
        yield DraftQuestion(
            ("inputs", "train"),
            f"--{name} names data{by_default}: if these are files, put them on S3, and "
            f"give `hyperparameters: {{{name}: '${{SM_CHANNEL_TRAIN}}'}}`.",
            "s3://BUCKET/train",
            _source_line(line_in_entry(program, each.node)),
        )


def _of_checkpoint_options(program: Program, left: Sequence[DeclaredWords]) -> Iterator[Part]:
    """A question about the first option that may name the folder of checkpoints."""
    for each in left:
        name = _hyperparameter(each)
        if name and _CHECKPOINTS.search(name):
            yield DraftQuestion(
                ("checkpoint",),
                f"does the script save into --{name}? Then keep what is there: give "
                f"`hyperparameters: {{{name}: '${{SM_CHECKPOINT_DIR}}'}}`, and this.",
                {},
                _source_line(line_in_entry(program, each.node)),
            )
            return


_PARSERS = frozenset(
    {"ArgumentParser", "HfArgumentParser", "OptionParser", "LightningCLI"}
    | {"click", "typer", "fire", "tyro", "jsonargparse"}
)


def _has_parser(program: Program) -> bool:
    return any(not _PARSERS.isdisjoint(file.mentioned) for file in program.files)


# Hydra.


def _is_hydra(program: Program) -> bool:
    return any((each.module or "").partition(".")[0] == "hydra" for each in program.entry.imports)


def _of_hydra(config: HydraConfig | None) -> Iterator[Part]:
    yield DraftField(("code", "argument_style"), "hydra", "hyperparameters are passed as lr=0.1")
    yield DraftField(
        _ARGUMENTS,
        ["hydra.run.dir=${SM_OUTPUT_DATA_DIR}/hydra"],
        "what Hydra writes is kept with the output",
    )
    if config is None:
        yield DraftQuestion(
            ("hyperparameters",),
            "which values are to be changed? Hydra's configuration was not found, or is no YAML.",
        )
        return
    for name in config.required:
        yield DraftQuestion(("hyperparameters", name), f"the configuration requires {name}.", "...")
    for name, value in (*config.choices.items(), *config.values.items()):
        if "${" in str(value):
            yield DraftDefault(("hyperparameters", name), None, str(value))
        else:
            yield DraftDefault(("hyperparameters", name), value)
    if config.choices or config.values:
        also = "" if config.is_whole else ", and others that could not be read"
        yield DraftNote(("hyperparameters",), f"the configuration's own values, as they are by default{also}")


# Channels, and shell scripts.


def _of_channels(program: Program) -> Iterator[Part]:
    seen = set[str]()
    for read in channel_reads(program):
        if read.key in seen or not read.name.isidentifier():
            continue
        seen.add(read.key)
        how = "reads" if read.is_needed else "would read"
        yield DraftQuestion(
            ("inputs", read.name),
            f"which data? The script {how} this channel ({place_of(program, read.node)}).",
            f"s3://BUCKET/{read.name}",
        )


_ARGUMENT = re.compile(r"\$(?:([1-9])|\{([1-9])(:?[-=])?)")


def _of_shell(text: str) -> Iterator[Part]:
    yield DraftField(
        ("distribution", "strategy"), "none", "a shell script runs once on each host, and starts the rest"
    )
    for number, line in enumerate(text.splitlines(), 1):
        bare = re.sub(r"(^|\s)#.*", "", line)
        for found in _ARGUMENT.finditer(bare):
            if found[1] or not found[3]:
                yield DraftQuestion(
                    _ARGUMENTS,
                    f"the script takes ${found[1] or found[2]} from its arguments.",
                    ["..."],
                    SourceLine(number),
                )
