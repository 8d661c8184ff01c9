"""Where the programs come from: wheels of the package index by their hashes, repositories by their commits.

They are brought into a folder once. What cannot be had is said, and its programs are left out.
"""

from __future__ import annotations

import hashlib
import json
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

_BY_COMMIT = "/"
_PIP = ("-m", "pip", "download", "--quiet", "--disable-pip-version-check", "--no-deps", "--require-hashes")
_WHEELS = (
    *("--only-binary", ":all:", "--python-version", "3.11", "--implementation", "cp"),
    *("--platform", "manylinux1_x86_64"),
)


class NotAtHand(Exception):
    """A package that cannot be had, and why."""


@dataclass(frozen=True, slots=True)
class Source:
    """A wheel (`sha256` is its hash), or a repository of GitHub, `owner/name`, at the commit `version`.

    Of a repository only what lies `below` some folders is taken, where any are given.
    """

    package: str
    version: str
    programs: tuple[str, ...]
    sha256: str = ""
    below: tuple[str, ...] = ()

    @property
    def half(self) -> str:
        """A or B, by the parity of the hash of the name: fixed before anything was measured."""
        return "AB"[hashlib.sha256(self.package.encode()).digest()[-1] % 2]

    def brought(self, folder: Path, clones: Path | None) -> Path:
        """The folder of its files, below `folder`; raises NotAtHand. `clones` holds owner/name clones."""
        place = folder / f"{self.package.replace('/', '+')}-{self.version}"
        if not place.is_dir():
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=folder) as name:
                files = Path(name) / "files"
                files.mkdir()
                if _BY_COMMIT in self.package:
                    self._checked_out(Path(name), files, clones)
                else:
                    self._downloaded(Path(name), files)
                files.rename(place)
        return place

    def _downloaded(self, folder: Path, files: Path) -> None:
        wanted = folder / "wanted.txt"
        wanted.write_text(f"{self.package}=={self.version} --hash=sha256:{self.sha256}\n", "utf-8")
        _run([sys.executable, *_PIP, *_WHEELS, "--dest", str(folder), "--requirement", str(wanted)])
        (wheel,) = folder.glob("*.whl")
        with zipfile.ZipFile(wheel) as archive:
            archive.extractall(files)

    def _checked_out(self, folder: Path, files: Path, clones: Path | None) -> None:
        clone = folder / "clone.git" if clones is None else clones / self.package
        if clones is None:
            _run(["git", "init", "--quiet", "--bare", str(clone)])
            url = f"https://github.com/{self.package}"
            _run(["git", "-C", str(clone), "fetch", "--quiet", "--depth", "1", url, self.version])
        archive = folder / "files.tar"
        _run(["git", "-C", str(clone), "archive", "--output", str(archive), self.version, *self.below])
        with tarfile.open(archive) as packed:
            packed.extractall(files, filter="data")


def sources() -> Iterator[Source]:
    """The sources that the table names."""
    for row in json.loads(Path(__file__).with_name("programs.json").read_text("utf-8")):
        yield Source(**{key: tuple(each) if isinstance(each, list) else each for key, each in row.items()})


def _run(command: list[str]) -> None:
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise NotAtHand(str(error)) from error
    if ended.returncode:
        raise NotAtHand(ended.stderr.strip().splitlines()[-1] if ended.stderr.strip() else "it failed")
