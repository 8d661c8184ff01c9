"""The job file of a training script: what the script says itself, and questions about the rest.

Options of the script stand there with their own defaults, commented out: a hyperparameter is what a job
changes. What an option requires, which data a channel holds and which hosts are taken is asked.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from launcher.drafts.job_draft import DraftDefault, DraftField, DraftNote, DraftQuestion, JobDraft, Path
from launcher.drafts.script_uses import (
    Assumptions,
    FolderOption,
    Saving,
    choose_start,
    find_assumptions,
    find_saving,
    is_kept_already,
    line_in_entry,
    place_of,
)
from launcher.frozen import frozen
from launcher.planning.images import image_release
from launcher.program.program import Program
from launcher.program.surroundings.channels import channel_reads
from launcher.program.surroundings.options import as_attribute
from launcher.program.surroundings.parsers import DeclaredWords, ScriptParser, script_parsers
from launcher.program.values import Constant
from launcher.source.requirements_file import RequirementsFile

GPU_TYPE, CPU_TYPE = "ml.g5.xlarge", "ml.m5.xlarge"
"""What stands for hosts that nobody has chosen: the smallest with a GPU that knows bf16, the smallest without
one (Amazon EC2 instance types, accelerated computing and general purpose)."""

EXAMPLE_CLUSTER = "dev"


_ARGUMENTS = ("code", "arguments")


@frozen
class ScriptSource:
    """A script as it was found: `code` are the fields `source_dir` and `entry_point` or `module` of its job,
    `name` the job's. `program` is None of a shell script, of which `shell` is the text; `config` is the file
    that Hydra reads, None without one. `requirements` are what is installed, None without a file.
    """

    shown: str
    name: str
    code: Mapping[str, str]
    program: Program | None
    shell: str = ""
    config: str | None = None
    requirements: RequirementsFile | None = None


@frozen
class Wanted:
    """What the user has said of the job already; None is not said. `arguments` are words for the script."""

    instance_type: str | None = None
    instance_count: int | None = None
    processes: int | None = None
    cluster: str | None = None
    arguments: tuple[str, ...] = ()


def default_instance_type(script: ScriptSource) -> str:
    """What stands for the hosts of a script until somebody has chosen."""
    speaks = script.program is not None and find_assumptions(script.program).speaks_of_gpus
    return GPU_TYPE if speaks else CPU_TYPE


def draft_script(script: ScriptSource, wanted: Wanted) -> JobDraft:
    """The draft of a script's job, with all that is open as questions."""
    parts: list[Part] = [
        DraftField(("name",), script.name),
        DraftField(("code",), dict(script.code), _about_requirements(script.requirements)),
        *_of_cluster(wanted),
    ]
    if script.program is None:
        parts += [DraftField(("framework",), {"name": "pytorch"}, _VERSION), *_of_shell(script.shell)]
        parts += _of_hosts(wanted, Assumptions(False, ()))
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


def _merged(fields: Iterator[DraftField]) -> Iterator[DraftField]:
    """Fields of sections before those within them, so that the latter are added."""
    yield from sorted(fields, key=lambda each: len(each.path))


_VERSION = "the newest version with an image that is still patched; such as `version: 2.8.0` pins one"


def _of_program(script: ScriptSource, program: Program, wanted: Wanted) -> Iterator[Part]:
    start, assumed, saving = choose_start(program), find_assumptions(program), find_saving(program)
    yield _framework(program, script.requirements)
    yield DraftField(("distribution", "strategy"), start.strategy, start.reason)
    if start.question:
        yield DraftQuestion(("distribution", "strategy"), start.question, None, start.line)
    if wanted.processes is not None:
        yield DraftField(("distribution", "processes_per_host"), wanted.processes, "as --processes")
    yield from _of_hosts(wanted, assumed)
    if saving is not None:
        yield DraftField(
            ("checkpoint",),
            {},
            f"the script saves ({saving.place}): what is below SM_CHECKPOINT_DIR goes to S3, and comes back",
        )
    if script.config is not None or _is_hydra(program):
        yield from _of_hydra(script.config)
    else:
        yield from _of_parsers(program, saving, wanted.arguments)
    yield from _of_channels(program)


def _framework(program: Program, requirements: RequirementsFile | None) -> DraftField:
    """PyTorch or TensorFlow, in the version that the requirements pin, where there is an image of it."""
    modules = {(each.module or "").partition(".")[0] for file in program.files for each in file.imports}
    torch = bool(modules & {"torch", "lightning", "pytorch_lightning", "transformers", "accelerate"})
    name = "tensorflow" if not torch and modules & {"tensorflow", "keras"} else "pytorch"
    package = "torch" if name == "pytorch" else name
    for each in requirements.packages if requirements else ():
        said = each.requirement
        if said is None or said.name.lower() != package or said.marker is not None:
            continue
        pins = [one.version for one in said.specifier if one.operator == "==" and "*" not in one.version]
        release = image_release(name, pins[0]) if len(pins) == 1 else None
        if release is not None:
            return DraftField(("framework",), {"name": name, "version": pins[0]}, f"as {each.place} has it")
    return DraftField(("framework",), {"name": name}, _VERSION)


def _about_requirements(found: RequirementsFile | None) -> str:
    if found is None or not found.packages:
        return "nothing is installed: there is no requirements.txt"
    names = ", ".join(each.text for each in found.packages[:12])
    more = len(found.packages) - 12
    return f"installed first: {names}{f' and {more} more' if more > 0 else ''}"


def _of_cluster(wanted: Wanted) -> Iterator[Part]:
    if wanted.cluster is not None:
        yield DraftField(("cluster",), wanted.cluster)
    else:
        yield DraftQuestion(
            ("cluster",),
            "which cluster? It brings role, network and buckets; without one give role_arn and "
            "output.s3_uri. Neither is needed with --local.",
            EXAMPLE_CLUSTER,
        )


def _of_hosts(wanted: Wanted, assumed: Assumptions) -> Iterator[Part]:
    said = f"The script takes for granted: {'; '.join(assumed.said)}." if assumed.said else ""
    kind = wanted.instance_type or (GPU_TYPE if assumed.speaks_of_gpus else CPU_TYPE)
    yield DraftField(("resources", "instance_type"), kind, said)
    if wanted.instance_type is None:
        which = "the smallest with a GPU" if assumed.speaks_of_gpus else "a small one without a GPU"
        yield DraftQuestion(
            ("resources", "instance_type"), f"which hosts? This is {which}, and enough for --local."
        )
    yield DraftField(("resources", "instance_count"), wanted.instance_count or 1)


# The words of the command line.


def _of_parsers(program: Program, saving: Saving | None, words: tuple[str, ...]) -> Iterator[Part]:
    """The options of all parsers of the script; `words` are what the user gives it."""
    given = {as_attribute(each.partition("=")[0]) for each in words if each.startswith("-")}
    parsers = list(script_parsers(program))
    folders = _folders_to_give(parsers, saving)
    options = [option for option, _ in folders]
    if any(map(_has_output_folder, parsers)) and "--output_dir" not in options:
        options.append("--output_dir")
    options = [each for each in options if as_attribute(each) not in given]
    arguments = [word for option in options for word in (option, "${SM_CHECKPOINT_DIR}")]
    if arguments:
        yield DraftField(
            _ARGUMENTS,
            arguments,
            "where the script saves; without it on the host's own disk",
        )
    given |= set(map(as_attribute, options))
    switches: list[str] = []
    for parser in parsers:
        for each in parser.declared:
            if _attribute(each) not in given:
                yield from _of_option(program, each, switches)
    others = [name.rpartition(".")[2] for parser in parsers for name in parser.of_libraries]
    if others:
        others = [f"those of {name}" for name in others]
    elif not all(parser.knows_all for parser in parsers):
        others = ["others that could not be read (python SCRIPT --help)"]
    if parsers:
        also = f", and {' and '.join(others)}" if others else ""
        yield DraftNote(("hyperparameters",), f"the script's own options, as they are by default{also}")
    if switches:
        yield DraftNote(("code",), f"switches of the script, for `arguments`: {' '.join(switches)}")
    if not parsers and _reads_words(program):
        yield DraftQuestion(
            ("hyperparameters",),
            "which options does the script take? Its parser could not be read; `python SCRIPT --help` shows "
            "them.",
            {"lr": 0.1},
        )


def _has_output_folder(parser: ScriptParser) -> bool:
    """Whether the options are those of transformers' TrainingArguments or what is made of them."""
    return any(
        re.search(r"(TrainingArguments|(SFT|DPO|GRPO|Reward)Config)$", name) for name in parser.of_libraries
    )


def _folders_to_give(parsers: list[ScriptParser], saving: Saving | None) -> list[tuple[str, FolderOption]]:
    """The options by which the job says where to save; not those that find SageMaker's folders themselves."""
    found = []
    for folder in saving.folders if saving else ():
        for parser in parsers:
            for each in parser.declared:
                option = _long_name(each)
                if _attribute(each) == folder.name and option and not is_kept_already(each.default):
                    found.append((option, folder))
    return found


def _attribute(words: DeclaredWords) -> str:
    return as_attribute(_long_name(words) or words.names[0])


def _long_name(words: DeclaredWords) -> str | None:
    return next((each for each in words.names if each.startswith("--")), None)


def _hyperparameter(words: DeclaredWords) -> str | None:
    """The name by which a hyperparameter becomes the option: `--lr` of `lr`, `-e` of `e`."""
    long = _long_name(words)
    if long is not None:
        return long[2:]
    return next((each[1:] for each in words.names if re.fullmatch(r"-\w", each)), None)


def _of_option(program: Program, words: DeclaredWords, switches: list[str]) -> Iterator[Part]:
    """What stands for an option: a question where it is required, else its default; switches are gathered."""
    line, name = line_in_entry(program, words.node), _hyperparameter(words)
    is_positional = not words.names[0].startswith("-")
    if is_positional:
        if words.settings.get("required", True) and words.settings.get("nargs") not in ("?", "*"):
            yield DraftQuestion(
                _ARGUMENTS, f"the script requires the argument `{words.names[0]}`.", ["..."], line
            )
        return
    if words.settings.get("action") in ("store_true", "count") or name is None:
        switches.append(words.names[0])
        return
    if words.settings.get("required"):
        choices = words.settings.get("choices")
        yield DraftQuestion(
            ("hyperparameters", name),
            f"the script requires --{name}"
            + (f", one of {', '.join(map(str, choices))}" if choices else "")
            + _about_data(name)
            + ".",
            "${SM_CHANNEL_TRAIN}" if _DATA.search(name) else choices[0] if choices else "...",
            line,
        )
        return
    if words.default is None:
        yield DraftDefault(("hyperparameters", name), None)
        return
    value = program.value(words.default)
    if isinstance(value, Constant):
        yield DraftDefault(("hyperparameters", name), value.value)
    else:
        yield DraftDefault(("hyperparameters", name), None, ast.unparse(words.default))
    if isinstance(value, Constant) and isinstance(value.value, str) and _DATA.search(name):
        yield DraftQuestion(
            ("inputs", "train"),
            f"--{name} names data (by default {value.value!r}): if these are files, put them on S3, and give "
            f"`hyperparameters: {{{name}: '${{SM_CHANNEL_TRAIN}}'}}`.",
            "s3://BUCKET/train",
            line,
        )


_DATA = re.compile(
    r"^(data|dataset|input|train|training|corpus)([-_]?(dir|path|root|folder|files?))?$|^data[-_]", re.I
)
"""Names of options by which scripts take the folder or file of their data."""


def _about_data(name: str) -> str:
    return " (its data: a channel of `inputs`)" if _DATA.search(name) else ""


_PARSERS = frozenset(
    {"ArgumentParser", "HfArgumentParser", "click", "typer", "fire", "tyro", "jsonargparse", "LightningCLI"}
)


def _reads_words(program: Program) -> bool:
    return any(not _PARSERS.isdisjoint(file.mentioned) for file in program.files)


# Hydra.


def _is_hydra(program: Program) -> bool:
    return any((each.module or "").partition(".")[0] == "hydra" for each in program.entry.imports)


def find_hydra_config(program: Program) -> str | None:
    """The configuration that Hydra reads, relative to the script and without its ending; None without."""
    for call, _ in program.calls("hydra.main"):
        given = {each.arg: program.value(each.value) for each in call.keywords}
        folder, name = given.get("config_path", Constant(".")), given.get("config_name")
        if isinstance(folder, Constant) and isinstance(name, Constant):
            return f"{folder.value or '.'}/{str(name.value).removesuffix('.yaml')}"
    return None


def _of_hydra(config: str | None) -> Iterator[Part]:
    yield DraftField(("code", "argument_style"), "hydra", "hyperparameters are passed as lr=0.1")
    yield DraftField(
        _ARGUMENTS,
        ["hydra.run.dir=${SM_OUTPUT_DATA_DIR}/hydra"],
        "what Hydra writes is kept with the output",
    )
    if config is None:
        yield DraftQuestion(
            ("hyperparameters",), "which values are to be changed? Hydra's configuration was not found."
        )
        return
    for name, value in _flat(_read_config(config), ()):
        if value == "???":
            yield DraftQuestion(("hyperparameters", name), f"the configuration requires {name}.", "...")
        else:
            yield DraftDefault(("hyperparameters", name), value)


def _read_config(text: str) -> Any:
    try:
        return yaml.safe_load(text)
    except yaml.YAMLError:
        return None


def _flat(value: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """The single values of a configuration by dotted names, without its list of defaults and Hydra's own."""
    if not isinstance(value, dict):
        return
    for key, item in value.items():
        if not path and key in ("defaults", "hydra"):
            continue
        place = (*path, str(key))
        if isinstance(item, dict):
            yield from _flat(item, place)
        elif isinstance(item, str | int | float | bool) and "${" not in str(item):
            yield ".".join(place), item


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
                    number,
                )
