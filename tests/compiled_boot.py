"""The boot with its modules compiled: tests start hundreds, and each start compiles what is in an archive."""

from __future__ import annotations

import _imp
import marshal
from functools import cache
from importlib.util import MAGIC_NUMBER
from pathlib import Path
from tempfile import TemporaryDirectory
from types import CodeType
from zipfile import ZipFile

from launcher.source import packaging

_UNCHECKED = (1).to_bytes(4, "little") + bytes(8)
"""The flags of a .pyc that is not compared with its source (PEP 552), and no hash."""

_build_boot = packaging.build_boot


def build_boot(path: Path) -> None:
    """What `launcher.source.packaging.build_boot` writes, and beside each module what it compiles to."""
    content, codes = _boot()
    path.write_bytes(content)
    with ZipFile(path, "a") as archive:
        for name, compiled in codes.items():
            code: CodeType = marshal.loads(compiled)
            # As where it were compiled there: tracebacks name the archive.
            _imp._fix_co_filename(code, f"{path}/{name}")
            archive.writestr(f"{name}c", MAGIC_NUMBER + _UNCHECKED + marshal.dumps(code))


@cache
def _boot() -> tuple[bytes, dict[str, bytes]]:
    """The archive, and the code of its modules."""
    with TemporaryDirectory() as folder:
        file = Path(folder, "boot.pyz")
        _build_boot(file)
        with ZipFile(file) as archive:
            modules = [name for name in archive.namelist() if name.endswith(".py") and "/" in name]
            codes = {name: marshal.dumps(compile(archive.read(name), name, "exec")) for name in modules}
        return file.read_bytes(), codes
