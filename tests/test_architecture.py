"""The house stays as it was drawn: imports run one way, and commands import only what they need."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
HEAVY = ("boto3", "botocore", "pydantic", "yaml", "rich", "aws_cdk", "torch", "sagemaker")


def test_the_imports_run_one_way() -> None:
    tool = Path(sys.executable).with_name("lint-imports")
    run = subprocess.run([tool, "--no-cache"], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], {"rich"}),
        (["explain", "EFA002", "--output", "json"], set()),
        (["explain", "EFA002"], {"rich"}),
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


def test_no_module_is_crowded() -> None:
    files = [
        file
        for folder in ("launcher", "slipway", "stacks", "constructs")
        for file in (ROOT / folder).rglob("*.py")
    ]
    crowded = {str(file.relative_to(ROOT)): len(file.read_text().splitlines()) for file in files}
    assert {name: lines for name, lines in crowded.items() if lines > 400} == {}


def test_constructs_is_no_package_of_its_own() -> None:
    import constructs

    assert not (ROOT / "constructs" / "__init__.py").exists()
    assert "site-packages" in constructs.__file__
