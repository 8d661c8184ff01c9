"""`tuning`: many jobs instead of one, by SageMaker's automatic model tuning.

Rules and numbers: SageMaker API reference, HyperParameterTuningJobConfig and ParameterRanges;
developer guide, automatic-model-tuning-define-ranges and -how-it-works.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from launcher.documents import AsWritten, field_error
from launcher.jobs.values import Duration, MetricName, MetricRegex, Part

HYPERBAND_EPOCHS = ("epochs", "numepochs", "n-epochs", "n_epochs", "num_epochs")
"""The hyperparameters in which Hyperband looks for its largest resource (HyperbandStrategyConfig)."""

_WHOLE = re.compile(r"[-+]?[0-9]+")


class Objective(Part):
    """The metric that tuning makes as small or as large as it can, and how the log shows it."""

    metric: MetricName = Field(description="Its name; one of `metrics`, or any with a regex of its own.")
    goal: Literal["minimize", "maximize"] = Field(description="Whether less or more of it is better.")
    regex: MetricRegex | None = Field(None, description="How it stands in the log; one group, the number.")


def _number(value: Any) -> int | float:
    """A finite number; one that was written without point and exponent is whole."""
    number = value
    if isinstance(value, str):
        try:
            number = int(value) if _WHOLE.fullmatch(value) else float(value)
        except ValueError:
            number = None
    if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
        raise ValueError(f"{value!r} is not a finite number")
    return number


Number = Annotated[int | float, BeforeValidator(_number, json_schema_input_type=int | float)]


def _choice(value: Any) -> str:
    """The text of a single value, as a hyperparameter is sent; ValueError for lists, mappings and null."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool | int | float):
        return AsWritten(json.dumps(value))
    raise ValueError("must be a single value")


# The value stays Any inside, so that pydantic keeps the subclass of str that tells 16 from "16".
Choice = Annotated[Any, BeforeValidator(_choice, json_schema_input_type=str | int | float | bool)]


class Range(Part):
    """The values that a hyperparameter may take: a list of them, or all between two numbers."""

    values: list[Choice] | None = Field(None, min_length=1, max_length=30, description="One of these.")
    min: Number | None = Field(None, description="The smallest.")
    max: Number | None = Field(None, description="The largest.")
    type: Literal["continuous", "integer"] | None = Field(
        None, description="Which numbers; needed where both ends are whole."
    )
    scaling: Literal["auto", "linear", "logarithmic", "reverse-logarithmic"] = Field(
        "auto", description="The scale on which they are drawn."
    )

    @property
    def kind(self) -> Literal["categorical", "continuous", "integer"]:
        """Which of the API's three kinds of ranges it is."""
        return "categorical" if self.values is not None else self.type or "continuous"

    @model_validator(mode="after")
    def _numbers_or_values(self) -> Range:
        if self.values is not None:
            if self.min is not None or self.max is not None or self.type or self.scaling != "auto":
                raise ValueError("give a list of values, or min and max with type and scaling, not both")
            return self
        if self.min is None or self.max is None:
            raise ValueError("give min and max, or a list of values")
        if self.min >= self.max:
            raise ValueError(f"min is {self.min} and max {self.max}: there is no number between them")
        self._check_type(isinstance(self.min, int), isinstance(self.max, int))
        self._check_scaling(self.min, self.max)
        return self

    def _check_type(self, *whole: bool) -> None:
        if self.type is None and all(whole):
            raise field_error(
                f"{self.min} to {self.max} may mean whole numbers only or every number between them",
                remedy="Add `type: integer` or `type: continuous`.",
            )
        if self.type == "integer" and not all(whole):
            raise field_error(
                f"an integer range cannot go from {self.min} to {self.max}",
                remedy="Write both without point and exponent, or use `type: continuous`.",
                below=("type",),
            )

    def _check_scaling(self, low: float, high: float) -> None:
        if self.scaling == "logarithmic" and low <= 0:
            raise field_error(
                f"a logarithmic scale has numbers above 0 only, and min is {low}",
                remedy="Raise `min`, or use `scaling: linear`.",
                below=("scaling",),
            )
        if self.scaling == "reverse-logarithmic" and (self.type == "integer" or low < 0 or high >= 1):
            raise field_error(
                f"a reverse logarithmic scale has numbers from 0 to below 1 only, not {low} to {high}",
                remedy="Use `scaling: linear` or `logarithmic`.",
                below=("scaling",),
            )


def _range(value: Any) -> Any:
    return {"values": value} if isinstance(value, list) else value


class Hyperband(Part):
    """How long Hyperband lets a job run, in what the objective is reported for, such as epochs."""

    min_resource: int | None = Field(None, ge=1, description="Before this no job is stopped.")
    max_resource: int | None = Field(None, ge=1, description="Default: the hyperparameter `epochs`.")


class Tuning(Part):
    """A tuning job: training jobs that differ in some hyperparameters alone, and the best of them."""

    objective: Objective
    ranges: dict[
        str, Annotated[Range, BeforeValidator(_range, json_schema_input_type=list[Choice] | Range)]
    ] = Field(min_length=1, max_length=30, description="Hyperparameters to tune, by name.")
    max_jobs: int | None = Field(None, ge=1, description="How many jobs in all; Grid knows by itself.")
    parallel: int = Field(1, ge=1, description="How many of them run at a time.")
    strategy: Literal["Bayesian", "Random", "Hyperband", "Grid"] = Field(
        "Bayesian", description="How the next values are chosen."
    )
    early_stopping: bool = Field(False, description="Stop jobs that are unlikely to become the best.")
    hyperband: Hyperband | None = Field(None, description="With the strategy Hyperband.")
    max_runtime: Duration | None = Field(
        None, ge=120, le=15_768_000, description="Of the whole tuning job; at most half a year."
    )
    random_seed: int | None = Field(
        None, ge=0, description="The same seed makes the choice of values more reproducible."
    )

    @property
    def jobs(self) -> int:
        """How many training jobs there are at most: `max_jobs`, or every combination of a grid."""
        return self.max_jobs or self._combinations()

    @model_validator(mode="after")
    def _fits_its_strategy(self) -> Tuning:
        if self.strategy == "Grid":
            self._check_grid()
        elif self.max_jobs is None:
            raise field_error(
                f"the strategy {self.strategy} needs `max_jobs`, which bounds what the tuning job costs",
                remedy="Add `max_jobs`, such as 20.",
            )
        if self.parallel > self.jobs:
            raise field_error(
                f"{self.parallel} jobs at a time are more than the {self.jobs} there are in all",
                remedy=f"Set `parallel` to {self.jobs} or less.",
                below=("parallel",),
            )
        if self.strategy == "Hyperband" and self.early_stopping:
            raise field_error(
                "Hyperband stops jobs by itself, and the service refuses early stopping beside it",
                remedy="Remove `early_stopping`.",
                below=("early_stopping",),
            )
        if self.strategy != "Hyperband" and self.hyperband is not None:
            raise field_error(
                f"the strategy is {self.strategy}, which takes no `hyperband`",
                remedy="Remove `hyperband`, or set `strategy: Hyperband`.",
                below=("hyperband",),
            )
        return self

    def _check_grid(self) -> None:
        for name, varied in self.ranges.items():
            if varied.values is None:
                raise field_error(
                    f"a grid is made of lists of values, and {name} is a range of numbers",
                    remedy="Write its values as a list, or use another strategy.",
                    below=("ranges", name),
                )
        if self.max_jobs not in (None, self._combinations()):
            raise field_error(
                f"the grid has {self._combinations()} combinations, and the service tries all of them",
                remedy="Leave `max_jobs` out, or use `strategy: Random`.",
                below=("max_jobs",),
            )

    def _combinations(self) -> int:
        return math.prod(len(varied.values or ()) for varied in self.ranges.values())


def check_tuning_section(
    tuning: Tuning, hyperparameters: Mapping[str, Any], metrics: Mapping[str, str]
) -> None:
    """Refuse what contradicts the rest of the job file: hyperparameters given twice, a metric nothing reads.

    Raises PydanticCustomError, placed below `tuning`.
    """
    for name in tuning.ranges:
        if name in hyperparameters:
            raise field_error(
                f"{name} has a fixed value in `hyperparameters` too, and the service takes only one of them",
                remedy=f"Remove {name} here or from `hyperparameters`.",
                below=("ranges", name),
            )
    _check_objective(tuning.objective, metrics)
    resource = tuning.hyperband.max_resource if tuning.hyperband else None
    if tuning.strategy == "Hyperband" and resource is None and not {*HYPERBAND_EPOCHS} & {*hyperparameters}:
        raise field_error(
            "Hyperband does not know how long a job may run: neither `hyperband.max_resource` nor a "
            f"hyperparameter called {', '.join(HYPERBAND_EPOCHS)} is given",
            remedy="Add `hyperband: {max_resource: N}` with the number of epochs.",
            below=("hyperband",),
        )


def _check_objective(objective: Objective, metrics: Mapping[str, str]) -> None:
    known = metrics.get(objective.metric)
    if objective.regex is None and known is None:
        raise field_error(
            f"nothing says how {objective.metric} stands in the log, so no job could be judged",
            remedy='Add `regex`, such as "eval_loss=([0-9.]+)", or the metric to `metrics`.',
            below=("objective", "metric"),
        )
    if None not in (objective.regex, known) and objective.regex != known:
        raise field_error(
            f"{objective.metric} has another regular expression in `metrics`",
            remedy="Remove `regex` here; that of `metrics` is used.",
            below=("objective", "regex"),
        )
