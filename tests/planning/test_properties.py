"""What holds for every job: a request or a refusal with findings, never an exception."""

from __future__ import annotations

import json
import subprocess
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from launcher.cluster.instances import training_instance_types
from launcher.jobs.specification import JobSpec, Strategy
from launcher.planning.images import image_versions
from launcher.planning.strategies.model_parallel import SMP1_PARAMETERS as SMP1
from launcher.planning.strategies.model_parallel import SMP2_PARAMETERS as SMP2
from launcher.planning.training_plan import TrainingPlan
from tests.planning.comparison import plan_of, what_the_api_refuses

words = st.text(min_size=1, max_size=12)
scalars = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=12)
values = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
degrees = st.integers(min_value=0, max_value=70)
parameters = st.dictionaries(st.sampled_from([*SMP1, *SMP2]) | words, degrees | values, max_size=5)
options = st.dictionaries(
    st.sampled_from(["version", "parameters", "mpi_options", "debug"]) | words,
    st.sampled_from([1, 2, "1", "2", 3]) | parameters | values,
    max_size=4,
)
versions = st.sampled_from(
    [
        version
        for framework in ("pytorch", "pytorch-smp", "pytorch-training-compiler")
        for version in image_versions(framework)
    ]
)
s3_uris = st.sampled_from(["s3://bucket", "s3://bucket/prefix/", "s3://other-bucket/a b/c"])

jobs = st.fixed_dictionaries(
    {
        "name": st.from_regex(r"[a-zA-Z0-9](-?[a-zA-Z0-9]){0,20}", fullmatch=True),
        "code": st.fixed_dictionaries(
            {"entry_point": st.sampled_from(["train.py", "run.sh"]) | words},
            optional={"arguments": st.lists(st.text(max_size=8), max_size=3)},
        ),
        "framework": st.fixed_dictionaries(
            {"version": versions | words}, optional={"python": st.sampled_from(["py38", "py310", "py312"])}
        ),
        "resources": st.fixed_dictionaries(
            {"instance_type": st.sampled_from([*training_instance_types(), "ml.p9.48xlarge"])},
            optional={
                "instance_count": st.integers(min_value=1, max_value=10**9) | st.sampled_from([1, 2, 4]),
                "capacity": st.sampled_from(["spot", "on-demand"]),
                "keep_alive": st.integers(min_value=0, max_value=10**6),
            },
        ),
        "distribution": st.fixed_dictionaries(
            {"strategy": st.sampled_from([strategy.value for strategy in Strategy])},
            optional={
                "processes_per_host": st.integers(min_value=1, max_value=200),
                "options": options,
            },
        ),
    },
    optional={
        "region": st.sampled_from(["us-west-2", "cn-north-1", "eu-central-2", "xx-nowhere-1"]),
        "hyperparameters": st.dictionaries(words, values, max_size=4),
        "environment": st.dictionaries(words, st.text(max_size=8) | st.integers(), max_size=3),
        "inputs": st.dictionaries(
            st.sampled_from(["train", "test"]),
            s3_uris
            | st.fixed_dictionaries({"s3_uri": s3_uris, "mode": st.sampled_from(["Pipe", "FastFile"])})
            | st.just({"lustre": "/train"}),
        ),
        "checkpoint": st.fixed_dictionaries(
            {}, optional={"s3_uri": s3_uris, "sync": st.sampled_from(["sagemaker", "slipway"])}
        )
        | st.just({"lustre": "/checkpoints"}),
        "cluster": st.just("dev"),
        "debugger": st.booleans(),
        "profile": st.sampled_from(["normal", "debug"]),
        "limits": st.fixed_dictionaries({}, optional={"max_retries": st.integers(0, 30)}),
        "output": st.fixed_dictionaries({"s3_uri": s3_uris}),
        "tags": st.dictionaries(words, words, max_size=2),
        "metrics": st.dictionaries(words, st.sampled_from(["a=(.*)", "b (?:x|y)([0-9]+)"]), max_size=3),
    },
)  # fmt: skip


ends = st.integers(-100, 100) | st.floats(-1e9, 1e9)
varied = (
    st.lists(words | st.integers() | st.booleans() | st.floats(-1e9, 1e9), min_size=1, max_size=30)
    | st.fixed_dictionaries(
        {"min": ends, "max": ends},
        optional={
            "type": st.sampled_from(["integer", "continuous"]),
            "scaling": st.sampled_from(["auto", "linear", "logarithmic", "reverse-logarithmic"]),
        },
    )
    | st.just({"min": 1e-5, "max": 0.1, "scaling": "logarithmic"})
    | st.just({"min": 1, "max": 9, "type": "integer"})
)
tunings = st.fixed_dictionaries(
    {
        "objective": st.fixed_dictionaries(
            {
                "metric": words,
                "goal": st.sampled_from(["minimize", "maximize"]),
                "regex": st.just("loss=([0-9.]+)"),
            }
        ),
        "ranges": st.dictionaries(
            st.sampled_from(["lr", "beta", "wd"]) | words, varied, min_size=1, max_size=4
        ),
        "max_jobs": st.integers(1, 10**6),
    },
    optional={
        "parallel": st.integers(1, 10),
        "strategy": st.sampled_from(["Bayesian", "Random", "Grid"]),
        "early_stopping": st.booleans(),
        "max_runtime": st.integers(120, 10**6),
        "random_seed": st.integers(0, 2**31),
    },
)


FITTING: list[tuple[str, dict[str, Any], list[str], list[str]]] = [
    ("torchrun", {}, ["2.0.1", "2.8.0"], ["ml.p5.48xlarge", "ml.g5.12xlarge", "ml.m5.xlarge"]),
    ("none", {}, ["2.0.1", "2.8.0"], ["ml.g5.2xlarge", "ml.m5.xlarge"]),
    ("mpi", {"mpi_options": "-x A=b"}, ["1.13.1", "2.8.0"], ["ml.p4d.24xlarge", "ml.m5.xlarge"]),
    ("smddp", {}, ["1.13.1", "2.2.0"], ["ml.p4d.24xlarge", "ml.p4de.24xlarge"]),
    ("smp", {"version": 1, "parameters": {"partitions": 2}}, ["1.12.1", "1.13.1"], ["ml.p4d.24xlarge"]),
    ("smp", {"parameters": {"hybrid_shard_degree": 8}}, ["2.0.1", "2.5.1"], ["ml.p5.48xlarge"]),
    ("torch_xla", {"debug": True}, ["1.12.0", "1.13.1"], ["ml.p3.16xlarge", "ml.g5.48xlarge"]),
]
"""A strategy, its options, and versions and types that it supports."""


@st.composite
def jobs_that_fit(draw: st.DrawFn) -> dict[str, Any]:
    """A job whose strategy, version and type go together; all else is as it comes."""
    job = draw(jobs)
    strategy, fitting, some_versions, types = draw(st.sampled_from(FITTING))
    return {
        **job,
        "code": {"entry_point": "train.py"},
        "framework": {"version": draw(st.sampled_from(some_versions))},
        "resources": {
            "instance_type": draw(st.sampled_from(types)),
            "instance_count": draw(st.integers(1, 8)),
        },
        "distribution": {"strategy": strategy, "options": fitting},
        "region": "us-west-2",
        "hyperparameters": draw(st.dictionaries(st.sampled_from("abc"), st.integers() | st.text(max_size=4))),
        "inputs": draw(st.dictionaries(st.sampled_from(["train", "test"]), s3_uris)),
    }


@st.composite
def tuning_jobs(draw: st.DrawFn) -> dict[str, Any]:
    """A job that fits, tuned."""
    return {**draw(jobs_that_fit()), "name": "tuned", "tuning": draw(tunings)}


def _valid(job: dict[str, Any]) -> bool:
    try:
        JobSpec.model_validate(job)
    except ValidationError:
        return False
    return True


any_jobs = (jobs | jobs_that_fit() | tuning_jobs()).filter(_valid)
many = settings(deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.mark.few_cases("60")
@pytest.mark.parametrize("examples", [60, 300])
def test_every_job_gets_a_request_or_is_refused_with_findings(examples: int) -> None:
    @settings(many, max_examples=examples)
    @given(any_jobs)
    def holds(job: dict[str, Any]) -> None:
        plan = plan_of(job)
        if plan.request is None:
            assert any(finding.blocks for finding in plan.findings)
        else:
            assert plan.refused or not what_the_api_refuses(plan)
            assert plan.package is not None
            assert (
                plan.world_size
                == plan.job["distribution"]["processes_per_host"]
                * (plan.view.training["ResourceConfig"]["InstanceCount"])
            )

    holds()


@pytest.mark.few_cases("20")
@pytest.mark.parametrize("examples", [20, 100])
def test_planning_twice_differs_in_the_unique_parts_only(examples: int) -> None:
    @settings(many, max_examples=examples)
    @given(any_jobs)
    def holds(job: dict[str, Any]) -> None:
        one, other = plan_of(job, unique="0aaaaaaaaaaaaaaaa"), plan_of(job, unique="0bbbbbbbbbbbbbbbb")
        assert repr(one).replace("0aaaaaaaaaaaaaaaa", "U") == repr(other).replace("0bbbbbbbbbbbbbbbb", "U")

    holds()


@pytest.mark.few_cases("40")
@pytest.mark.parametrize("examples", [40, 200])
def test_a_shell_gives_the_toolkits_words_back_as_they_were(examples: int) -> None:
    @settings(many, max_examples=examples)
    @given(any_jobs)
    def holds(job: dict[str, Any]) -> None:
        plan = plan_of(job)
        if plan.view is None or "ContainerEntrypoint" in plan.view.training["AlgorithmSpecification"]:
            return
        tuned = plan.operation == "CreateHyperParameterTuningJob"
        words = toolkit_words(one_of_its_jobs(plan) if tuned else plan.request["HyperParameters"])
        printed = subprocess.run(
            ["sh", "-c", f"printf '%s\\0' {' '.join(words)}"], capture_output=True, text=True, check=True
        )
        assert printed.stdout.split("\0")[:-1] == words

    holds()


@pytest.mark.few_cases("40")
@pytest.mark.parametrize("examples", [40, 200])
def test_every_tuning_job_is_one_that_the_api_model_accepts_or_is_refused(examples: int) -> None:
    @settings(many, max_examples=examples)
    @given(jobs_that_fit(), tunings)
    def holds(job: dict[str, Any], tuning: dict[str, Any]) -> None:
        tuned = {**job, "tuning": tuning}
        if not _valid(tuned):
            return
        plan = plan_of(tuned)
        assert plan.operation == "CreateHyperParameterTuningJob"
        if plan.request is None:
            assert any(finding.blocks for finding in plan.findings)
            return
        assert plan.refused or not what_the_api_refuses(plan)
        ranges = plan.request["HyperParameterTuningJobConfig"]["ParameterRanges"]
        assert sum(len(kind) for kind in ranges.values()) == len(tuning["ranges"])
        assert not plan.view.training["StaticHyperParameters"].keys() & tuning["ranges"].keys()

    holds()


def one_of_its_jobs(plan: TrainingPlan) -> dict[str, str]:
    """The hyperparameters of a tuning job's first training job: its smallest and first values."""
    ranges = plan.request["HyperParameterTuningJobConfig"]["ParameterRanges"]
    drawn = {
        varied["Name"]: varied["Values"][0] if "Values" in varied else varied["MinValue"]
        for kind in ranges.values()
        for varied in kind
    }
    return {**plan.view.training["StaticHyperParameters"], **drawn}


def toolkit_words(hyperparameters: dict[str, str]) -> list[str]:
    """The script and its arguments as the training toolkit builds them, before it joins them with blanks.

    sagemaker-training-toolkit: environment.py (read_hyperparameters), mapping.py (to_cmd_args).
    """
    words = [json.loads(hyperparameters["sagemaker_program"])]
    for name, text in sorted(hyperparameters.items()):
        if name.startswith("sagemaker_"):
            continue
        try:
            value = json.loads(text)
        except ValueError:
            value = text
        if isinstance(value, dict):
            value = ",".join(f"{key}={item}" for key, item in sorted(value.items()))
        words += [f"--{name}" if len(name) > 1 else f"-{name}", "" if value is None else str(value)]
    return words
