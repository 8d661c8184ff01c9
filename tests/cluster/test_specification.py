"""The cluster file: what is accepted, and how each mistake is told."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from launcher.cluster.files import ClusterFileError, load_cluster_file
from launcher.cluster.specification import ClusterSpec

CLUSTERS = Path(__file__).parents[2] / "clusters"

SMALLEST = """\
name: small
region: us-west-2
availability_zones: [us-west-2a]
hosts: [{instance_type: ml.p5.48xlarge, count: 4}]
vpc:
  cidr: 10.0.0.0/20
"""

PERSISTENT = "deployment: PERSISTENT_2, throughput: 125, capacity_gib: 1200"
EXISTING = (
    "{vpc_id: vpc-0123456789abcdef0, "
    "subnets: [{id: subnet-0123456789abcdef0, availability_zone: us-west-2a}]}"
)


def load(text: str, folder: Path) -> ClusterSpec:
    path = folder / "small.yaml"
    path.write_text(text, "utf-8")
    return load_cluster_file(path)


def problems(text: str, folder: Path) -> list[str]:
    """The problems of a file, without its path."""
    with pytest.raises(ClusterFileError) as caught:
        load(text, folder)
    return [problem.removeprefix(f"{folder}/small.yaml") for problem in caught.value.problems]


@pytest.mark.parametrize("path", sorted(CLUSTERS.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_cluster_file_of_ours_is_valid(path: Path) -> None:
    assert load_cluster_file(path).name == path.stem


def test_what_is_left_out_is_safe(tmp_path: Path) -> None:
    spec = load(SMALLEST, tmp_path)

    assert (spec.vpc.nat, spec.lustre, spec.removal_policy, spec.tags) == (True, None, "retain", {})
    assert (spec.encryption, spec.queue, spec.observability) == ("aws-managed", None, None)


def test_tags_are_text_as_written(tmp_path: Path) -> None:
    spec = load(f"{SMALLEST}tags: {{debug: on, cost-centre: 0070}}\n", tmp_path)

    assert spec.tags == {"debug": "on", "cost-centre": "0070"}


def test_specification_survives_its_own_yaml(tmp_path: Path) -> None:
    spec = load_cluster_file(CLUSTERS / "p5-large.yaml")

    assert load(yaml.safe_dump(spec.model_dump(mode="json")), tmp_path) == spec


def test_mistakes_are_told(tmp_path: Path) -> None:
    untold = []
    for row in yaml.safe_load((Path(__file__).parent / "mistakes.yaml").read_text("utf-8")):
        assert row.get("replaced", "") in SMALLEST
        if "file" in row:
            text = row["file"]
        elif "added" in row:
            text = f"{SMALLEST}{row['added']}\n"
        else:
            text = SMALLEST.replace(row["replaced"], row["with"])
        found = problems(text, tmp_path)
        alone = len(found) == 1 and "SPEC003" in found[0]
        if row["told"] not in "\n".join(found) or ("added" in row and not alone):
            untold.append((row, found))
    assert untold == []


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    broken = SMALLEST.replace("small", "SMALL").replace("count: 4", "count: none").replace("/20", "/99")

    assert len(problems(broken, tmp_path)) == 3


@pytest.mark.parametrize(
    ("paths", "overlapping"),
    [
        (["/a", "/b", "/ab"], None),
        (["/"], None),
        (["/a", "/a"], 1),
        (["/a/b", "/c", "/a"], 2),
        (["/a", "/"], 1),
        (["/", "/a"], 1),
        (["/a/", "/a/b"], 1),
    ],
)
def test_folders_of_associations_may_not_overlap(
    paths: list[str], overlapping: int | None, tmp_path: Path
) -> None:
    links = [{"path": path, "s3_uri": f"s3://data/{number}"} for number, path in enumerate(paths)]
    text = f"{SMALLEST}lustre: {{{PERSISTENT}, associations: {links}}}\n"

    if overlapping is None:
        load(text, tmp_path)
    else:
        (found,) = problems(text, tmp_path)
        assert f"`lustre.associations.{overlapping}.path`" in found


def test_a_ninth_association_is_refused(tmp_path: Path) -> None:
    links = [{"path": f"/{number}", "s3_uri": f"s3://data/{number}"} for number in range(9)]

    (found,) = problems(f"{SMALLEST}lustre: {{{PERSISTENT}, associations: {links}}}\n", tmp_path)

    assert "`lustre.associations`" in found


def test_refusal_of_a_file_system_shows_once_what_is_possible(tmp_path: Path) -> None:
    told = problems(
        f"{SMALLEST}lustre: {{deployment: SCRATCH_2, capacity_gib: 1, metadata: automatic, efa: true}}\n",
        tmp_path,
    )

    assert len(told) == 3
    assert [text.count("FSx for Lustre offers:") for text in told] == [1, 0, 0]
    assert "PERSISTENT_1  HDD      12                        a multiple of 6000" in told[0]


def test_existing_network_needs_no_zones_of_its_own(tmp_path: Path) -> None:
    text = "name: small\nregion: us-west-2\nhosts: [{instance_type: ml.p5.48xlarge, count: 4}]\n"
    spec = load(f"{text}vpc: {{existing: {EXISTING}}}\n", tmp_path)

    assert spec.vpc.existing is not None
    assert [subnet.availability_zone for subnet in spec.vpc.existing.subnets] == ["us-west-2a"]


@pytest.mark.parametrize(
    "content",
    [b"", b"- a\n- b\n", b"name: \xff\xfe", b"name: [", b"name: a\nname: b\n", b"a: !!python/object:os.x 1"],
)
def test_text_that_is_no_cluster_file_is_refused(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "small.yaml"
    path.write_bytes(content)

    with pytest.raises(ClusterFileError, match=r"small\.yaml:[12]:\d+: SPEC001 "):
        load_cluster_file(path)


@pytest.mark.parametrize("name", ["missing.yaml", "."])
def test_file_that_cannot_be_opened_is_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ClusterFileError, match="cannot be read"):
        load_cluster_file(tmp_path / name)


KEY = "arn:aws:kms:us-west-2:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
ROLE = "arn:aws:iam::111122223333:role/training"


def test_roles_keys_and_teams_are_read(tmp_path: Path) -> None:
    spec = load(
        f"{SMALLEST}data_buckets: [corpus]\ndata_keys: ['{KEY}']\nrole: {{existing: '{ROLE}'}}\n"
        f"teams: {{research: {{launchers: ['{ROLE}']}}, research2: {{}}}}\n",
        tmp_path,
    )

    assert (spec.data_keys, spec.role and spec.role.existing) == ([KEY], ROLE)
    assert {name: team.launchers for name, team in spec.teams.items()} == {
        "research": [ROLE],
        "research2": [],
    }


def test_keys_need_a_bucket_that_exists(tmp_path: Path) -> None:
    (problem,) = problems(f"{SMALLEST}data_keys: ['{KEY}']\n", tmp_path)
    assert "there is no bucket that the keys could be of" in problem

    assert load(f"{SMALLEST}data_keys: ['{KEY}']\nbuckets: {{output: models}}\n", tmp_path).data_keys == [KEY]


def test_as_many_data_buckets_as_policies_can_name(tmp_path: Path) -> None:
    def buckets(count: int) -> str:
        return f"{SMALLEST}data_buckets: [{', '.join(f'corpus-{number}' for number in range(count))}]\n"

    assert len(load(buckets(100), tmp_path).data_buckets) == 100
    (problem,) = problems(buckets(101), tmp_path)
    assert "data_buckets" in problem
    assert "100" in problem


def test_a_hyperpod_cluster_has_a_controller_where_none_is_named(tmp_path: Path) -> None:
    lustre = "lustre: {deployment: SCRATCH_2, capacity_gib: 1200}\n"
    nodes = "{name: h100, instance_type: ml.p5.48xlarge, count: 2}"
    spec = load(f"{SMALLEST}{lustre}hyperpod: {{groups: [{nodes}]}}\n", tmp_path).hyperpod

    assert spec is not None
    assert [(each.name, each.role, each.count) for each in spec.all_groups] == [
        ("controller", "controller", 1),
        ("h100", "compute", 2),
    ]
    assert (spec.entry_group.name, spec.groups[0].slurm_partition) == ("controller", "h100")
    assert (spec.recovery, spec.continuous) == ("automatic", False)


def test_people_log_in_on_the_login_nodes_where_there_are_some(tmp_path: Path) -> None:
    lustre = "lustre: {deployment: SCRATCH_2, capacity_gib: 1200}\n"
    groups = (
        "[{name: h100, instance_type: ml.p5.48xlarge}, "
        "{name: doors, role: login, instance_type: ml.m5.large}, "
        "{name: head, role: controller, instance_type: ml.m5.2xlarge}]"
    )
    spec = load(f"{SMALLEST}{lustre}hyperpod: {{groups: {groups}}}\n", tmp_path).hyperpod

    assert spec is not None
    assert [each.name for each in spec.all_groups] == ["head", "h100", "doors"]
    assert spec.entry_group.name == "doors"
