"""The page: one HTML file that asks nothing of any network.

Whatever comes from a run is text: the templates escape all of it, control characters and marks that reorder
what follows are taken out or written as escapes, and a Content Security Policy allows the page's own two
scripts and its own style by their hashes and nothing else.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from importlib import resources
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from launcher.failure_modes.model import Finding
from launcher.report import telling
from launcher.report.charts import charts_of
from launcher.report.ranks_table import all_ranks, differing_ranks
from launcher.report.run_report import RunReport
from launcher.text.controls import without_controls
from launcher.text.durations import elapsed_time

GENERATOR = "slipway report"
"""What the page's `generator` says: by this an earlier page is known that may be written over."""

_ROOM = "launcher.report"


def page_of(run: RunReport) -> str:
    """The page of a run as HTML."""
    charts = charts_of(run)
    styles, script, library = _text("page.css"), _text("page.js"), _text("echarts/echarts.min.js")
    drawn = any(charts.values())
    page = (
        _environment()
        .get_template("page.html.j2")
        .render(
            run=run,
            generator=GENERATOR,
            policy=_policy(styles, *([script, library] if drawn else [])),
            styles=Markup(styles),
            script=Markup(script),
            library=Markup(library),
            charts=charts,
            drawn=drawn,
            tell=telling,
            ranks=all_ranks(run),
            differing=differing_ranks(run),
            followed=_followed(run),
            request=None if run.planned is None else _as_json(run.planned.request),
            job=None if run.planned is None else _as_json(run.planned.job),
            elapsed=elapsed_time,
            retry=telling.RETRY[run.diagnosis.retry],
        )
    )
    # Half a surrogate, which JSON allows, is no text of UTF-8.
    return page.encode("utf-8", "backslashreplace").decode("utf-8")


def is_ours(beginning: str) -> bool:
    """Whether a file that begins so is a page of this module."""
    return f'<meta name="generator" content="{GENERATOR}' in beginning


def _followed(run: RunReport) -> list[tuple[str, Finding]]:
    """All findings of the diagnosis but the root cause, with what each is: it followed, or is told beside."""
    diagnosis = run.diagnosis
    consequences = {id(finding) for finding in diagnosis.consequences}
    rest = diagnosis.findings[1 if diagnosis.root_cause else 0 :]
    told = [("followed" if id(each) in consequences else "also", each) for each in rest]
    return told + [("warning", each) for each in run.warnings if each not in rest]


def _as_json(value: Any) -> str:
    return json.dumps(value, indent=2, ensure_ascii=False, default=str)


@cache
def _environment() -> Environment:
    return Environment(
        loader=PackageLoader(_ROOM, "."),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_printable,
        trim_blocks=True,
        lstrip_blocks=True,
    )


def _printable(value: Any) -> Any:
    """What a template prints; text of a run loses what would act on a reader instead of being shown."""
    return without_controls(value) if isinstance(value, str) and not isinstance(value, Markup) else value


@cache
def _text(name: str) -> str:
    return resources.files(_ROOM).joinpath(name).read_text("utf-8")


def _policy(styles: str, *scripts: str) -> str:
    allowed = " ".join(map(_hash, scripts)) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src {_hash(styles)}; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"
