"""Metrics of libraries that reduce over all ranks, where they are computed or what has them runs."""

from __future__ import annotations

import ast

from launcher.program.dataflow import argument_of
from launcher.program.program import Program
from launcher.program.values import Dictionary, Instance, entries_of

_ENGINE_RUN = "ignite.engine.Engine.run"

METRIC_CALLS = ("torchmetrics.Metric.compute", "ignite.metrics.Metric.compute", _ENGINE_RUN)
"""The names of what may reduce metrics, the last of which counts."""


def reduces_metrics(program: Program, call: ast.Call, name: str) -> bool:
    """Whether a call of a library asks all ranks for what their metrics have seen.

    `compute` of torchmetrics unless it is told otherwise, that of ignite, and the run of an engine of ignite
    to which metrics are attached, at whose end they are computed.
    """
    if name == _ENGINE_RUN:
        return _has_metrics(program, call)
    if not name.endswith(".compute"):
        return False
    made = program.value(_owner(call))
    if name.startswith("torchmetrics."):
        return isinstance(made, Instance) and argument_of(made.call, "sync_on_compute") is None
    return name.startswith("ignite.metrics.") and isinstance(made, Instance)


def _owner(call: ast.Call) -> ast.expr:
    return call.func.value if isinstance(call.func, ast.Attribute) else call


def _has_metrics(program: Program, run: ast.Call) -> bool:
    """Whether an engine is made with metrics, or one of ignite's metrics is attached to it."""
    engine = program.value(_owner(run))
    if not isinstance(engine, Instance):
        return False
    given = argument_of(engine.call, "metrics", 1)
    value = None if given is None or engine.name == "ignite.engine.Engine" else program.value(given)
    if isinstance(value, Dictionary) and entries_of(value.node):
        return True
    for file in program.files:
        for call in file.calls_of.get("attach", ()):
            metric = program.value(_owner(call))
            is_one = isinstance(metric, Instance) and metric.name.startswith("ignite.metrics.")
            if is_one and call.args and program.value(call.args[0]) == engine:
                return True
    return False
