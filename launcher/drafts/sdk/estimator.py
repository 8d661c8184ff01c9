"""A job file of an estimator of the SageMaker SDK version 2, which starts a job by its `fit`.

What the SDK does by itself is written out where a job file does otherwise. Source: SageMaker SDK 2.257,
sagemaker.estimator, .pytorch, .huggingface, .tensorflow; aws/sagemaker-training-toolkit, mapping.py.
"""

from __future__ import annotations

import ast
import posixpath
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from launcher.drafts.job_draft import DraftField, DraftQuestion
from launcher.drafts.sdk.keywords import PLAIN_FIELDS
from launcher.drafts.sdk.reading import Part, SdkReading
from launcher.program.bindings import branch_arms
from launcher.program.program import write_out_unpacked

_CHECKPOINT_URI = ("checkpoint", "s3_uri")


class EstimatorReading(SdkReading):
    """Estimator, PyTorch, HuggingFace or TensorFlow."""

    starts_by_toolkit = False
    """Whether the images' toolkit hands hyperparameters on here, too."""

    def own_parts(self) -> Iterator[Part]:
        """The keywords of an estimator, and the call that starts it."""
        yield from self.hosts(self.given)
        for keyword, (path, kinds, question) in PLAIN_FIELDS.items():
            yield from self.plain(self.given.get(keyword), path, kinds, question)
        strategy = [*self._distribution()]
        yield from self._image()
        yield from self._code()
        yield from strategy
        yield from self._hyperparameters(self.given.get("hyperparameters"))
        yield from self.spot()
        for keyword, path in (("output_path", ("output", "s3_uri")), ("checkpoint_s3_uri", _CHECKPOINT_URI)):
            if (node := self.given.get(keyword)) is not None:
                yield from self.uri(node, path, "where on S3?")
        yield from self.words("environment", self.given.get("environment"), "which variables?")
        yield from self.pairs(self.given.get("metric_definitions"), "metrics", ("Name", "Regex"))
        yield from self.tags()
        yield from self._inputs()
        self._debugger(strategy)

    def hand_on(self, value: Any) -> Any:
        """As the toolkit of the images makes a word of it; as it is where the toolkit does that itself."""
        return value if self.starts_by_toolkit else _as_word(value)

    def _image(self) -> Iterator[Part]:
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

    def _code(self) -> Iterator[Part]:
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

    def _distribution(self) -> Iterator[Part]:
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

    def _hyperparameters(self, node: ast.expr | None) -> Iterator[Part]:
        """Each of them, as the toolkit of version 2 hands it to the script."""
        if node is not None and not self.is_none(node):
            yield from self.words("hyperparameters", node, "which hyperparameters?")
        for call in self.methods("set_hyperparameters"):
            write_out_unpacked(self.program, call)
            surely = branch_arms(call) <= branch_arms(self.job.call)
            for each in call.keywords:
                if each.arg is None:
                    yield self.ask(("hyperparameters",), each.value, "which hyperparameters?")
                else:
                    value = each.value if surely else None
                    yield from self.entry(("hyperparameters", each.arg), value, each.value)

    def _inputs(self) -> Iterator[Part]:
        """The channels, by the call that starts the job."""
        calls = self.starts("fit", "fit")
        if not calls:
            yield DraftQuestion(
                ("inputs",),
                "which data does it read? Where the program calls `fit` could not be followed.",
                {"train": "s3://BUCKET/PREFIX"},
                self.job.line,
            )
            return
        nodes = [self.arguments(call, ("inputs",)).get("inputs") for call in calls]
        given = [each for each in nodes if each is not None and not self.is_none(each)]
        if len({ast.dump(each) for each in given}) > 1:
            yield self.ask(("inputs",), given[0], f"which data? It is started {len(given)} times.")
        elif given:
            yield from self._channels(given[0])

    def _channels(self, node: ast.expr) -> Iterator[Part]:
        entries = self.values.entries(node)
        if entries is None:
            if self._channel_like(node):
                yield from self.channel("training", node, node)
            else:
                yield self.ask(("inputs",), node, "which data does it read?", {"train": "s3://BUCKET/PREFIX"})
            return
        for key, value, place in entries:
            if key == "?":
                yield self.ask(("inputs",), place, "which channels? Not all could be read.")
            else:
                yield from self.channel(key, value, place)

    def _channel_like(self, node: ast.expr) -> bool:
        """Whether what is given instead of channels is the data of the one that the SDK calls `training`."""
        call = self.calls_with(node)
        if call is not None and self.class_of(call) in ("TrainingInput", "s3_input", "FileSystemInput"):
            return True
        return isinstance(node, ast.JoinedStr | ast.BinOp) or self.known(node, str) is not None

    def _debugger(self, strategy: Sequence[Part]) -> None:
        """Debugger as the SDK has it: on unless it is switched off, which the file better leaves out.

        It switches the hook off by itself where a distributed job has both places of its checkpoints
        (sagemaker.estimator, _validate_and_set_debugger_configs), and a tuning job has none (SageMaker API
        reference, HyperParameterTrainingJobDefinition).
        """
        node = self.given.get("debugger_hook_config")
        read = self.known(node, bool)
        if (read is not None and read.value is False) or self.job.kind == "Estimator" or self.tuners:
            return
        count = self.known(self.given.get("instance_count"), int)
        several = count is not None and isinstance(count.value, int) and count.value > 1
        with_both = {"checkpoint_s3_uri", "checkpoint_local_path"} <= set(self.given)
        if with_both and (strategy or several):
            return
        place = node if node is not None else self.job.call
        self.kept_out.append(self.field(("debugger",), place, True, "the SDK's default"))


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
