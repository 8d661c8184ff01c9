"""Two requests side by side: what a change of the job file changes in what is sent."""

from __future__ import annotations

import difflib
import json

from launcher.planning.request_view import RequestView
from launcher.planning.training_plan import Request


def request_diff(earlier: Request, later: Request) -> list[str]:
    """The lines of a unified diff of two requests; empty where they are the same job.

    The jobs' own unique names, and what is made from them, do not count as a difference.
    """
    lines = difflib.unified_diff(_lines(earlier), _lines(later), "earlier", "now", lineterm="", n=2)
    return list(lines)


def _lines(request: Request) -> list[str]:
    text = json.dumps(request, indent=2, sort_keys=True, ensure_ascii=False)
    return text.replace(str(RequestView(request).name), "JOB").splitlines()
