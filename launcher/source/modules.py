"""Python modules by the files that hold them, as `python -m` finds them below the source folder."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


def module_files(module: str) -> tuple[str, str]:
    """The names of the files that may hold what `python -m` runs: a module, or a package's `__main__`."""
    path = module.replace(".", "/")
    return f"{path}.py", f"{path}/__main__.py"


def modules_in(names: Iterable[str]) -> Iterator[str]:
    """What `python -m` can run of the files with these names; those of packages by the package's name."""
    for name in names:
        if name.endswith(".py"):
            module = name[: -len(".py")].replace("/", ".")
            if not module.endswith("__init__"):
                yield module.removesuffix(".__main__")
