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

ACCOUNT = "111122223333"
PERSISTENT = "deployment: PERSISTENT_2, throughput: 125, capacity_gib: 1200"
LINKS = "associations: [{path: /data, s3_uri: 's3://data/corpus'}]"
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


@pytest.mark.parametrize(
    ("line", "replacement", "told"),
    [
        ("name: small", "name: Small_1", ":1:1: SPEC003 `name`: 'Small_1' does not have the form"),
        ("name: small", "nmae: small", ":1:1: SPEC002 unknown field `nmae`. Did you mean `name`?"),
        ("region: us-west-2", "region: oregon", ":2:1: SPEC003 `region`: 'oregon' does not have the form"),
        ("[us-west-2a]", "[us-east-1a]", ":3:1: SPEC003 `availability_zones`: 'us-east-1a' is not a zone"),
        ("[us-west-2a]", "[us-west-2a, us-west-2a]", "'us-west-2a' is there twice"),
        ("[us-west-2a]", "[]", "`vpc`: a new VPC needs `availability_zones`"),
        ("[us-west-2a]", "[use1-az1]", "'use1-az1' is not a zone of us-west-2"),
        ("[us-west-2a]", "[us-west-2a, usw2-az1]", "names and ids are mixed"),
        ("[us-west-2a]", "[us-west-2-lax-1a]", "'us-west-2-lax-1a' is not a zone of us-west-2"),
        ("count: 4", "count: 0", ":4:41: SPEC003 `hosts.0.count`: 0 is not valid"),
        ("p5.48", "p5.49", "`hosts.0.instance_type`: 'ml.p5.49xlarge' is not a training instance type"),
        ("p5.48", "p5.49", "ml.p5.48xlarge"),
        (
            "10.0.0.0/20",
            "10.0.0.0/8",
            ":6:3: SPEC003 `vpc.cidr`: VPCs and subnets are between /16 and /28, not /8",
        ),
        ("10.0.0.0/20", "10.0.0.1/20", ":6:3: SPEC003 `vpc.cidr`: '10.0.0.1/20' is not valid"),
        (
            "10.0.0.0/20",
            "10.0.0.0/24",
            ":6:3: EFA004 `vpc.cidr`: 10.0.0.0/24 has 256 addresses, but 4 hosts of ml.p5.48xlarge",
        ),
        ("10.0.0.0/20", "8.8.0.0/20", ":6:3: SPEC003 `vpc.cidr`: 8.8.0.0/20 is not private"),
        ("10.0.0.0/20", "172.32.0.0/20", "172.32.0.0/20 is not private"),
        ("name: small", "name: none", "`name`: none means no cluster in a job file"),
        ("name: small", "name: small\naccount: 12345", "`account`: '12345' does not have the form"),
        ("  cidr: 10.0.0.0/20", "  nat: true", ":5:1: SPEC003 `vpc`: `cidr` and `existing` are both missing"),
        (
            "name: small",
            "name: small\nremoval_policy: keep",
            ":2:1: SPEC003 `removal_policy`: 'keep' is not one of",
        ),
    ],
)
def test_mistake_is_told_with_its_place(line: str, replacement: str, told: str, tmp_path: Path) -> None:
    assert line in SMALLEST

    assert told in "\n".join(problems(SMALLEST.replace(line, replacement), tmp_path))


def test_all_mistakes_are_told_at_once(tmp_path: Path) -> None:
    broken = SMALLEST.replace("small", "SMALL").replace("count: 4", "count: none").replace("/20", "/99")

    assert len(problems(broken, tmp_path)) == 3


@pytest.mark.parametrize(
    ("lustre", "told"),
    [
        (
            "deployment: SCRATCH_2, capacity_gib: 1300",
            ":7:33: SPEC003 `lustre.capacity_gib`: FSx has no SCRATCH_2",
        ),
        (
            "deployment: SCRATCH_2, throughput: 125, capacity_gib: 1200",
            "`lustre.throughput`: SCRATCH_2 has a fixed",
        ),
        ("deployment: PERSISTENT_2, capacity_gib: 1200", "`lustre.throughput`: PERSISTENT_2 needs one"),
        ("deployment: PERSISTENT_2, throughput: 200, capacity_gib: 1200", "use 125, 250, 500 or 1000"),
        ("deployment: PERSISTENT_3, capacity_gib: 1200", "`lustre.deployment`: 'PERSISTENT_3' is not one of"),
        (
            "deployment: SCRATCH_2, capacity_gib: 1200, compression: ZSTD",
            "`lustre.compression`: 'ZSTD' is not one of",
        ),
        ("deployment: SCRATCH_2, capacity_gib: 1200, metadata: automatic", "SCRATCH_2 has no metadata"),
        (f"{PERSISTENT}, metadata: {{iops: 2000}}", "`lustre.metadata`: FSx has no metadata servers of 2000"),
        (f"{PERSISTENT}, metadata: manual", "'manual' is neither `automatic` nor {iops: N}"),
        ("deployment: SCRATCH_2, capacity_gib: 1200, efa: true", "SCRATCH_2 cannot have EFA"),
        (f"{PERSISTENT}, efa: true", "`lustre.efa`: a file system with EFA needs `metadata`"),
        (f"{PERSISTENT}, metadata: automatic, efa: true", "use a multiple of 38400"),
        (
            "deployment: SCRATCH_2, capacity_gib: 1200, backup: {retention_days: 7}",
            "SCRATCH_2 cannot be backed",
        ),
        (f"{PERSISTENT}, backup: {{retention_days: 91}}", "`lustre.backup.retention_days`: 91 is not valid"),
        (f"{PERSISTENT}, backup: {{retention_days: 7}}, {LINKS}", "linked to S3 cannot be backed up"),
        (f"deployment: SCRATCH_1, capacity_gib: 1200, {LINKS}", "SCRATCH_1 cannot be linked to S3"),
        (
            f"{PERSISTENT}, backup: {{retention_days: 7, start: '3:00'}}",
            "`lustre.backup.start`: '3:00' does not",
        ),
        (f"{PERSISTENT}, maintenance: sunday 03:00", "`lustre.maintenance`: 'sunday 03:00' does not have"),
        (f"{PERSISTENT}, maintenance: sun 24:00", "`lustre.maintenance`: 'sun 24:00' does not have"),
        (f"{PERSISTENT}, associations: [{{path: data, s3_uri: s3://data}}]", "`lustre.associations.0.path`"),
        (f"{PERSISTENT}, associations: [{{path: /d, s3_uri: data}}]", "`lustre.associations.0.s3_uri`"),
    ],
)
def test_impossible_file_system_is_refused(lustre: str, told: str, tmp_path: Path) -> None:
    (found,) = problems(f"{SMALLEST}lustre: {{{lustre}}}\n", tmp_path)

    assert "SPEC003" in found
    assert told in found


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


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("encryption: mine", ":7:1: SPEC003 `encryption`: 'mine' is neither"),
        (
            f"encryption: arn:aws:kms:us-east-1:{ACCOUNT}:key/1",
            "the key is in us-east-1, the cluster in us-west-2",
        ),
        (
            "encryption: new-key\nlustre: {deployment: SCRATCH_2, capacity_gib: 1200}",
            ":7:1: SPEC003 `encryption`: a SCRATCH_2 file system is always encrypted with FSx's own key",
        ),
        ("queue: {shares: {research: 0}}", "`queue.shares.research`: 0 is not valid"),
        ("queue: {shares: {a*: 1, ab: 1}}", "'ab' is one of 'a*'"),
        ("observability: {email: nobody}", "`observability.email`"),
        ("buckets: {code: Not_A_Bucket}", "`buckets.code`"),
        ("data_buckets: [ok-bucket, s3://bucket]", "`data_buckets.1`"),
        ("launchers: [research]", "`launchers.0`: 'research' does not have the form"),
        (f"launchers: ['arn:aws:iam::{ACCOUNT}:role/*']", "`launchers.0`"),
        (f"launchers: ['arn:aws:iam::{ACCOUNT}:user/alice']", "`launchers.0`"),
        ("tags: {'aws:x': y}", "'aws:x' begins with aws:"),
        ("tags: {'a*b': y}", "`tags.a*b`"),
        ("tags: {team: 'a*'}", "`tags.team`"),
        ("tags: {team: ''}", "`tags.team`"),
    ],
)
def test_impossible_choice_is_refused(lines: str, told: str, tmp_path: Path) -> None:
    (found,) = problems(f"{SMALLEST}{lines}\n", tmp_path)

    assert told in found


@pytest.mark.parametrize(
    ("vpc", "zones", "told"),
    [
        (f"{{existing: {EXISTING}, cidr: 10.0.0.0/16}}", "", "`cidr` and `existing` are both given"),
        (f"{{existing: {EXISTING}, nat: false}}", "", "`vpc.nat`: the way out of an existing VPC is its own"),
        (
            f"{{existing: {EXISTING}}}",
            "[us-west-2a]",
            "`availability_zones` are those of the existing subnets",
        ),
        (f"{{existing: {EXISTING.replace('2a', '2')}}}", "", "`vpc.existing.subnets.0.availability_zone`"),
        (f"{{existing: {EXISTING.replace('vpc-', 'vpc')}}}", "", "`vpc.existing.vpc_id`"),
        ("{cidr: 10.0.0.0/16, s3_prefix_list_id: pl-68a54001}", "[us-west-2a]", "`vpc.s3_prefix_list_id`"),
    ],
)
def test_contradiction_in_the_network_is_refused(vpc: str, zones: str, told: str, tmp_path: Path) -> None:
    text = "name: small\nregion: us-west-2\nhosts: [{instance_type: ml.p5.48xlarge, count: 4}]\n"
    text += f"vpc: {vpc}\n" + (f"availability_zones: {zones}\n" if zones else "")

    assert told in "\n".join(problems(text, tmp_path))


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


@pytest.mark.parametrize("versions", ["0", "101", "2, checkpoints: ours"])
def test_versions_are_bounded_in_a_new_bucket_only(versions: str, tmp_path: Path) -> None:
    (found,) = problems(f"{SMALLEST}buckets: {{checkpoint_versions: {versions}}}\n", tmp_path)

    assert "SPEC003 `buckets.checkpoint_versions`: " in found


@pytest.mark.parametrize("days", ["0", "2", "31", "4000", "true"])
def test_logs_are_kept_for_days_that_there_are(days: str, tmp_path: Path) -> None:
    (found,) = problems(f"{SMALLEST}observability: {{job_log_days: {days}}}\n", tmp_path)

    assert "SPEC003 `observability.job_log_days`: " in found


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


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("data_keys: [mine]", "`data_keys.0`: 'mine' is not the ARN of a KMS key"),
        (
            f"data_keys: ['{KEY.replace('us-west-2', 'eu-west-1')}']",
            "the key is in eu-west-1, the cluster in us-west-2",
        ),
        (f"data_keys: ['{KEY}', '{KEY}']", "is there twice"),
        ("role: {}", "`role` names neither a role nor a boundary"),
        ("role: {existing: training}", "role.existing"),
        ("role: {permissions_boundary: 'arn:aws:iam::1:policy/x'}", "role.permissions_boundary"),
        ("teams: {Research: {}}", "teams"),
        ("teams: {research-: {}}", "teams"),
        (
            "teams: {research: {}, research-nlp: {}}",
            "the jobs of 'research-nlp' would begin with 'research-'",
        ),
        ("teams: {re-search: {}, research: {}}", "'re-search' and 'research' differ in hyphens only"),
    ],
)
def test_what_cannot_be_is_refused(lines: str, told: str, tmp_path: Path) -> None:
    (problem,) = problems(f"{SMALLEST}data_buckets: [corpus]\n{lines}\n", tmp_path)

    assert told in problem
    assert "SPEC003" in problem


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
