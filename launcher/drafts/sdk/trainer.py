"""A job file of a trainer of the SageMaker SDK version 3, which starts a job by its `train`.

Source: SageMaker SDK 3.27, sagemaker.train.model_trainer, sagemaker.train.distributed and
sagemaker.core.training.configs.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping

from launcher.drafts.batch.start_line import fields_of_start, questions_of_start
from launcher.drafts.job_draft import DraftField, DraftQuestion, SourceLine
from launcher.drafts.sdk.keywords import PLAIN_FIELDS
from launcher.drafts.sdk.reading import Part, SdkReading
from launcher.source.start_line import StartLine, read_start_line


class TrainerReading(SdkReading):
    """ModelTrainer."""

    def own_parts(self) -> Iterator[Part]:
        """The keywords of a trainer, and the call that starts it."""
        compute = self._config("compute")
        yield from self._hosts_of_compute(compute)
        node = self.given.get("training_image")
        if node is None or self.is_none(node):
            yield DraftQuestion(("image",), "in which image?", "URI", self.job.line)
        else:
            yield from self.own_image(node)
        yield from self._source_code(self._config("source_code"))
        yield from self._distributed()
        yield from self.words("hyperparameters", self.given.get("hyperparameters"), "which hyperparameters?")
        yield from self.words("environment", self.given.get("environment"), "which variables?")
        yield from self._stopping()
        for section, keyword, config in (
            ("output", "s3_output_path", self._config("output_data_config")),
            ("checkpoint", "s3_uri", self._config("checkpoint_config", "with_checkpoint_config")),
        ):
            if (place := config.get(keyword)) is not None:
                yield from self.uri(place, (section, "s3_uri"), "where on S3?")
            elif section == "checkpoint" and config:
                yield DraftField(("checkpoint", "sync"), "sagemaker", "", self.job.line)
            if section == "checkpoint":
                yield from self.plain(config.get("local_path"), *PLAIN_FIELDS["checkpoint_local_path"])
        networking = self._config("networking")
        for keyword, known in (
            ("subnets", "subnets"),
            ("security_group_ids", "security_group_ids"),
            ("enable_network_isolation", "enable_network_isolation"),
            ("enable_inter_container_traffic_encryption", "encrypt_inter_container_traffic"),
        ):
            yield from self.plain(networking.get(keyword), *PLAIN_FIELDS[known])
        retry = self._config("", "with_retry_strategy").get("maximum_retry_attempts")
        yield from self.plain(retry, *PLAIN_FIELDS["max_retry_attempts"])
        yield from self._listed_channels()

    def _config(self, keyword: str, method: str = "") -> dict[str, ast.expr]:
        """What the object of a keyword was made of, or the one that a method of the trainer is given."""
        node = self.given.get(keyword)
        if node is None and method:
            nodes = [call.args[0] for call in self.methods(method) if call.args]
            node = nodes[0] if len(nodes) == 1 else None
        call = self.calls_with(node)
        return {} if call is None else self.arguments(call, ())

    def _hosts_of_compute(self, compute: Mapping[str, ast.expr]) -> Iterator[Part]:
        if not compute:
            node = self.given.get("compute")
            if node is not None and not self.is_none(node):
                yield self.ask(("resources", "instance_type"), node, "on which hosts?", "ml.p4d.24xlarge")
            elif self.is_left_out("compute"):
                comment = "the SDK's default"
                yield DraftField(("resources", "instance_type"), "ml.m5.xlarge", comment, self.job.line)
            return
        yield from self.hosts(compute)
        yield from self.plain(compute.get("instance_count"), *PLAIN_FIELDS["instance_count"])
        yield from self.plain(compute.get("volume_size_in_gb"), *PLAIN_FIELDS["volume_size"])
        keep = compute.get("keep_alive_period_in_seconds")
        yield from self.plain(keep, *PLAIN_FIELDS["keep_alive_period_in_seconds"])
        spot, plan = compute.get("enable_managed_spot_training"), compute.get("training_plan_arn")
        self.given.update({"use_spot_instances": spot} if spot is not None else {})
        self.given.update({"training_plan": plan} if plan is not None else {})
        yield from self.spot()

    def _source_code(self, given: Mapping[str, ast.expr]) -> Iterator[Part]:
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
            yield from self._command(command, given.get("args"))
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

    def _command(self, node: ast.expr, arguments: ast.expr | None) -> Iterator[Part]:
        """A command that the container runs: a script that it starts, alone or by torchrun."""
        read = self.known(node, str)
        start = None if read is None else read_start_line(read.value)
        if start is None or arguments is not None:
            yield self.ask(("code", "entry_point"), node, "which script does it start?", "train.py")
            return
        yield from _start_parts(start, self.line(node))

    def _distributed(self) -> Iterator[Part]:
        node = self.given.get("distributed")
        if node is None or self.is_none(node):
            return
        call = self.calls_with(node)
        given = {} if call is None else self.arguments(call, ())
        kind = "" if call is None else self.class_of(call)
        path = ("distribution", "strategy")
        if kind == "Torchrun":
            smp = self.calls_with(given.get("smp"))
            if smp is not None:
                read = {key: self.known(each) for key, each in self.arguments(smp, ()).items()}
                known = {key: each.value for key, each in read.items() if each is not None}
                yield self.field(path, node, "smp")
                yield self.field(("distribution", "options"), node, {"parameters": known})
                for key, each in self.arguments(smp, ()).items():
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

    def _stopping(self) -> Iterator[Part]:
        node = self.given.get("stopping_condition")
        given = self._config("stopping_condition")
        if self.is_left_out("stopping_condition"):
            comment = "the SDK's default"
            yield DraftField(("limits", "max_runtime"), 3600, comment, self.job.line)
        elif node is not None and not given and not self.is_none(node):
            yield self.ask(("limits", "max_runtime"), node, "how long may it run?", "24h")
        yield from self.plain(given.get("max_runtime_in_seconds"), *PLAIN_FIELDS["max_run"])
        question = "how long may it wait and run, in seconds?"
        waits = given.get("max_wait_time_in_seconds")
        yield from self.plain(waits, ("limits", "max_wait"), int, question)

    def _listed_channels(self) -> Iterator[Part]:
        """The channels of the trainer itself, or of the call that starts it."""
        nodes = [self.arguments(call, ("input_data_config",)) for call in self.starts("train", "tune")]
        given = [each[key] for each in nodes for key in ("input_data_config", "inputs") if key in each]
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
                channel = {} if call is None else self.arguments(call, ())
                name = self.known(channel.get("channel_name"), str)
                if name is None:
                    yield self.ask(("inputs",), each, "which channel is it?")
                    continue
                source = channel.get("data_source")
                made = self.calls_with(source)
                kind = "" if made is None else self.class_of(made)
                if kind == "DataSource" and made is not None:
                    parts = self.arguments(made, ())
                    source = parts.get("s3_data_source") or parts.get("file_system_data_source")
                    made = self.calls_with(source)
                    kind = "" if made is None else self.class_of(made)
                path = ("inputs", name.value)
                if source is not None and made is not None and kind == "S3DataSource":
                    options = self.arguments(made, ())
                    if (
                        mode := channel.get("input_mode") or self.given.get("training_input_mode")
                    ) is not None:
                        options["input_mode"] = mode
                    yield from self.s3_channel(path, source, options)
                elif source is not None and made is not None and kind == "FileSystemDataSource":
                    yield from self.mount(path, source, self.arguments(made, ()))
                else:
                    yield from self.channel(name.value, source, each)


def _start_parts(start: StartLine, line: SourceLine) -> Iterator[Part]:
    """The fields of a line that starts a script."""
    for path, value in fields_of_start(start):
        yield DraftField(path, value, "", line)
    for path, text in questions_of_start(start):
        yield DraftQuestion(path, text, None, line)
