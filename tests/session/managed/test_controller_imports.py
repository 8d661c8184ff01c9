"""The controller's step runs where there is only Python, boto3 and the pure libraries packed with it."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[3]

PROGRAM = """
import ast, sys
from pathlib import Path

ABSENT = {
    "pydantic", "pydantic_core", "yaml", "psutil", "rich", "cyclopts",
    "hyperscan", "re2", "zstandard", "pathspec", "packaging",
}


class Refusing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in ABSENT:
            raise ImportError(f"{name} is not there")


sys.meta_path.insert(0, Refusing())
import launcher.session.managed.advance_run

failing, read = set(), set()
while unread := {name for name in sys.modules if name.startswith("launcher.")} - read:
    for name in sorted(unread):
        read.add(name)
        for function in ast.walk(ast.parse(Path(sys.modules[name].__file__).read_text("utf-8"))):
            if not isinstance(function, ast.FunctionDef):
                continue
            for statement in ast.walk(function):
                if isinstance(statement, ast.Import | ast.ImportFrom):
                    try:
                        exec(ast.unparse(statement), {})
                    except ImportError:
                        failing.add(f"{name}.{function.name}")
print(failing)
"""

NOT_CALLED = {
    "launcher.aws.lookups.fetch_manifest",  # the step reads no manifest
    "launcher.cluster.names.check_zones",  # nor a cluster file
    "launcher.diagnosis.logs.decode._of_zstandard",  # a log file that is packed with Zstandard
    "launcher.source.folder_walk._layer",  # code is read before its job is submitted
    "launcher.source.folder_walk._pattern",
    "launcher.source.requirements_file._requirement",
}
"""The functions, in what the step imports, that would need another library."""


def test_the_controllers_step_needs_no_library_that_is_not_packed_with_it() -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM], cwd=ROOT, capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    assert ast.literal_eval(run.stdout) == NOT_CALLED
