"""What the templates of any cluster have in common, whatever its file says."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import yaml
from aws_cdk import aws_s3 as s3
from aws_cdk.assertions import Annotations, Match
from cdk_nag import AwsSolutionsChecks
from cfnlint.config import ConfigMixIn
from cfnlint.decode.decode import decode_str
from cfnlint.runner import Runner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from launcher.cluster.files import ClusterFileError, load_cluster_file
from tests.stacks import synthesis
from tests.stacks.synthesis import (
    CLUSTERS,
    OTHERS,
    ROOT,
    Synthesized,
    new_stack,
    synthesize,
    synthesize_anew,
)


@pytest.mark.few_cases("everything")
def test_no_warning_on_any_stack(cluster: Synthesized) -> None:
    for part in cluster.parts:
        Annotations.from_stack(getattr(cluster.stacks, part)).has_no_warning("*", Match.any_value())


@pytest.fixture(scope="module")
def linter() -> Runner:
    """cfn-lint for all templates: it loads its rules for a third of the time."""
    # W3005 finds a dependency that a reference already makes; the CDK writes such by itself.
    # W3010 finds names of zones: they come from the cluster file, so that nothing is looked up.
    return Runner(ConfigMixIn(ignore_checks=["W3005", "W3010"], regions=["us-west-2"]))


@pytest.mark.few_cases("everything")
def test_cfn_lint_finds_nothing(cluster: Synthesized, linter: Runner) -> None:
    for part in cluster.parts:
        template, unreadable = decode_str(json.dumps(cluster.template(part)))
        assert unreadable == []
        assert list(linter.validate_template(template)) == []


def test_every_template_stays_below_the_limits_of_cloudformation() -> None:
    everything = synthesize(OTHERS["everything"])

    for part in everything.parts:
        template = everything.template(part)
        assert len(template["Resources"]) < 500
        assert len(json.dumps(template)) < 1_000_000


def test_storage_that_grows_by_itself_is_not_watched_for_filling_up() -> None:
    alarms = synthesize(OTHERS["tiered"]).resources("observability", "AWS::CloudWatch::Alarm").values()

    assert alarms
    assert not [each for each in alarms if "FreeDataStorageCapacity" in json.dumps(each)]


@pytest.mark.few_cases("dev")
@pytest.mark.parametrize("name", CLUSTERS)
def test_second_synthesis_changes_nothing(name: str) -> None:
    file = ROOT / "clusters" / f"{name}.yaml"
    first, second = synthesis.cluster(name), synthesize_anew(load_cluster_file(file))

    assert {part: first.template(part) for part in first.parts} == {
        part: second.template(part) for part in second.parts
    }


def test_aws_solutions_checks_succeed(cluster: Synthesized) -> None:
    report = AwsSolutionsChecks(cluster.app).validate_scope(cluster.app)

    assert report.success, [violation.rule_name for violation in report.violations]


def test_aws_solutions_checks_would_find_an_open_bucket() -> None:
    stack = new_stack()
    s3.Bucket(stack, "Open")

    assert not AwsSolutionsChecks(stack.node.root).validate_scope(stack.node.root).success


def test_nothing_has_to_be_looked_up(cluster: Synthesized) -> None:
    assert "missing" not in json.loads((cluster.folder / "manifest.json").read_text())
    assert json.loads((ROOT / "cdk.json").read_text())["lookups"] is False


def test_stacks_are_named_after_the_cluster(dev: Synthesized) -> None:
    names = [getattr(dev.stacks, part).stack_name for part in dev.parts]

    assert names == [
        "slipway-dev-network",
        "slipway-dev-storage",
        "slipway-dev-access",
        "slipway-dev-manifest",
    ]


def test_references_between_stacks_cannot_replace_the_file_system() -> None:
    """Weak references make change sets plan its replacement: aws-cdk issue 38829."""
    flags = json.loads((ROOT / "cdk.json").read_text())["context"]

    assert flags["@aws-cdk/core:defaultCrossStackReferences"] == "strong"


PLACED = re.compile(r"^.+\.yaml:[0-9]+:[0-9]+: (SPEC00[123]|EFA004) .+", re.DOTALL)
JUNK = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-10, 10**6),
    st.floats(allow_nan=False),
    st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.sampled_from(["cidr", "iops", "name", "x"]), st.integers(), max_size=2),
)


@st.composite
def valid_files(draw: st.DrawFn) -> dict[str, Any]:
    persistent = draw(st.booleans())
    lustre = draw(st.sampled_from([None, persistent_lustre(draw) if persistent else SCRATCH]))
    return {
        "name": draw(st.from_regex(r"[a-z]([a-z0-9-]{0,30}[a-z0-9])?", fullmatch=True)),
        "region": "eu-central-1",
        "hosts": draw(st.lists(HOSTS, min_size=1, max_size=3)),
        **draw(st.sampled_from([EXISTING, *NEW_NETWORKS])),
        **({"lustre": lustre} if lustre else {}),
        "encryption": draw(st.sampled_from(["aws-managed", *(["new-key", KEY] if persistent else [])])),
        "buckets": draw(st.sampled_from([{}, {"code": "our-code"}, {"checkpoints": "a.b", "output": "c-d"}])),
        "data_buckets": draw(st.lists(st.sampled_from(["data-1", "data-2"]), unique=True)),
        "launchers": draw(st.lists(st.sampled_from(ROLES), unique=True)),
        **draw(st.sampled_from([{}, {"queue": {}}, {"queue": {"shares": {"a": 1, "b*": 0.25}}}])),
        **draw(st.sampled_from([{}, {"observability": {}}, {"observability": {"email": "a@b.org"}}])),
        "removal_policy": draw(st.sampled_from(["retain", "destroy"])),
        "tags": draw(st.dictionaries(st.sampled_from(["team", "cost centre"]), st.just("0070"))),
    }


SCRATCH = {"deployment": "SCRATCH_2", "capacity_gib": 2400}
KEY = "arn:aws:kms:eu-central-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ROLES = [f"arn:aws:iam::111122223333:role/{name}" for name in ("launch", "teams/research")]
HOSTS = st.fixed_dictionaries(
    {
        "instance_type": st.sampled_from(["ml.p5.48xlarge", "ml.g5.12xlarge", "ml.m5.xlarge"]),
        "count": st.integers(1, 16),
    }
)
NEW_NETWORKS: list[dict[str, Any]] = [
    {"availability_zones": ["eu-central-1a"], "vpc": {"cidr": "10.0.0.0/16"}},
    {"availability_zones": ["euc1-az1", "euc1-az3"], "vpc": {"cidr": "10.0.0.0/16", "nat": False}},
]
SUBNET = {"id": "subnet-0123456789abcdef0", "availability_zone": "eu-central-1b"}
EXISTING: dict[str, Any] = {
    "vpc": {"existing": {"vpc_id": "vpc-01234567", "subnets": [SUBNET], "security_group_id": "sg-01234567"}}
}


def persistent_lustre(draw: st.DrawFn) -> dict[str, Any]:
    throughput, step = draw(st.sampled_from([(125, 38400), (250, 19200), (500, 9600), (1000, 4800)]))
    folders = draw(st.lists(st.sampled_from(["/a", "/b", "/c/d"]), unique=True))
    links = [{"path": folder, "s3_uri": f"s3://data{folder}"} for folder in folders]
    return {
        "deployment": "PERSISTENT_2",
        "throughput": throughput,
        "capacity_gib": step * draw(st.integers(1, 3)),
        "metadata": draw(st.sampled_from(["automatic", {"iops": 12000}])),
        "efa": draw(st.booleans()),
        **({"associations": links} if links else {"backup": {"retention_days": 7}}),
    }


def load(data: dict[str, Any], folder: Path) -> Any:
    path = folder / "cluster.yaml"
    path.write_text(yaml.safe_dump(data, allow_unicode=True), "utf-8")
    return load_cluster_file(path)


@pytest.mark.exhaustive
@settings(max_examples=6, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(data=valid_files())
def test_any_valid_file_becomes_stacks(
    data: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    synthesized = synthesize(load(data, tmp_path_factory.mktemp("clusters")))

    for part in synthesized.parts:
        assert synthesized.template(part)["Resources"]
    assert "missing" not in json.loads((synthesized.folder / "manifest.json").read_text())


@pytest.mark.parametrize("examples", [30, pytest.param(100, marks=pytest.mark.exhaustive)])
def test_file_with_any_value_replaced_is_refused_with_code_and_place_or_becomes_stacks(
    examples: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    bounds = settings(
        max_examples=examples, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
    )
    bounds(given(data=st.data())(_replace_any_value))(tmp_path_factory=tmp_path_factory)


def _replace_any_value(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    text = (ROOT / "clusters" / "p5-large.yaml").read_text()
    file = yaml.safe_load(text)
    holder: Any = file
    while True:
        place = data.draw(
            st.sampled_from(list(holder) if isinstance(holder, dict) else [*range(len(holder))])
        )
        inner = holder[place]
        if not isinstance(inner, (dict, list)) or not inner or data.draw(st.booleans()):
            break
        holder = inner
    holder[place] = data.draw(JUNK)

    try:
        spec = load(file, tmp_path_factory.mktemp("clusters"))
    except ClusterFileError as error:
        assert error.problems
        assert all(PLACED.match(problem) for problem in error.problems), error.problems
    else:
        synthesize(spec)
