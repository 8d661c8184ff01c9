"""The `tuning` of a job file, of a HyperparameterTuner of the SageMaker SDK that varies an estimator.

A tuner's job is the estimator's with ranges in place of some hyperparameters: the service takes no fixed
value beside a range, and the SDK leaves those out. Source: SageMaker SDK 2.257, sagemaker.tuner and
sagemaker.parameter; 3.27, sagemaker.train.tuner and sagemaker.core.parameter.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from typing import Any

from launcher.drafts.job_draft import DraftField
from launcher.drafts.sdk.keywords import TUNER_POSITIONS
from launcher.drafts.sdk.reading import Part, SdkReading

_KINDS = {"ContinuousParameter": "continuous", "IntegerParameter": "integer", "CategoricalParameter": ""}
_SCALINGS = {"Linear": "linear", "Logarithmic": "logarithmic", "ReverseLogarithmic": "reverse-logarithmic"}

_WITHOUT_WORDS = (
    "warm_start_config", "completion_criteria_config", "autotune", "hyperparameters_to_keep_static",
    "base_tuning_job_name", "estimator_name", "model_trainer_name",
)  # fmt: skip
"""What a tuner is given that a job file has no words for."""


def parts_with_tuning(reading: SdkReading, name: str) -> Iterator[Part]:
    """All fields and questions of a job, with those of its tuner; `name` is for a job that has none."""
    tuning = [*_tuning(reading)]
    varied = {each.path[2] for each in tuning if each.path[:2] == ("tuning", "ranges") and each.path[2:]}
    for part in reading.parts(name):
        if part.path[:1] != ("hyperparameters",) or part.path[-1] not in varied:
            yield part
    yield from tuning


def _tuning(reading: SdkReading) -> Iterator[Part]:
    if not reading.tuners:
        return
    tuner = reading.tuners[0]
    if len(reading.tuners) > 1:
        text = f"which search? The program has {len(reading.tuners)} tuners of it."
        yield reading.ask(("tuning",), tuner, text)
        return
    given = reading.arguments(tuner, TUNER_POSITIONS)
    if any(each.arg is None for each in tuner.keywords):
        yield reading.ask(("tuning",), tuner, "what else is the tuner given?")
    yield from _objective(reading, tuner, given)
    yield from _ranges(reading, tuner, given)
    yield from _search(reading, given)
    reading.lost += [
        f"{key} ({reading.line(given[key])})"
        for key in _WITHOUT_WORDS
        if key in given and not reading.is_none(given[key])
    ]


def _objective(reading: SdkReading, tuner: ast.Call, given: Mapping[str, ast.expr]) -> Iterator[Part]:
    path = ("tuning", "objective")
    metric, goal = given.get("objective_metric_name"), given.get("objective_type")
    if (read := reading.known(metric, str)) is not None and metric is not None:
        yield reading.field((*path, "metric"), metric, read.value, read.comment)
    else:
        yield reading.ask((*path, "metric"), metric or tuner, "which metric is it about?", "loss")
    said = reading.known(goal, str)
    if goal is None or reading.is_none(goal):
        yield DraftField((*path, "goal"), "maximize", "the SDK's default", reading.line(tuner))
    elif said is not None and said.value.lower() in ("minimize", "maximize"):
        yield reading.field((*path, "goal"), goal, said.value.lower(), said.comment)
    else:
        yield reading.ask((*path, "goal"), goal, "is less or more of it better?", "minimize")
    yield from reading.pairs(given.get("metric_definitions"), "metrics", ("Name", "Regex"))


def _ranges(reading: SdkReading, tuner: ast.Call, given: Mapping[str, ast.expr]) -> Iterator[Part]:
    node, path = given.get("hyperparameter_ranges"), ("tuning", "ranges")
    entries = None if node is None else reading.values.entries(node)
    if entries is None:
        yield reading.ask(path, node or tuner, "which hyperparameters are varied, and how?")
        return
    for key, value, place in entries:
        known = None if value is None else _range(reading, value)
        if key == "?":
            yield reading.ask(path, place, "what else is varied? Not all of it could be read.")
        elif known is None:
            yield reading.ask((*path, key), value or place, f"which values may {key} take?")
        else:
            yield reading.field((*path, key), value or place, known)


def _range(reading: SdkReading, node: ast.expr) -> Any:
    """The range of one hyperparameter as a job file has it; None where it could not be read."""
    call = reading.calls_with(node)
    kind = None if call is None else _KINDS.get(reading.class_of(call))
    if call is None or kind is None:
        return None
    if not kind:
        values = reading.known(reading.arguments(call, ("values",)).get("values"))
        listed = (
            None if values is None else values.value if isinstance(values.value, list) else [values.value]
        )
        return listed if listed and all(isinstance(each, str | int | float) for each in listed) else None
    given = reading.arguments(call, ("min_value", "max_value", "scaling_type"))
    low, high = (reading.known(given.get(key), (int, float)) for key in ("min_value", "max_value"))
    scaling = reading.known(given.get("scaling_type"), str)
    if low is None or high is None or (scaling is None and "scaling_type" in given):
        return None
    made: dict[str, Any] = {"min": low.value, "max": high.value}
    if kind == "integer" or not any(isinstance(each.value, float) for each in (low, high)):
        made["type"] = kind
    if scaling is not None and scaling.value in _SCALINGS:
        made["scaling"] = _SCALINGS[scaling.value]
    return made


def _search(reading: SdkReading, given: Mapping[str, ast.expr]) -> Iterator[Part]:
    strategy = reading.known(given.get("strategy"), str)
    is_grid = strategy is not None and strategy.value == "Grid"
    yield from reading.plain(given.get("strategy"), ("tuning", "strategy"), str, "which strategy?")
    if "max_jobs" in given:
        yield from reading.plain(given["max_jobs"], ("tuning", "max_jobs"), int, "how many jobs in all?")
    elif not is_grid:
        yield DraftField(("tuning", "max_jobs"), 1, "the SDK's default", reading.line(reading.tuners[0]))
    for keyword, field, question in (
        ("max_parallel_jobs", "parallel", "how many jobs at a time?"),
        ("max_runtime_in_seconds", "max_runtime", "how long may all of it take, in seconds?"),
        ("random_seed", "random_seed", "which seed?"),
    ):
        yield from reading.plain(given.get(keyword), ("tuning", field), int, question)
    stops = given.get("early_stopping_type")
    said = reading.known(stops, str)
    if stops is not None and said is not None and said.value == "Auto":
        yield reading.field(("tuning", "early_stopping"), stops, True, said.comment)
    elif stops is not None and said is None and not reading.is_none(stops):
        yield reading.ask(("tuning", "early_stopping"), stops, "are jobs stopped early?")
    config = given.get("strategy_config")
    if config is not None and not reading.is_none(config):
        text = "how long may a job run, at least and at most?"
        yield reading.ask(("tuning", "hyperband"), config, text, {"max_resource": 10})
