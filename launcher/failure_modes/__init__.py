"""The catalogue: every known way in which a distributed job stalls, crashes or wastes money, as data.

A `FailureMode` is a table of a TOML file here, told once: its cause, its remedy, where the knowledge comes
from, and the log lines that show it. Code names it by family and name, as in `nccl.SYSTEM_ERROR`. A
`Finding` says that one was met, at which stage and where; all rooms above speak in findings. A `Refusal` is
the one exception for what a person can act on. `registry` collects which code finds what, and `coverage` is
what `launch explain` reads of it.
"""


def __getattr__(name: str) -> object:
    """A family, `sources` or `notices`: read when the first of them is asked for."""
    from launcher.failure_modes.registry import ATTRIBUTES

    if name in ATTRIBUTES:
        return ATTRIBUTES[name]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
