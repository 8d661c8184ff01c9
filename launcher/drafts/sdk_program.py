"""A job file of a program that uses the SageMaker SDK: what it gives to an estimator or a trainer.

Version 2 has an estimator for each framework and a job by its `fit`, version 3 a `ModelTrainer` and its
`train`. Each keyword that has a field is in a table here; what the SDK does by itself (its defaults, where
they are not those of a job file) is written out. What the program's reader cannot follow is a question.

Source of keywords and defaults: SageMaker SDK 2.257, sagemaker.estimator (EstimatorBase, Framework),
sagemaker.pytorch, .huggingface, .tensorflow; 3.27, sagemaker.train.model_trainer and
sagemaker.core.training.configs.
"""

from __future__ import annotations

import ast
import posixpath
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from launcher.cluster.names import MAX_NAME_LENGTH
from launcher.drafts.job_draft import DraftField, DraftQuestion, JobDraft, Path, SourceLine
from launcher.drafts.program_values import Known, ValueReader
from launcher.drafts.start_line import StartLine, read_start_line
from launcher.drafts.training_job import path_below_mount
from launcher.frozen import frozen
from launcher.program.index import FileIndex, file_of
from launcher.program.program import Program, write_out_unpacked
from launcher.program.values import Instance

Part = DraftField | DraftQuestion
Lines = Callable[[FileIndex, int], SourceLine]
"""Where a line of a file stands in what the user has: cells, in a notebook."""

POSITIONS: Mapping[str, tuple[str, ...]] = {
    "Estimator": ("image_uri", "role", "instance_count", "instance_type"),
    "PyTorch": ("entry_point", "framework_version", "py_version", "source_dir", "hyperparameters"),
    "HuggingFace": ("py_version", "entry_point", "transformers_version", "tensorflow_version"),
    "TensorFlow": ("py_version", "framework_version", "model_dir", "image_uri", "distribution"),
    "ModelTrainer": (),
}
"""The classes that are read, and the keywords that their first arguments stand for."""

OTHER_CLASSES = ("SKLearn", "XGBoost", "MXNet", "Chainer", "RLEstimator", "JumpStartEstimator", "Processor")
"""Classes of the SDK that start something else, to name them where nothing else is there."""

_FORMER = {
    "train_instance_count": "instance_count",
    "train_instance_type": "instance_type",
    "train_volume_size": "volume_size",
    "train_max_run": "max_run",
    "train_max_wait": "max_wait",
    "train_use_spot_instances": "use_spot_instances",
    "image_name": "image_uri",
    "distributions": "distribution",
    "image": "image_uri",
}
"""The names of the SDK version 1, by those of version 2 (sagemaker.cli.compatibility.v2)."""

_PLAIN: Mapping[str, tuple[Path, type | tuple[type, ...], str]] = {
    "instance_count": (("resources", "instance_count"), int, "how many hosts?"),
    "volume_size": (("resources", "volume_size_gb"), int, "how large is the volume, in GB?"),
    "keep_alive_period_in_seconds": (("resources", "keep_alive"), int, "how long is a warm pool kept?"),
    "max_run": (("limits", "max_runtime"), int, "how long may it run, in seconds?"),
    "max_retry_attempts": (("limits", "max_retries"), int, "how many retries?"),
    "checkpoint_local_path": (("checkpoint", "local_path"), str, "where does the script write checkpoints?"),
    "encrypt_inter_container_traffic": (("network", "encryption"), bool, "is what hosts send encrypted?"),
    "enable_network_isolation": (("network", "isolation"), bool, "are the containers isolated?"),
    "enable_infra_check": (("resources", "infra_check"), bool, "are the hosts tested first?"),
    "enable_remote_debug": (("debug", "remote"), bool, "may a shell be opened in the containers?"),
    "subnets": (("network", "subnets"), list, "which subnets?"),
    "security_group_ids": (("network", "security_group_ids"), list, "which security groups?"),
}
"""Keywords whose value is a field's: its path, its type, and the question where it is open."""

_NO_FIELD = frozenset(
    {
        "sagemaker_session", "container_log_level", "code_location", "disable_output_compression",
        "enable_sagemaker_metrics", "metrics", "script_mode", "model_dir", "transformers_version",
        "local_container_root", "training_mode", "input_s3_key_prefix", "config_mgr",
    }
)  # fmt: skip
"""Keywords that say nothing of the job itself, or that other keywords are read with."""

_WITHOUT_WORDS = frozenset(
    {
        "dependencies", "git_config", "model_uri", "model_channel_name", "tensorboard_output_config",
        "profiler_config", "rules", "output_kms_key", "volume_kms_key", "instance_groups",
        "training_repository_access_mode", "training_repository_credentials_provider_arn",
        "container_entry_point", "container_arguments", "enable_session_tag_chaining", "algorithm_name",
        "training_image_config", "model_package_config", "training_recipe", "recipe_overrides",
    }
)  # fmt: skip
"""Keywords of which a job file has no words."""

_TRUNCATED = re.compile(r"[^a-zA-Z0-9]+")


@frozen
class SdkJob:
    """A call that makes an estimator or a trainer: its class, and where it stands."""

    kind: str
    call: ast.Call
    line: SourceLine


def find_sdk_jobs(program: Program, lines: Lines) -> list[SdkJob]:
    """The estimators and trainers that a program makes, in the order of its lines."""
    found = []
    for file in program.files:
        for kind in POSITIONS:
            for last in sorted(program.known_as({kind})):
                for call in file.calls_of.get(last, ()):
                    name = program.qualified(call.func) or ""
                    if name.startswith("sagemaker.") and name.rpartition(".")[2] == kind:
                        write_out_unpacked(program, call)
                        found.append(SdkJob(kind, call, lines(file, call.lineno)))
    unique = {id(each.call): each for each in found}
    return sorted(unique.values(), key=lambda each: (str(file_of(each.call).path), each.call.lineno))


def find_other_classes(program: Program, lines: Lines) -> list[str]:
    """What else a program makes of the SDK, each with its line."""
    return [
        f"{name} ({lines(file, call.lineno)})"
        for file in program.files
        for name in OTHER_CLASSES
        for call in file.calls_of.get(name, ())
    ]


def draft_of_sdk_job(program: Program, job: SdkJob, lines: Lines, *, name: str, origin: str) -> JobDraft:
    """The job file of one of them; `name` is for a job that its program does not name."""
    reading = _SdkReading(program, job, lines)
    parts = [*reading.parts(name)]
    fields = tuple(each for each in parts if isinstance(each, DraftField))
    questions = tuple(each for each in parts if isinstance(each, DraftQuestion))
    sentences = [origin, *reading.notes]
    if reading.lost:
        sentences.append(f"Left out, as job files have no words for it: {', '.join(reading.lost)}.")
    return JobDraft(" ".join(sentences), fields, questions, tuple(reading.kept_out))


class _SdkReading:
    """One call, keyword by keyword."""

    def __init__(self, program: Program, job: SdkJob, lines: Lines) -> None:
        self.program, self.job, self._lines = program, job, lines
        self.values = ValueReader(program)
        self.given = self._arguments(job.call, POSITIONS[job.kind])
        self.lost: list[str] = []
        self.notes: list[str] = []
        self.kept_out: list[DraftField] = []
        self.starts_by_toolkit = False

    def line(self, node: ast.expr) -> SourceLine:
        return self._lines(file_of(node), node.lineno)

    def _arguments(self, call: ast.Call, positions: Sequence[str]) -> dict[str, ast.expr]:
        given = dict(zip(positions, call.args, strict=False))
        for each in call.keywords:
            if each.arg is not None:
                given[_FORMER.get(each.arg, each.arg)] = each.value
        return given

    # What every part is made of.

    def field(self, path: Path, node: ast.expr, value: Any, comment: str = "") -> DraftField:
        return DraftField(path, value, comment, self.line(node))

    def ask(self, path: Path, node: ast.expr, text: str, example: Any = None) -> DraftQuestion:
        """A question, with what the program says there."""
        said = self.values.open(node).text
        return DraftQuestion(path, f"{text} The program has {said}", example, self.line(node))

    def known(self, node: ast.expr | None, kinds: type | tuple[type, ...] = object) -> Known | None:
        """What an expression is, where that is known and of these types; a truth value is no number."""
        read = None if node is None else self.values.read(node)
        if not isinstance(read, Known):
            return None
        wants_number = kinds is int or kinds == (int, float)
        if isinstance(read.value, bool) and wants_number:
            return None
        is_variable = isinstance(read.value, str) and "${" in read.value and kinds is not str
        return read if isinstance(read.value, kinds) or is_variable else None

    def calls_with(self, node: ast.expr | None) -> ast.Call | None:
        """The call of a class or function of the SDK that an expression is."""
        value = None if node is None else self.program.value(node)
        if not isinstance(value, Instance):
            return None
        write_out_unpacked(self.program, value.call)
        return value.call

    def class_of(self, call: ast.Call) -> str:
        return (self.program.qualified(call.func) or "").rpartition(".")[2] or ast.unparse(call.func)

    def plain(self, node: ast.expr | None, path: Path, kinds: Any, question: str) -> Iterator[Part]:
        """A keyword whose value is a field's."""
        if node is None:
            return
        read = self.known(node, kinds)
        if read is not None:
            yield self.field(path, node, read.value, read.comment)
        elif not self.is_none(node):
            yield self.ask(path, node, question)

    def is_none(self, node: ast.expr) -> bool:
        """Whether a keyword is given as if it were not."""
        return self.values.read(node) == Known(None)

    def uri(self, node: ast.expr, path: Path, question: str) -> Iterator[Part]:
        """An S3 URI."""
        read = self.known(node, str)
        if read is not None and read.value.startswith(("s3://", "${")):
            yield self.field(path, node, read.value.rstrip("/"), read.comment)
        elif not self.is_none(node):
            yield self.ask(path, node, question, "s3://BUCKET/PREFIX")

    # The job.

    def parts(self, name: str) -> Iterator[Part]:
        for each in self.job.call.keywords:
            if each.arg is None:
                yield self.ask(("resources",), each.value, "what else is the job given?")
        if any(isinstance(each, ast.Starred) for each in self.job.call.args):
            yield self.ask(("resources",), self.job.call, "which arguments are these?")
        yield from self.name(name)
        yield from self.role()
        yield from self.trainer() if self.job.kind == "ModelTrainer" else self.estimator()
        self.lost += [
            f"{key} ({self.line(node)})"
            for key, node in self.given.items()
            if key in _WITHOUT_WORDS and not self.is_none(node)
        ]

    def name(self, otherwise: str) -> Iterator[Part]:
        node = self.given.get("base_job_name")
        read = self.known(node, str)
        if node is not None and read is not None and "${" not in read.value:
            yield self.field(("name",), node, _as_name(read.value), read.comment)
            return
        yield DraftField(("name",), _as_name(otherwise))
        if node is not None and not self.is_none(node):
            yield self.ask(("name",), node, "which name?")

    def role(self) -> Iterator[Part]:
        node = self.given.get("role")
        read = self.known(node, str)
        if node is None:
            return
        if read is not None and read.value.startswith(("arn:", "${")):
            yield self.field(("role_arn",), node, read.value, read.comment)
        else:
            yield self.ask(
                ("role_arn",),
                node,
                "which role do the hosts assume? With a cluster it is the cluster's.",
                "arn:aws:iam::ACCOUNT:role/NAME",
            )

    # Version 2.

    def estimator(self) -> Iterator[Part]:
        yield from self.hosts(self.given)
        for keyword, (path, kinds, question) in _PLAIN.items():
            yield from self.plain(self.given.get(keyword), path, kinds, question)
        strategy = [*self.distribution()]
        yield from self.image()
        yield from self.code()
        yield from strategy
        yield from self.hyperparameters(self.given.get("hyperparameters"))
        yield from self.spot()
        for keyword, path in (("output_path", ("output", "s3_uri")), ("checkpoint_s3_uri", _CHECKPOINT_URI)):
            if (node := self.given.get(keyword)) is not None:
                yield from self.uri(node, path, "where on S3?")
        yield from self.words("environment", self.given.get("environment"), "which variables?")
        yield from self.pairs(self.given.get("metric_definitions"), "metrics", ("Name", "Regex"))
        yield from self.tags()
        yield from self.inputs("fit", "inputs")
        self.debugger(strategy)
        yield from self.tuner()

    def hosts(self, given: Mapping[str, ast.expr]) -> Iterator[Part]:
        node, path = given.get("instance_type"), ("resources", "instance_type")
        if node is None:
            yield DraftQuestion(path, "on which hosts?", "ml.p4d.24xlarge", self.job.line)
            return
        read = self.known(node, str)
        if read is not None and read.value.startswith("local"):
            text = "on which hosts? The program runs it on its own machine."
            yield self.ask(path, node, text, "ml.g5.2xlarge")
        elif read is not None and (read.value.startswith("ml.") or "${" in read.value):
            yield self.field(path, node, read.value, read.comment)
        else:
            yield self.ask(path, node, "on which hosts?", "ml.p4d.24xlarge")

    def spot(self) -> Iterator[Part]:
        node, plan = self.given.get("use_spot_instances"), self.given.get("training_plan")
        read = self.known(node, bool)
        if plan is not None and (arn := self.known(plan, str)) is not None:
            yield self.field(("resources", "capacity"), plan, {"training_plan": arn.value}, arn.comment)
        elif plan is not None and not self.is_none(plan):
            yield self.ask(("resources", "capacity"), plan, "which training plan?", {"training_plan": "ARN"})
        elif node is not None and read is not None and read.value is True:
            yield self.field(("resources", "capacity"), node, "spot", read.comment)
        elif node is not None and read is None and not self.is_none(node):
            yield self.ask(("resources", "capacity"), node, "spot instances?", "spot")
        if read is None or read.value is True:
            question = "how long may it wait and run, in seconds?"
            yield from self.plain(self.given.get("max_wait"), ("limits", "max_wait"), int, question)

    def image(self) -> Iterator[Part]:
        node = self.given.get("image_uri")
        if node is not None and not self.is_none(node):
            yield from self.own_image(node)
            return
        if self.job.kind == "Estimator":
            yield DraftQuestion(("image",), "in which image?", "URI", self.job.line)
            return
        kind, version = "pytorch", "framework_version"
        if self.job.kind == "HuggingFace":
            version = "pytorch_version"
            if "tensorflow_version" in self.given and not self.is_none(self.given["tensorflow_version"]):
                kind, version = "tensorflow", "tensorflow_version"
            held = self.known(self.given.get("transformers_version"), str)
            if held is not None:
                self.notes.append(
                    f"The program's image held transformers {held.value} with its libraries: name them in "
                    "requirements.txt."
                )
        elif self.job.kind == "TensorFlow":
            kind = "tensorflow"
        yield DraftField(("framework", "name"), kind)
        yield from self.text(self.given.get(version), ("framework", "version"), "which version?")
        yield from self.text(self.given.get("py_version"), ("framework", "python"), "which Python?")

    def text(self, node: ast.expr | None, path: Path, question: str) -> Iterator[Part]:
        """A version; a number in the program is a text here."""
        read = self.known(node, (str, int, float))
        if node is not None and read is not None:
            yield self.field(path, node, str(read.value), read.comment)
        elif node is not None and not self.is_none(node):
            yield self.ask(path, node, question)
        elif node is None and path == ("framework", "version"):
            yield DraftQuestion(path, question, "2.8.0", self.job.line)

    def own_image(self, node: ast.expr) -> Iterator[Part]:
        """An image by its URI, or as the SDK looks it up."""
        call = self.calls_with(node)
        if call is not None and self.class_of(call) == "retrieve":
            given = self._arguments(call, ("framework", "region", "version", "py_version"))
            framework, scope = (
                self.known(given.get("framework"), str),
                self.known(given.get("image_scope"), str),
            )
            is_training = scope is None or scope.value == "training"
            if framework is not None and framework.value in ("pytorch", "tensorflow") and is_training:
                yield self.field(("framework", "name"), node, framework.value)
                yield from self.text(given.get("version"), ("framework", "version"), "which version?")
                yield from self.text(given.get("py_version"), ("framework", "python"), "which Python?")
                return
        read = self.known(node, str)
        if read is not None and read.value:
            yield self.field(("image",), node, read.value, read.comment)
        else:
            yield self.ask(("image",), node, "in which image?", "URI")

    def code(self) -> Iterator[Part]:
        folder, script = self.given.get("source_dir"), self.given.get("entry_point")
        if script is None or self.is_none(script):
            text = "which script? The image starts its own program."
            yield DraftQuestion(("code", "entry_point"), text, "train.py", self.job.line)
            if folder is not None:
                yield from self.plain(folder, ("code", "source_dir"), str, "in which folder is the code?")
            return
        read = self.known(script, str)
        if folder is not None and not self.is_none(folder):
            if (where := self.known(folder, str)) is not None:
                yield self.field(("code", "source_dir"), folder, where.value or ".", where.comment)
            else:
                yield self.ask(("code", "source_dir"), folder, "in which folder is the code?", "src")
        elif read is not None and (place := posixpath.dirname(read.value)):
            yield self.field(("code", "source_dir"), script, place)
        if read is None:
            yield self.ask(("code", "entry_point"), script, "which script?", "train.py")
            return
        inside = folder is not None and not self.is_none(folder)
        name = read.value if inside else posixpath.basename(read.value)
        yield self.field(("code", "entry_point"), script, posixpath.normpath(name), read.comment)

    def distribution(self) -> Iterator[Part]:
        node, path = self.given.get("distribution"), ("distribution", "strategy")
        compiler = self.given.get("compiler_config")
        if compiler is not None and not self.is_none(compiler):
            self.starts_by_toolkit = True
            yield self.field(path, compiler, "torch_xla")
            return
        if node is None or self.is_none(node):
            return
        read = self.known(node, dict)
        if read is None:
            yield self.ask(path, node, "how are its processes started?", "torchrun")
            return
        started = _strategy_of(read.value)
        if started is None:
            yield self.ask(path, node, "how? No strategy of job files does it so.", "torchrun")
            return
        strategy, options, processes, comment = started
        self.starts_by_toolkit = strategy in ("smddp", "mpi", "torch_xla") or options.get("version") == 1
        yield self.field(path, node, strategy, comment or read.comment)
        if options:
            yield self.field(("distribution", "options"), node, options)
        if isinstance(processes, int):
            yield self.field(("distribution", "processes_per_host"), node, processes)

    def hyperparameters(self, node: ast.expr | None) -> Iterator[Part]:
        """Each of them, as the toolkit of version 2 hands it to the script."""
        if node is not None and not self.is_none(node):
            yield from self.words("hyperparameters", node, "which hyperparameters?")
        for call in self.methods("set_hyperparameters"):
            for each in call.keywords:
                if each.arg is not None:
                    yield from self.entry(("hyperparameters", each.arg), each.value, each.value)

    def words(self, section: str, node: ast.expr | None, question: str) -> Iterator[Part]:
        """A section whose entries are the program's own: variables, hyperparameters."""
        if node is None or self.is_none(node):
            return
        entries = self.values.entries(node)
        if entries is None:
            yield self.ask((section,), node, question)
            return
        for key, value, place in entries:
            if key == "?":
                yield self.ask((section,), place, "what else? Not all of it could be read.")
            else:
                yield from self.entry((section, key), value, place)

    def entry(self, path: Path, node: ast.expr | None, place: ast.expr) -> Iterator[Part]:
        read = self.known(node)
        if node is None or read is None:
            yield self.ask(path, node or place, "which value?")
            return
        value = read.value
        if path[0] == "environment":
            value = str(value)
        elif self.job.kind != "ModelTrainer" and not self.starts_by_toolkit:
            value = _as_word(value)
        elif value is None:
            return
        yield self.field(path, node, value, read.comment)

    def pairs(self, node: ast.expr | None, section: str, keys: tuple[str, str]) -> Iterator[Part]:
        """A list of mappings with a name and a value, as the API has metrics and tags."""
        if node is None or self.is_none(node):
            return
        read = self.known(node, (list, dict))
        listed = read.value if read is not None else None
        if isinstance(listed, dict):
            listed = [{keys[0]: key, keys[1]: value} for key, value in listed.items()]
        if listed is None or not all(isinstance(each, dict) and set(keys) <= set(each) for each in listed):
            yield self.ask((section,), node, f"which {section}?")
            return
        for each in listed:
            yield self.field((section, str(each[keys[0]])), node, str(each[keys[1]]))

    def tags(self) -> Iterator[Part]:
        yield from self.pairs(self.given.get("tags"), "tags", ("Key", "Value"))

    def methods(self, name: str) -> list[ast.Call]:
        """The calls of a method of what the job's call makes."""
        return [
            call
            for file in self.program.files
            for call in file.calls_of.get(name, ())
            if isinstance(call.func, ast.Attribute)
            and isinstance(made := self.program.value(call.func.value), Instance)
            and made.call is self.job.call
        ]

    def inputs(self, method: str, keyword: str) -> Iterator[Part]:
        """The channels, by the call that starts the job."""
        calls = self.methods(method)
        if not calls:
            yield DraftQuestion(
                ("inputs",),
                f"which data does it read? Where the program calls `{method}` could not be followed.",
                {"train": "s3://BUCKET/PREFIX"},
                self.job.line,
            )
            return
        nodes = [self._arguments(call, (keyword,)).get(keyword) for call in calls]
        given = [each for each in nodes if each is not None and not self.is_none(each)]
        if len({ast.dump(each) for each in given}) > 1:
            yield self.ask(("inputs",), given[0], f"which data? It is started {len(given)} times.")
        elif given:
            yield from self.channels(given[0])

    def channels(self, node: ast.expr) -> Iterator[Part]:
        entries = self.values.entries(node)
        if entries is None:
            if self.channel_like(node):
                yield from self.channel("training", node, node)
            else:
                yield self.ask(("inputs",), node, "which data does it read?", {"train": "s3://BUCKET/PREFIX"})
            return
        for key, value, place in entries:
            if key == "?":
                yield self.ask(("inputs",), place, "which channels? Not all could be read.")
            else:
                yield from self.channel(key, value, place)

    def channel_like(self, node: ast.expr) -> bool:
        """Whether what is given instead of channels is the data of the one that the SDK calls `training`."""
        call = self.calls_with(node)
        if call is not None and self.class_of(call) in ("TrainingInput", "s3_input", "FileSystemInput"):
            return True
        return isinstance(node, ast.JoinedStr | ast.BinOp) or self.known(node, str) is not None

    def channel(self, name: str, node: ast.expr | None, place: ast.expr) -> Iterator[Part]:
        path = ("inputs", name)
        call = self.calls_with(node)
        kind = "" if call is None else self.class_of(call)
        if node is not None and call is not None and kind in ("TrainingInput", "s3_input"):
            yield from self.s3_channel(path, node, self._arguments(call, ("s3_data", "distribution")))
        elif node is not None and call is not None and kind == "FileSystemInput":
            positions = ("file_system_id", "file_system_type", "directory_path", "file_system_access_mode")
            yield from self.mount(path, node, self._arguments(call, positions))
        elif node is not None and (read := self.known(node, str)) is not None and _is_s3(read.value):
            yield self.field(path, node, read.value, read.comment)
            yield from self.input_mode(path)
        else:
            yield self.ask(path, node or place, "from where on S3?", "s3://BUCKET/PREFIX")

    def input_mode(self, path: Path) -> Iterator[Part]:
        """The mode that the estimator gives to all channels."""
        node = self.given.get("input_mode")
        read = self.known(node, str)
        if node is not None and (read is None or read.value != "File"):
            yield self.ask(path, node, "in which mode is it read?")

    def s3_channel(self, path: Path, node: ast.expr, given: Mapping[str, ast.expr]) -> Iterator[Part]:
        source = given.get("s3_data") or given.get("s3_uri")
        read = self.known(source, str)
        kind = self.known(given.get("s3_data_type"), str)
        if read is None or not _is_s3(read.value) or (kind is not None and kind.value != "S3Prefix"):
            yield self.ask(path, source or node, "from which prefix on S3?", "s3://BUCKET/PREFIX")
            return
        options: dict[str, str] = {}
        for keyword, field, default in (
            ("distribution", "distribution", "FullyReplicated"),
            ("s3_data_distribution_type", "distribution", "FullyReplicated"),
            ("input_mode", "mode", "File"),
        ):
            option = given.get(keyword) or (self.given.get(keyword) if keyword == "input_mode" else None)
            if option is None or self.is_none(option):
                continue
            said = self.known(option, str)
            if said is None:
                yield self.ask(path, option, f"which {field}?")
            elif said.value != default:
                options[field] = said.value
        whole = {"s3_uri": read.value, **options} if options else read.value
        yield self.field(path, node, whole, read.comment)

    def mount(self, path: Path, node: ast.expr, given: Mapping[str, ast.expr]) -> Iterator[Part]:
        kind, directory = (
            self.known(given.get("file_system_type"), str),
            self.known(given.get("directory_path"), str),
        )
        access = self.known(given.get("file_system_access_mode"), str)
        if kind is None or kind.value != "FSxLustre" or directory is None:
            yield self.ask(
                path, node, "from where? Job files mount the cluster's Lustre.", {"lustre": "/train"}
            )
            return
        given_access = {"access": access.value} if access is not None and access.value != "ro" else {}
        below = path_below_mount(directory.value)
        yield self.field(path, node, {"lustre": below, **given_access}, directory.comment)
        identity = given.get("file_system_id")
        if identity is not None:
            yield self.ask(("cluster",), identity, "which cluster has this file system?", "dev")

    def debugger(self, strategy: Sequence[Part]) -> None:
        """Debugger as the SDK has it: on unless it is switched off, which the file better leaves out.

        It switches the hook off by itself where a distributed job has both places of its checkpoints
        (sagemaker.estimator, _validate_and_set_debugger_configs).
        """
        node = self.given.get("debugger_hook_config")
        read = self.known(node, bool)
        if (read is not None and read.value is False) or self.job.kind == "Estimator":
            return
        count = self.known(self.given.get("instance_count"), int)
        several = count is not None and isinstance(count.value, int) and count.value > 1
        with_both = {"checkpoint_s3_uri", "checkpoint_local_path"} <= set(self.given)
        if with_both and (strategy or several):
            return
        place = node if node is not None else self.job.call
        self.kept_out.append(self.field(("debugger",), place, True, "the SDK's default"))

    def tuner(self) -> Iterator[Part]:
        for file in self.program.files:
            for call in file.calls_of.get("HyperparameterTuner", ()):
                given = self._arguments(call, ("estimator",)).get("estimator")
                made = None if given is None else self.program.value(given)
                if isinstance(made, Instance) and made.call is self.job.call:
                    yield self.ask(("tuning",), call, "what is searched?")

    # Version 3.

    def trainer(self) -> Iterator[Part]:
        compute = self.config("compute")
        yield from self.hosts_of_compute(compute)
        node = self.given.get("training_image")
        if node is None or self.is_none(node):
            yield DraftQuestion(("image",), "in which image?", "URI", self.job.line)
        else:
            yield from self.own_image(node)
        yield from self.source_code(self.config("source_code"))
        yield from self.distributed()
        yield from self.words("hyperparameters", self.given.get("hyperparameters"), "which hyperparameters?")
        yield from self.words("environment", self.given.get("environment"), "which variables?")
        yield from self.stopping()
        for section, keyword, config in (
            ("output", "s3_output_path", self.config("output_data_config")),
            ("checkpoint", "s3_uri", self.config("checkpoint_config", "with_checkpoint_config")),
        ):
            if (place := config.get(keyword)) is not None:
                yield from self.uri(place, (section, "s3_uri"), "where on S3?")
            elif section == "checkpoint" and config:
                yield DraftField(("checkpoint", "sync"), "sagemaker", "", self.job.line)
            if section == "checkpoint":
                yield from self.plain(config.get("local_path"), *_PLAIN["checkpoint_local_path"])
        networking = self.config("networking")
        for keyword, known in (
            ("subnets", "subnets"),
            ("security_group_ids", "security_group_ids"),
            ("enable_network_isolation", "enable_network_isolation"),
            ("enable_inter_container_traffic_encryption", "encrypt_inter_container_traffic"),
        ):
            yield from self.plain(networking.get(keyword), *_PLAIN[known])
        retry = self.config("", "with_retry_strategy").get("maximum_retry_attempts")
        yield from self.plain(retry, *_PLAIN["max_retry_attempts"])
        yield from self.listed_channels()

    def config(self, keyword: str, method: str = "") -> dict[str, ast.expr]:
        """What the object of a keyword was made of, or the one that a method of the trainer is given."""
        node = self.given.get(keyword)
        if node is None and method:
            nodes = [call.args[0] for call in self.methods(method) if call.args]
            node = nodes[0] if len(nodes) == 1 else None
        call = self.calls_with(node)
        return {} if call is None else self._arguments(call, ())

    def hosts_of_compute(self, compute: Mapping[str, ast.expr]) -> Iterator[Part]:
        if not compute:
            node = self.given.get("compute")
            if node is not None and not self.is_none(node):
                yield self.ask(("resources", "instance_type"), node, "on which hosts?", "ml.p4d.24xlarge")
            else:
                comment = "the SDK's default"
                yield DraftField(("resources", "instance_type"), "ml.m5.xlarge", comment, self.job.line)
            return
        yield from self.hosts(compute)
        yield from self.plain(compute.get("instance_count"), *_PLAIN["instance_count"])
        yield from self.plain(compute.get("volume_size_in_gb"), *_PLAIN["volume_size"])
        keep = compute.get("keep_alive_period_in_seconds")
        yield from self.plain(keep, *_PLAIN["keep_alive_period_in_seconds"])
        spot, plan = compute.get("enable_managed_spot_training"), compute.get("training_plan_arn")
        self.given.update({"use_spot_instances": spot} if spot is not None else {})
        self.given.update({"training_plan": plan} if plan is not None else {})
        yield from self.spot()

    def source_code(self, given: Mapping[str, ast.expr]) -> Iterator[Part]:
        if not given:
            yield DraftQuestion(("code", "source_dir"), "in which folder is the code?", "src", self.job.line)
            yield DraftQuestion(("code", "entry_point"), "which script?", "train.py", self.job.line)
            return
        yield from self.plain(
            given.get("source_dir"), ("code", "source_dir"), str, "in which folder is the code?"
        )
        command, script = given.get("command"), given.get("entry_script")
        if script is not None and not self.is_none(script):
            yield from self.plain(script, ("code", "entry_point"), str, "which script?")
        elif command is not None:
            yield from self.command(command, given.get("args"))
        needed = given.get("requirements")
        read = self.known(needed, str)
        if needed is None or self.is_none(needed):
            yield DraftField(
                ("code", "requirements"), "none", "the program has none installed", self.job.line
            )
        elif read is None:
            yield self.ask(("code", "requirements"), needed, "which file?", "requirements.txt")
        elif read.value != "auto":
            yield self.field(("code", "requirements"), needed, read.value, read.comment)

    def command(self, node: ast.expr, arguments: ast.expr | None) -> Iterator[Part]:
        """A command that the container runs: a script that it starts, alone or by torchrun."""
        read = self.known(node, str)
        start = None if read is None else read_start_line(read.value)
        if start is None or arguments is not None:
            yield self.ask(("code", "entry_point"), node, "which script does it start?", "train.py")
            return
        yield from start_parts(start, self.line(node))

    def distributed(self) -> Iterator[Part]:
        node = self.given.get("distributed")
        if node is None or self.is_none(node):
            return
        call = self.calls_with(node)
        given = {} if call is None else self._arguments(call, ())
        kind = "" if call is None else self.class_of(call)
        path = ("distribution", "strategy")
        if kind == "Torchrun":
            smp = self.calls_with(given.get("smp"))
            if smp is not None:
                read = {key: self.known(each) for key, each in self._arguments(smp, ()).items()}
                known = {key: each.value for key, each in read.items() if each is not None}
                yield self.field(path, node, "smp")
                yield self.field(("distribution", "options"), node, {"parameters": known})
                for key, each in self._arguments(smp, ()).items():
                    if read[key] is None:
                        yield self.ask(("distribution", "options"), each, f"which {key}?")
            else:
                yield self.field(path, node, "torchrun")
        elif kind == "MPI":
            yield self.field(path, node, "mpi")
            options = given.get("mpi_additional_options")
            read_options = self.known(options, list)
            if options is not None and read_options is not None:
                words = " ".join(map(str, read_options.value))
                yield self.field(("distribution", "options"), options, {"mpi_options": words})
            elif options is not None and not self.is_none(options):
                yield self.ask(("distribution", "options"), options, "which options of mpirun?")
        else:
            yield self.ask(path, node, "how are its processes started?", "torchrun")
        yield from self.plain(
            given.get("process_count_per_node"),
            ("distribution", "processes_per_host"),
            int,
            "how many processes on each host?",
        )

    def stopping(self) -> Iterator[Part]:
        node = self.given.get("stopping_condition")
        given = self.config("stopping_condition")
        if node is None or self.is_none(node):
            comment = "the SDK's default"
            yield DraftField(("limits", "max_runtime"), 3600, comment, self.job.line)
        elif not given:
            yield self.ask(("limits", "max_runtime"), node, "how long may it run?", "24h")
        yield from self.plain(given.get("max_runtime_in_seconds"), *_PLAIN["max_run"])
        question = "how long may it wait and run, in seconds?"
        waits = given.get("max_wait_time_in_seconds")
        yield from self.plain(waits, ("limits", "max_wait"), int, question)

    def listed_channels(self) -> Iterator[Part]:
        """The channels of the trainer itself, or of the call that starts it."""
        nodes = [self._arguments(call, ("input_data_config",)) for call in self.methods("train")]
        given = [each["input_data_config"] for each in nodes if "input_data_config" in each]
        given = given or [each for each in [self.given.get("input_data_config")] if each is not None]
        for node in given[:1]:
            listed = self.program.value(node)
            elements = getattr(getattr(listed, "node", None), "elts", None)
            if elements is None:
                if not self.is_none(node):
                    yield self.ask(("inputs",), node, "which data does it read?")
                continue
            for each in elements:
                call = self.calls_with(each)
                channel = {} if call is None else self._arguments(call, ())
                name = self.known(channel.get("channel_name"), str)
                if name is None:
                    yield self.ask(("inputs",), each, "which channel is it?")
                    continue
                source = channel.get("data_source")
                made = self.calls_with(source)
                kind = "" if made is None else self.class_of(made)
                if kind == "DataSource" and made is not None:
                    parts = self._arguments(made, ())
                    source = parts.get("s3_data_source") or parts.get("file_system_data_source")
                    made = self.calls_with(source)
                    kind = "" if made is None else self.class_of(made)
                path = ("inputs", name.value)
                if source is not None and made is not None and kind == "S3DataSource":
                    options = self._arguments(made, ())
                    if (
                        mode := channel.get("input_mode") or self.given.get("training_input_mode")
                    ) is not None:
                        options["input_mode"] = mode
                    yield from self.s3_channel(path, source, options)
                elif source is not None and made is not None and kind == "FileSystemDataSource":
                    yield from self.mount(path, source, self._arguments(made, ()))
                else:
                    yield from self.channel(name.value, source, each)


_CHECKPOINT_URI = ("checkpoint", "s3_uri")


def start_parts(start: StartLine, line: SourceLine) -> Iterator[Part]:
    """The fields of a line that starts a script."""
    for path, value in start.fields():
        yield DraftField(path, value, "", line)
    for path, text in start.questions:
        yield DraftQuestion(path, text, None, line)


def _as_name(text: str) -> str:
    """A job's name of a text: letters, digits and single hyphens."""
    return _TRUNCATED.sub("-", text).strip("-")[:MAX_NAME_LENGTH].rstrip("-") or "job"


def _is_s3(text: str) -> bool:
    return text.startswith(("s3://", "${"))


def _as_word(value: Any) -> Any:
    """A hyperparameter as the toolkit of the images hands it to a script (toolkit, mapping.py, to_cmd_args):
    Python's text of it, where a job file would have JSON's."""
    if value is None:
        return ""
    if isinstance(value, bool | list):
        return str(value)
    if isinstance(value, dict):
        return ",".join(f"{key}={item}" for key, item in value.items())
    return value


def _strategy_of(given: Mapping[str, Any]) -> tuple[str, dict[str, Any], Any, str] | None:
    """Strategy, options, processes per host and a comment, of a `distribution` of version 2; None for what no
    strategy does."""

    def section(*names: str) -> Mapping[str, Any]:
        found: Any = given
        for name in names:
            found = found.get(name) if isinstance(found, Mapping) else None
        return found if isinstance(found, Mapping) and found.get("enabled") is True else {}

    mpi, data, model = (
        section("mpi"),
        section("smdistributed", "dataparallel"),
        section("smdistributed", "modelparallel"),
    )
    options = str((mpi or data).get("custom_mpi_options") or "").strip()
    mpi_options: dict[str, Any] = {"mpi_options": options} if options else {}
    processes = mpi.get("processes_per_host")
    if model:
        parameters = dict(model.get("parameters") or {})
        if section("torch_distributed"):
            return "smp", {"parameters": parameters}, None, ""
        return "smp", {"version": 1, "parameters": parameters, **mpi_options}, processes, ""
    if data:
        return "smddp", mpi_options, None, ""
    if mpi:
        return "mpi", mpi_options, processes, ""
    if section("torch_distributed"):
        return "torchrun", {}, None, ""
    if section("pytorchddp"):
        return "torchrun", {}, None, "in place of the SDK's pytorchddp, which starts the ranks by mpirun"
    if section("pytorchxla"):
        return "torch_xla", {}, None, ""
    return ("none", {}, None, "") if not given else None
