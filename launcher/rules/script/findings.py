"""How a rule on a script reports: a finding, and the edits that repair it.

And the program that a job starts, which rules on both are asked of: `ScriptSubject`.

An edit changes a file by the positions that `ast` gives: what is around it stays as it is, byte for byte.
Edits count in characters of the decoded file, as `FileIndex.text` has them. They are applied from the last
to the first, so that none moves another's place. Fixes that change which ranks run a statement are made
only where somebody asks for unsafe ones, as what the author meant may be something else.
"""

from __future__ import annotations

import ast
import io
import tokenize
import warnings
from collections.abc import Iterable
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING

from launcher.failure_modes.model import (
    Edit,
    FailureMode,
    Finding,
    Fix,
    Location,
    Related,
    Severity,
    Stage,
)
from launcher.frozen import frozen
from launcher.program.dataflow import (
    constant_argument,
    origins,
    text_beginning,
)
from launcher.program.index import (
    BindingKind,
    FileIndex,
    file_of,
    parent_of,
    scope_of,
)
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.surroundings.options import (
    option_of,
)
from launcher.program.surroundings.shell_starts import ShellSetting, ShellStart
from launcher.rules.script.configuration_files import ConfigurationFiles

if TYPE_CHECKING:
    from launcher.jobs.specification import JobSpec
    from launcher.planning.training_plan import TrainingPlan


def finding_at(
    mode: FailureMode,
    node: ast.AST,
    message: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
    related: Iterable[Related] = (),
    fix: Fix | None = None,
) -> Finding:
    """A finding at a statement or expression of a program, which is its subject, as it is written."""
    file = file_of(node)
    finding = mode.finding(
        Stage.SCRIPT,
        message,
        remedy=remedy,
        severity=severity,
        location=file.location(node),
        subject=file.source(node),
    )
    return replace(finding, related=tuple(related), fix=fix)


def finding_in_shell(
    mode: FailureMode,
    place: ShellSetting | ShellStart,
    message: str,
    *,
    remedy: str | None = None,
    severity: Severity | None = None,
) -> Finding:
    """A finding at a line of the shell script beside a program that starts it."""
    return mode.finding(
        Stage.SCRIPT,
        message,
        remedy=remedy,
        severity=severity,
        location=Location(str(place.file), place.line, 1),
        subject=place.file.name,
    )


def related_at(node: ast.AST, message: str) -> Related:
    """Another place that a finding speaks of."""
    return Related(file_of(node).location(node), message)


def related_in_file(path: Path, entry: str) -> Related:
    """The line of a configuration file that names an entry."""
    lines = path.read_text("utf-8", "replace").splitlines()
    line = next((number for number, each in enumerate(lines, 1) if entry in each), 1)
    return Related(Location(str(path), line, 1), "here it is written")


@frozen
class ScriptSubject:
    """A program, and the job with its plan that starts it."""

    program: Program
    job: JobSpec
    plan: TrainingPlan


# Changing a file by the positions that `ast` gives.


MARK_OF_UTF8 = b"\xef\xbb\xbf"


class EditError(Exception):
    """Edits that cannot be applied: they overlap, lie outside of the file, or leave no Python behind."""


@frozen
class SourceText:
    """A file as it is edited: its text, and how that becomes its bytes again."""

    text: str
    encoding: str
    mark: bytes = b""

    @classmethod
    def decode(cls, data: bytes) -> SourceText:
        """The text of a Python file. Raises EditError where it is none that can be decoded."""
        try:
            encoding, _ = tokenize.detect_encoding(io.BytesIO(data).readline)
            mark = MARK_OF_UTF8 if data.startswith(MARK_OF_UTF8) else b""
            encoding = encoding.removesuffix("-sig")
            return cls(data[len(mark) :].decode(encoding), encoding, mark)
        except (SyntaxError, ValueError, LookupError) as error:
            raise EditError(f"it cannot be decoded: {error}") from error

    def encoded(self, text: str) -> bytes:
        """The bytes of the file with another text. Raises EditError for what its encoding lacks."""
        try:
            return self.mark + text.encode(self.encoding)
        except UnicodeEncodeError as error:
            lacking = error.object[error.start : error.end]
            raise EditError(f"its encoding {self.encoding} lacks {lacking!r}") from error


def apply_edits(data: bytes, edits: Iterable[Edit]) -> bytes:
    """The bytes of a file after its edits; the same edit twice counts once.

    Raises EditError where two overlap, one lies outside of the file, or the result is not Python.
    """
    source = SourceText.decode(data)
    ordered = sorted(set(edits), key=lambda edit: (edit.start, edit.end))
    for first, second in pairwise(ordered):
        if edits_overlap(first, second):
            raise EditError(f"two edits overlap at character {second.start}")
    text = source.text
    for edit in reversed(ordered):
        if not 0 <= edit.start <= edit.end <= len(source.text):
            raise EditError(f"an edit lies outside of the file, at character {edit.start}")
        text = text[: edit.start] + edit.text + text[edit.end :]
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        raise EditError(f"the edits would leave no valid Python: {error}") from error
    return source.encoded(text)


def edits_overlap(first: Edit, second: Edit) -> bool:
    """Whether two different edits of one file change the same place; insertions at one place do."""
    if first == second or first.file != second.file:
        return False
    if first.start == first.end == second.start == second.end:
        return True
    return first.start < second.end and second.start < first.end


def compatible_fixes(fixes: Iterable[Fix]) -> list[Fix]:
    """As many of the fixes, in their order, as can be made at once; the others wait for the next time.

    A fix is made whole or not at all.
    """
    chosen: list[Fix] = []
    taken: list[Edit] = []
    for fix in fixes:
        if fix in chosen or any(edits_overlap(edit, other) for edit in fix.edits for other in taken):
            continue
        chosen.append(fix)
        taken.extend(fix.edits)
    return chosen


class Places:
    """Where the nodes of a file stand, in characters of its text."""

    def __init__(self, file: FileIndex) -> None:
        """Of a file."""
        self.file = file
        self._begins = file.line_begins

    def begin(self, line: int) -> int:
        """The first character of a line; behind the last line the end of the text."""
        return self._begins[line - 1] if line <= len(self._begins) else len(self.file.text)

    def at(self, line: int, offset: int) -> int:
        """The character of a line and a byte offset in it, as `ast` gives them."""
        return self.begin(line) + self.file.column(line, offset) - 1

    def span(self, node: ast.expr | ast.stmt | ast.keyword) -> tuple[int, int]:
        """From the first character of a node to behind its last."""
        assert node.end_lineno is not None and node.end_col_offset is not None
        return self.at(node.lineno, node.col_offset), self.at(node.end_lineno, node.end_col_offset)

    def indentation(self, statement: ast.stmt) -> str:
        """The white space before a statement that begins its line, with the very tabs or spaces."""
        begin = self.begin(statement.lineno)
        before = self.file.text[begin : self.at(statement.lineno, statement.col_offset)]
        return before if not before.strip() else ""

    def begins_its_line(self, statement: ast.stmt) -> bool:
        """Whether nothing but white space is before a statement on its line."""
        begin = self.begin(statement.lineno)
        return not self.file.text[begin : self.at(statement.lineno, statement.col_offset)].strip()

    @property
    def newline(self) -> str:
        """How the file ends its lines, by its first one."""
        ends = self.file.text[: self._begins[1]] if len(self._begins) > 1 else "\n"
        return "\r\n" if ends.endswith("\r\n") else "\r" if ends.endswith("\r") else "\n"


def replace_node(node: ast.expr, text: str) -> Edit:
    """An expression with another in its place."""
    file = file_of(node)
    start, end = Places(file).span(node)
    return Edit(str(file.path), start, end, text)


def wrap_node(node: ast.expr, before: str, after: str) -> tuple[Edit, Edit]:
    """An expression between two texts, as `sorted(` and `)`; itself it stays as it is written."""
    file = file_of(node)
    start, end = Places(file).span(node)
    return Edit(str(file.path), start, start, before), Edit(str(file.path), end, end, after)


def insert_before(statement: ast.stmt, written: str) -> Edit | None:
    """A new statement on its own line before another one; None where that does not begin its line."""
    file = file_of(statement)
    places = Places(file)
    if not places.begins_its_line(statement):
        return None
    begin, indentation = places.begin(statement.lineno), places.indentation(statement)
    return Edit(str(file.path), begin, begin, f"{indentation}{written}{places.newline}")


def insert_after(statement: ast.stmt, *written: str) -> Edit | None:
    """New lines after a statement, indented as it is; None where another one shares its last line."""
    file = file_of(statement)
    places = Places(file)
    assert statement.end_lineno is not None
    indentation, behind = places.indentation(statement), places.begin(statement.end_lineno + 1)
    rest = file.text[places.span(statement)[1] : behind].strip()
    if (rest and not rest.startswith("#")) or not places.begins_its_line(statement):
        return None
    end = places.newline
    before = "" if file.text[:behind].endswith(("\n", "\r")) else end
    text = before + "".join(f"{indentation}{line}{end}" for line in written)
    return Edit(str(file.path), behind, behind, text)


def indent_below(statement: ast.stmt, head: str) -> tuple[Edit, ...] | None:
    """A statement below a head such as `if ready:`, indented by one step more.

    None where another statement shares one of its lines, or a text of several lines would change.
    """
    file = file_of(statement)
    places = Places(file)
    assert statement.end_lineno is not None
    rest = file.text[places.span(statement)[1] : places.begin(statement.end_lineno + 1)].strip()
    texts = (each for each in walk(statement) if isinstance(each, ast.Constant | ast.JoinedStr))
    long = any(each.lineno != each.end_lineno for each in texts)
    if long or (rest and not rest.startswith("#")) or not places.begins_its_line(statement):
        return None
    indentation = places.indentation(statement)
    step = "\t" if indentation.startswith("\t") else "    "
    begins = [places.begin(line) for line in range(statement.lineno, statement.end_lineno + 1)]
    first = Edit(str(file.path), begins[0], begins[0], f"{indentation}{head}{places.newline}{step}")
    return first, *(Edit(str(file.path), begin, begin, step) for begin in begins[1:])


def move_behind_test(statement: ast.stmt) -> Edit | None:
    """The last statement of an `if` without other arms, after it instead; alone in it, in its place.

    None where it is not, or a comment would go with the head.
    """
    test = parent_of(statement)
    if not isinstance(test, ast.If) or test.orelse or test.body[-1] is not statement:
        return None
    file = file_of(statement)
    places = Places(file)
    start = places.at(statement.lineno, statement.col_offset)
    head = places.at(test.lineno, test.col_offset)
    if not places.begins_its_line(statement) or not file.text.startswith("if", head):
        return None
    begin = places.begin(statement.lineno) if len(test.body) > 1 else places.begin(test.lineno)
    if len(test.body) == 1 and ("#" in file.text[begin:start] or not places.begins_its_line(test)):
        return None
    return Edit(str(file.path), begin, start, places.indentation(test))


def remove_keyword(call: ast.Call, name: str) -> Edit | None:
    """A call without one of its keywords and its comma; None where a comment is in the way."""
    file = file_of(call)
    places = Places(file)
    keyword = next((each for each in call.keywords if each.arg == name), None)
    if keyword is None or parent_of(keyword) is not call:
        return None
    start, end = places.span(keyword)
    spans = [*(places.span(each) for each in call.args), *(places.span(each) for each in call.keywords)]
    ends = [behind for _, behind in spans if behind <= start]
    text = file.text
    if ends:
        comma = text.rfind(",", max(ends), start)
        start = comma if comma >= 0 else start
    else:
        # The first argument takes the comma behind it along, and the space up to the next.
        behind = end + len(text[end:]) - len(text[end:].lstrip())
        if text.startswith(",", behind):
            end = behind + 1
            end += len(text[end:]) - len(text[end:].lstrip(" \t"))
    return None if "#" in text[start:end] else Edit(str(file.path), start, end, "")


# Fixes that change what a script does: which ranks run a statement.


def guard_by_rank_zero(call: ast.Call) -> Fix | None:
    """A call that is a statement of its own, on rank 0 alone, where the file names torch.distributed."""
    statement = parent_of(call)
    dist = name_of_torch_distributed(call)
    if not isinstance(statement, ast.Expr) or dist is None:
        return None
    edits = indent_below(statement, f"if {dist}.get_rank() == 0:")
    return None if edits is None else Fix(False, edits)


def move_to_every_rank(call: ast.Call) -> Fix | None:
    """A call that is the last statement under a test, after it."""
    statement = parent_of(call)
    edit = move_behind_test(statement) if isinstance(statement, ast.Expr) else None
    return None if edit is None else Fix(False, (edit,))


def name_of_torch_distributed(place: ast.AST) -> str | None:
    """How torch.distributed is called in a place, by an import at the head of the file."""
    scope = scope_of(place)
    names = {}
    for each in scope.file.imports:
        if each.kind is BindingKind.IMPORTED and scope.holder_of(each.name) is scope.file.module:
            names[each.module] = each.name
    if "torch.distributed" in names:
        return names["torch.distributed"]
    return f"{names['torch']}.distributed" if "torch" in names else None


# What a job makes of a program: which options it gives, which variables there are.


def named_variable(program: Program, key: ast.expr) -> str | None:
    """The name of a variable, or how it begins where the rest is put in."""
    value = constant_argument(program, key)
    if value is None and isinstance(key, ast.JoinedStr) and isinstance(key.values[0], ast.Constant):
        return str(key.values[0].value)
    return None if value is None else str(value.value)


def texts_by_default(program: Program, node: ast.expr) -> set[str | None]:
    """How a text begins, by all that it may come from and the defaults of options; None where that is not
    written, empty for an option without a default."""
    found = set[str | None]()
    for each in origins(program, node):
        option = None if each is None else option_of(program, each)
        begun = text_beginning(program, each if option is None else option.default) if each else None
        held = program.analysis(ConfigurationFiles).entry(each) if each and not option and not begun else None
        if held is not None:
            found |= {value if isinstance(value, str) else None for value in held.values}
        else:
            found.add(begun[0] if begun else "" if option else None)
    return found
