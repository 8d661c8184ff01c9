"""The house stays as it was drawn: imports run one way, and commands import only what they need."""

from __future__ import annotations

import ast
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
ROOMS = ("launcher", "slipway", "slipway_cdk", "stacks", "constructs")
HEAVY = ("boto3", "botocore", "pydantic", "yaml", "rich", "aws_cdk", "torch", "sagemaker")


MAY_IMPORT_OF_OURS = {
    "slipway_cdk": (
        "slipway_cdk",
        "constructs.Construct",
        "constructs.IConstruct",
        "launcher.cluster",
        "launcher.failure_modes",
    ),
    "constructs": ("constructs", "slipway_cdk", "launcher.cluster", "launcher.failure_modes"),
    "stacks": ("constructs", "stacks", "launcher.cluster", "launcher.failure_modes"),
}
"""What the folders of the CDK's side may import; the two names are those of PyPI's `constructs`."""

FORBIDDEN = [
    # From each room to one above it.
    ("launcher/session/runs/diagnose_job.py", "launcher.cli.interaction"),
    ("launcher/backends/interface.py", "launcher.session.runs.diagnose_job"),
    ("launcher/report/page.py", "launcher.backends.interface"),
    ("launcher/diagnosis/model.py", "launcher.report.page"),
    ("launcher/rules/live/network_rules.py", "launcher.backends.interface"),
    ("launcher/planning/training_plan.py", "launcher.rules.job.check"),
    ("launcher/diagnosis/model.py", "launcher.rules.live.check"),
    ("launcher/diagnosis/model.py", "launcher.planning.training_plan"),
    ("launcher/diagnosis/signs/exceptions.py", "launcher.diagnosis.evidence.dumps"),
    ("launcher/provisioning/updates.py", "launcher.planning.training_plan"),
    ("launcher/experiments/run_measures.py", "launcher.planning.training_plan"),
    ("launcher/account/facts.py", "launcher.planning.training_plan"),
    ("launcher/jobs/values.py", "launcher.account.facts"),
    ("launcher/source/tree.py", "launcher.jobs.values"),
    ("launcher/source/tree.py", "launcher.program.values"),
    ("launcher/program/values.py", "launcher.jobs.values"),
    ("launcher/program/values.py", "yaml"),
    ("launcher/aws/errors.py", "launcher.jobs.values"),
    ("launcher/cluster/instances.py", "launcher.aws.errors"),
    ("launcher/documents.py", "launcher.cluster.instances"),
    ("launcher/failure_modes/model.py", "launcher.documents"),
    ("launcher/text/values.py", "launcher.failure_modes.model"),
    ("launcher/facts/__init__.py", "launcher.failure_modes.model"),
    ("launcher/facts/__init__.py", "launcher.text.values"),
    # To the world, straight and by a detour.
    ("launcher/rules/live/network_rules.py", "launcher.aws.clients"),
    ("launcher/rules/live/network_rules.py", "launcher.account.questions.ask"),
    ("launcher/planning/training_plan.py", "launcher.aws.errors"),
    ("launcher/diagnosis/model.py", "boto3"),
    ("launcher/experiments/run_measures.py", "boto3"),
    ("launcher/account/facts.py", "launcher.aws.errors"),
    ("launcher/failure_modes/model.py", "yaml"),
    ("launcher/backends/interface.py", "rich"),
    ("launcher/session/runs/diagnose_job.py", "botocore"),
    # Between neighbours.
    ("launcher/rules/job/host_rules.py", "launcher.rules.live.network_rules"),
    ("launcher/rules/live/network_rules.py", "launcher.rules.script.findings"),
    ("launcher/rules/script/findings.py", "launcher.rules.live.network_rules"),
    ("launcher/backends/local/logs.py", "launcher.backends.queue"),
    # The container's side and the CDK's.
    ("launcher/session/runs/diagnose_job.py", "slipway.boot"),
    ("launcher/planning/training_plan.py", "aws_cdk"),
    ("slipway/container.py", "launcher.jobs.values"),
    ("slipway/container.py", "yaml"),
    ("stacks/schedulers.py", "launcher.session.runs.diagnose_job"),
    ("stacks/schedulers.py", "launcher.jobs.values"),
    ("constructs/training_key.py", "launcher.session.runs.diagnose_job"),
    ("slipway_cdk/checks/app.py", "launcher.rules.live.network_rules"),
    ("slipway_cdk/checks/lustre.py", "launcher.cluster.storage_section"),
    ("slipway_cdk/efa_security_group.py", "constructs.training_key"),
    ("constructs/training_key.py", "stacks.network"),
]
"""A module of each room, and what it may not import: each direction of docs/design.md at least once."""


def test_the_imports_run_one_way() -> None:
    assert _broken_contracts(ROOT) == ""
    assert list(_imports_across(ROOT)) == []


@pytest.fixture(scope="module")
def copied_house(tmp_path_factory: pytest.TempPathFactory) -> Path:
    copy = tmp_path_factory.mktemp("house")
    for room in ROOMS:
        shutil.copytree(ROOT / room, copy / room, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


@pytest.fixture(scope="module")
def refused_together(copied_house: Path) -> set[tuple[str, str]]:
    """All of them written at once: those that are refused for themselves, not for where another one leads."""
    with _hidden(copied_house, FORBIDDEN):
        report = _broken_contracts(copied_house)
        across = "".join(_imports_across(copied_house))
    chains = [_IMPORT.findall(paragraph) for paragraph in report.split("\n\n")]
    return {chain[0] for chain in chains if len(chain) == 1} | set(_ACROSS.findall(across))


_IMPORT = re.compile(r"^ *-? *(\S+) -> (\S+) ", re.MULTILINE)
_ACROSS = re.compile(r"^(\S+) imports (\S+)$", re.MULTILINE)


def _module_of(file: str) -> str:
    return file.removesuffix(".py").replace("/", ".").removesuffix(".__init__")


def test_forbidden_imports_are_refused(refused_together: set[tuple[str, str]]) -> None:
    missed = {(_module_of(file), forbidden) for file, forbidden in FORBIDDEN} - refused_together
    assert len(missed) <= 5, missed


@pytest.mark.exhaustive
def test_a_forbidden_import_that_leads_on_to_others_is_refused_alone(
    copied_house: Path, refused_together: set[tuple[str, str]], subtests: pytest.Subtests
) -> None:
    for file, forbidden in FORBIDDEN:
        module = _module_of(file)
        if (module, forbidden) not in refused_together:
            with subtests.test(f"{module} imports {forbidden}"):
                with _hidden(copied_house, [(file, forbidden)]):
                    refused = _broken_contracts(copied_house)
                assert forbidden.partition(".")[0] in refused
                assert module in refused


@contextmanager
def _hidden(house: Path, imports: Sequence[tuple[str, str]]) -> Iterator[None]:
    """The imports written into their files, inside of functions, where an import hides best."""
    before = {file: (house / file).read_text("utf-8") for file, _ in imports}
    for number, (file, name) in enumerate(imports):
        with (house / file).open("a", encoding="utf-8") as module:
            module.write(f"\n\ndef _hidden_{number}() -> None:\n    import {name}  # noqa: F401\n")
    try:
        yield
    finally:
        for file, text in before.items():
            (house / file).write_text(text, "utf-8")


def _broken_contracts(root: Path) -> str:
    """What import-linter says where a contract of pyproject.toml is broken; nothing where all are kept."""
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=root, capture_output=True, text=True)
    return "" if run.returncode == 0 else run.stdout + run.stderr


def _imports_across(root: Path) -> Iterator[str]:
    """What constructs/ and stacks/ import of ours and may not, by their syntax trees."""
    for folder, allowed in MAY_IMPORT_OF_OURS.items():
        for file in sorted((root / folder).rglob("*.py")):
            module = ".".join(file.relative_to(root).with_suffix("").parts)
            for name in _imported(ast.parse(file.read_text("utf-8"))):
                if name.partition(".")[0] in ROOMS and not _lies_in(name, allowed):
                    yield f"{module} imports {name}\n"


@cache
def _tree(file: Path) -> ast.Module:
    return ast.parse(file.read_text("utf-8"))


def _imported(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def _lies_in(name: str, rooms: tuple[str, ...]) -> bool:
    return any(name == room or name.startswith(f"{room}.") for room in rooms)


def test_no_imports_run_in_a_circle() -> None:
    files = [file for room in ROOMS for file in (ROOT / room).rglob("*.py")]
    sources = {_module_name(file): _tree(file) for file in files}
    assert _circle_of_imports(sources) == []


@pytest.mark.parametrize(
    "hidden",
    [
        "import room.lower",
        "from room import lower",
        "from room.lower import name",
        "if TYPE_CHECKING:\n    from room.lower import Name",
        "def late():\n    from room.lower import name",
    ],
)
def test_a_circle_is_found_however_it_is_imported(hidden: str) -> None:
    sources = {"room": "", "room.upper": "import room.middle", "room.middle": hidden}
    sources["room.lower"] = "from room.upper import other"
    trees = {name: ast.parse(source) for name, source in sources.items()}
    assert sorted(set(_circle_of_imports(trees))) == ["room.lower", "room.middle", "room.upper"]
    assert _circle_of_imports({**trees, "room.lower": ast.parse("import os")}) == []


def _circle_of_imports(sources: Mapping[str, ast.AST]) -> list[str]:
    """The modules of a circle of imports, each beside the one that imports it; none where there is no circle.

    Every import counts, wherever it stands: those of functions and those for type checkers alone, too.
    """
    imports = {
        name: {
            module for each in _imported(tree) if (module := _known_module(each, sources)) not in (None, name)
        }
        for name, tree in sources.items()
    }
    try:
        TopologicalSorter(imports).prepare()
    except CycleError as error:
        return list(error.args[1])
    return []


def _known_module(name: str, known: Mapping[str, object]) -> str | None:
    """The module that an imported name is or stands in: `room.module` of `room.module.name`."""
    while name not in known:
        name, dot, _ = name.rpartition(".")
        if not dot:
            return None
    return name


def _module_name(file: Path) -> str:
    return ".".join(file.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")


@pytest.mark.few_cases(every=4)
@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], {"rich"}),
        (["explain", "EFA002", "--output", "json"], set()),
        (["explain", "EFA002"], {"rich"}),
        (["clean", "--output", "json"], set()),
        (["find", "--gpu", "H100", "--output", "json"], set()),
        (["lint", "examples"], set()),
        (["check", "examples/ddp/job.yaml", "--output", "json"], {"pydantic", "yaml"}),
        (["check", "examples/ddp/job.yaml"], {"pydantic", "yaml", "rich"}),
        (["plan", "examples/ddp/job.yaml", "--output", "json"], {"pydantic", "yaml"}),
        (["examples/ddp/job.yaml", "--dry-run", "--output", "json"], {"pydantic", "yaml"}),
    ],
)
def test_a_command_imports_only_what_it_needs(arguments: list[str], allowed: set[str]) -> None:
    program = (
        "import sys\n"
        "from launcher.cli.app import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit: pass\n"
        f"print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)"
    )
    run = subprocess.run([sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True)
    imported = set(eval(run.stderr.strip().splitlines()[-1]))
    assert imported <= allowed


@pytest.mark.few_cases(every=3)
@pytest.mark.parametrize(
    "arguments",
    [
        ["--help"],
        ["list"],
        ["list", "--local"],
        ["status", "nobody-s-job"],
        ["logs", "nobody-s-job"],
        ["stop", "nobody-s-job"],
    ],
    ids=" ".join,
)
def test_a_command_on_jobs_imports_nothing_of_planning_or_rules(arguments: list[str], tmp_path: Path) -> None:
    # Without credentials most of them end with exit code 3, after all that they need was imported.
    program = (
        "import sys\n"
        "from launcher.cli.app import main\n"
        f"try: main({arguments!r})\n"
        "except SystemExit as ended: print(ended.code, file=sys.stderr)\n"
        "rooms = {'.'.join(name.split('.')[:2]) for name in sys.modules if name.startswith('launcher.')}\n"
        "print(sorted(rooms), file=sys.stderr)"
    )
    run = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT), "AWS_REGION": "us-west-2"},
        capture_output=True,
        text=True,
    )
    code, rooms = run.stderr.strip().splitlines()[-2:]
    assert code in ("0", "3"), run.stderr
    assert set(eval(rooms)).isdisjoint({"launcher.planning", "launcher.rules"})


def test_no_module_and_no_folder_is_crowded() -> None:
    files = [file for room in ("launcher", "slipway", "stacks") for file in (ROOT / room).rglob("*.py")]
    long = {str(file.relative_to(ROOT)): len(file.read_text("utf-8").splitlines()) for file in files}
    flat = Counter(str(file.parent.relative_to(ROOT)) for file in files if file.name != "__init__.py")
    assert {name: lines for name, lines in long.items() if lines > 760} == {}
    assert {folder: count for folder, count in flat.items() if count > 12} == {}


def test_constructs_is_no_package_of_its_own() -> None:
    import constructs

    assert not (ROOT / "constructs" / "__init__.py").exists()
    assert "site-packages" in constructs.__file__


def test_a_class_name_has_one_meaning() -> None:
    found: dict[str, list[str]] = {}
    for room in ROOMS:
        for file in sorted((ROOT / room).rglob("*.py")):
            for node in ast.walk(_tree(file)):
                if isinstance(node, ast.ClassDef):
                    found.setdefault(node.name.lstrip("_"), []).append(str(file.relative_to(ROOT)))
    assert {name: files for name, files in found.items() if len(files) > 1} == {}


def test_nobody_asks_which_backend_it_is() -> None:
    asking = [
        f"{file.relative_to(ROOT)}:{node.lineno}"
        for file in sorted((ROOT / "launcher").rglob("*.py"))
        if "backends" not in file.parts
        for node in ast.walk(_tree(file))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "isinstance"
        if "Backend" in ast.unparse(node.args[1])
    ]
    assert asking == []


def test_each_room_tells_its_story() -> None:
    stories = {
        str(file.parent.relative_to(ROOT)): ast.get_docstring(_tree(file)) or ""
        for file in (ROOT / "launcher").rglob("__init__.py")
    }
    assert {room: story for room, story in stories.items() if len(story.split()) < 25} == {}
