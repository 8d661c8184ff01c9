"""Launch distributed training on Amazon SageMaker, and refuse what would stall there.

For notebooks and programs: `from launcher import plan, launch`. They are loaded when asked for, so that
the command line pays for nothing that it does not use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from launcher.api import launch, plan

__all__ = ["launch", "plan"]


def __getattr__(name: str) -> Any:
    if name in __all__:
        from launcher import api

        return getattr(api, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
