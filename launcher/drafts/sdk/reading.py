"""One call that makes an estimator or a trainer of the SageMaker SDK, read keyword by keyword.

What both versions of the SDK have alike stands here; what the program's reader cannot follow is a question.
"""

from __future__ import annotations

import ast
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from launcher.cluster.names import MAX_NAME_LENGTH
from launcher.drafts.job_draft import DraftField, DraftQuestion, Path, SourceLine
from launcher.drafts.sdk.keywords import (
    FORMER_NAMES,
    OTHER_PATHS,
    PLAIN_FIELDS,
    POSITIONS,
    TUNER_POSITIONS,
    WITHOUT_WORDS,
)
from launcher.drafts.sdk.values import Known, ValueReader
from launcher.drafts.training_job import path_below_mount
from launcher.frozen import frozen
from launcher.program.index import FileIndex, file_of
from launcher.program.program import Program, write_out_unpacked
from launcher.program.values import Instance

Part = DraftField | DraftQuestion
Lines = Callable[[FileIndex, int], SourceLine]
"""Where a line of a file stands in what the user has: cells, in a notebook."""

_TRUNCATED = re.compile(r"[^a-zA-Z0-9]+")


@frozen
class SdkJob:
    """A call that makes an estimator or a trainer: its class, and where it stands."""

    kind: str
    call: ast.Call
    line: SourceLine


class SdkReading(ABC):
    """One such call; `notes` are sentences for the file's first comment, `lost` the keywords without words,
    `kept_out` what the job has and its file better has not, `tuners` the calls that make tuners of it."""

    def __init__(self, program: Program, job: SdkJob, lines: Lines) -> None:
        self.program, self.job, self._lines = program, job, lines
        self.values = ValueReader(program)
        self.unsure: dict[str, ast.expr] = {}
        self.unread: list[ast.expr] = [*(each for each in job.call.args if isinstance(each, ast.Starred))]
        self.given = self.arguments(job.call, POSITIONS[job.kind])
        for each in job.call.keywords:
            if each.arg is None:
                self._unpack(each.value)
        self.lost: list[str] = []
        self.notes: list[str] = []
        self.kept_out: list[DraftField] = []
        self.tuners = [
            call
            for file in program.files
            for call in file.calls_of.get("HyperparameterTuner", ())
            if (varied := self.arguments(call, TUNER_POSITIONS).get("estimator")) is not None
            and self._makes(varied, job.call)
        ]

    def line(self, node: ast.expr) -> SourceLine:
        """Where an expression stands in the source."""
        return self._lines(file_of(node), node.lineno)

    def arguments(self, call: ast.Call, positions: Sequence[str]) -> dict[str, ast.expr]:
        """The arguments of a call by their names, those of version 1 under the names of version 2."""
        given = dict(zip(positions, call.args, strict=False))
        for each in call.keywords:
            if each.arg is not None:
                given[FORMER_NAMES.get(each.arg, each.arg)] = each.value
        return given

    def _unpack(self, table: ast.expr) -> None:
        """What `**table` gives to the job: known keywords, and those that it may have."""
        entries = self.values.entries(table)
        for key, value, place in [("?", None, table)] if entries is None else entries:
            name = FORMER_NAMES.get(key, key)
            if key == "?":
                self.unread.append(place)
            elif value is None:
                self.unsure[name] = place
            else:
                self.given[name] = value

    def parts(self, name: str) -> Iterator[Part]:
        """All fields and questions; `name` is for a job that has none."""
        for node in self.unread:
            yield self.ask(("resources",), node, "what else is the job given?")
        for keyword, place in self.unsure.items():
            path = PLAIN_FIELDS[keyword][0] if keyword in PLAIN_FIELDS else OTHER_PATHS.get(keyword)
            if path is not None:
                yield self.ask(path, place, f"is {keyword} given? It depends on what runs.")
        yield from self.name(name)
        yield from self.role()
        yield from self.own_parts()
        self.lost += [
            f"{key} ({self.line(node)})"
            for key, node in self.given.items()
            if key in WITHOUT_WORDS and not self.is_none(node)
        ]

    @abstractmethod
    def own_parts(self) -> Iterator[Part]:
        """What this version of the SDK has for a job."""

    def hand_on(self, value: Any) -> Any:
        """A hyperparameter as a job file has it, so that the script is given the same word."""
        return value

    # What every part is made of.

    def field(self, path: Path, node: ast.expr, value: Any, comment: str = "") -> DraftField:
        """A field that stands where an expression does."""
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
        """The last name of what a call makes."""
        return (self.program.qualified(call.func) or "").rpartition(".")[2] or ast.unparse(call.func)

    def plain(self, node: ast.expr | None, path: Path, kinds: Any, question: str) -> Iterator[Part]:
        """A keyword whose value is a field's."""
        if node is None:
            return
        read = self.known(node, kinds)
        if read is not None and not (read.value == 0 and path == ("resources", "keep_alive")):
            yield self.field(path, node, read.value, read.comment)
        elif read is None and not self.is_none(node):
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

    def is_left_out(self, keyword: str) -> bool:
        """Whether a keyword surely is not given, so that the SDK's default holds."""
        node = self.given.get(keyword)
        return not self.unread and keyword not in self.unsure and (node is None or self.is_none(node))

    # What both versions have.

    def name(self, otherwise: str) -> Iterator[Part]:
        """The job's name: its base in the program, else another one."""
        node = self.given.get("base_job_name")
        read = self.known(node, str)
        if node is not None and read is not None and "${" not in read.value:
            yield self.field(("name",), node, as_name(read.value), read.comment)
            return
        yield DraftField(("name",), as_name(otherwise))
        if node is not None and not self.is_none(node):
            yield self.ask(("name",), node, "which name?")

    def role(self) -> Iterator[Part]:
        """The role, where it is an ARN or a variable."""
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

    def hosts(self, given: Mapping[str, ast.expr]) -> Iterator[Part]:
        """The type of the hosts; a job on the program's own machine has none."""
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
        """Spot instances, or a training plan."""
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
            given = self.arguments(call, ("framework", "region", "version", "py_version"))
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
        """One hyperparameter or variable."""
        read = self.known(node)
        if node is None or read is None:
            yield self.ask(path, node or place, f"which value has {path[-1]}?")
            return
        value = read.value
        if path[0] == "environment":
            value = str(value)
        elif (value := self.hand_on(value)) is None:
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
        """The tags, as a list of the API's mappings or as one mapping."""
        yield from self.pairs(self.given.get("tags"), "tags", ("Key", "Value"))

    def methods(self, name: str, of: ast.Call | None = None) -> list[ast.Call]:
        """The calls of a method of what the job's call makes, or another one (`of`)."""
        made = self.job.call if of is None else of
        return [
            call
            for file in self.program.files
            for call in file.calls_of.get(name, ())
            if isinstance(call.func, ast.Attribute) and self._makes(call.func.value, made)
        ]

    def _makes(self, node: ast.expr, call: ast.Call) -> bool:
        value = self.program.value(node)
        return isinstance(value, Instance) and value.call is call

    def starts(self, own: str, of_tuner: str) -> list[ast.Call]:
        """The calls that start the job: a method of its own, or one of the tuner that varies it."""
        return [*self.methods(own), *(call for each in self.tuners for call in self.methods(of_tuner, each))]

    def channel(self, name: str, node: ast.expr | None, place: ast.expr) -> Iterator[Part]:
        """One channel: a URI, or an object of the SDK that holds one."""
        path = ("inputs", name)
        call = self.calls_with(node)
        kind = "" if call is None else self.class_of(call)
        if node is not None and call is not None and kind in ("TrainingInput", "s3_input"):
            yield from self.s3_channel(path, node, self.arguments(call, ("s3_data", "distribution")))
        elif node is not None and call is not None and kind == "FileSystemInput":
            positions = ("file_system_id", "file_system_type", "directory_path", "file_system_access_mode")
            yield from self.mount(path, node, self.arguments(call, positions))
        elif node is not None and (read := self.known(node, str)) is not None and is_on_s3(read.value):
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
        """A channel from S3, by the arguments of the object that describes it."""
        source = given.get("s3_data") or given.get("s3_uri")
        read = self.known(source, str)
        kind = self.known(given.get("s3_data_type"), str)
        if read is None or not is_on_s3(read.value) or (kind is not None and kind.value != "S3Prefix"):
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
        """A channel that mounts a file system: Lustre alone, and the cluster's."""
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


def as_name(text: str) -> str:
    """A job's name of a text: letters, digits and single hyphens."""
    return _TRUNCATED.sub("-", text).strip("-")[:MAX_NAME_LENGTH].rstrip("-") or "job"


def is_on_s3(text: str) -> bool:
    """Whether a text is an S3 URI, or begins with a variable that may be one."""
    return text.startswith(("s3://", "${"))
