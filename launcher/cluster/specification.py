"""The cluster file: what is to be provisioned, `clusters/NAME.yaml`, typed and validated.

`ClusterSpec` is its schema, its documentation and, with `load_cluster_file`, its parser. What comes
out of the deployment is `launcher.cluster.manifest.Cluster`.
"""

from __future__ import annotations

from ipaddress import IPv4Network
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from launcher.cluster.instances import instance_facts, nearest_instance_types
from launcher.cluster.lustre import Deployment, capacity_problem, storage_type, throughput_problem
from launcher.documents.document import DocumentError, Place, parse_document
from launcher.documents.validation import validate

NAT_PREFIX_LENGTH = 28
"""The subnet of the NAT gateway needs one address, and /28 is the smallest subnet of a VPC."""

_RESERVED_ADDRESSES = 5
"""AWS keeps the first four addresses and the last of every subnet (VPC user guide, subnet-sizing)."""

_SPARE_ADDRESSES = 32
"""Room beside the hosts for the interfaces of the file system's servers and of the endpoints."""

_SMALLEST_VPC, _LARGEST_VPC = 28, 16

_AS_WRITTEN = (("tags", "*"),)
"""Tags are text: `cost-centre: 0070` needs no quotes."""


class ClusterFileError(Exception):
    """A cluster file that cannot be used; `problems` has one line for each thing wrong with it."""

    def __init__(self, *problems: str) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class VpcSpec(_Section):
    """The network that training jobs run in."""

    cidr: IPv4Network = Field(description="Private IPv4 range of the VPC, /16 to /28.")
    nat: bool = Field(
        default=True,
        description="A NAT gateway as the way out. Without it, interface endpoints to the services "
        "that a training job calls, and no way to anything else (no pip install from PyPI).",
    )

    @field_validator("cidr")
    @classmethod
    def _is_a_size_of_a_vpc(cls, cidr: IPv4Network) -> IPv4Network:
        if not _LARGEST_VPC <= cidr.prefixlen <= _SMALLEST_VPC:
            raise ValueError(f"a VPC is between /{_LARGEST_VPC} and /{_SMALLEST_VPC}, not /{cidr.prefixlen}")
        return cidr


class PlannedHosts(_Section):
    """The largest job that is to fit; the subnets are sized for it."""

    instance_type: str = Field(description="SageMaker training instance type, such as ml.p5.48xlarge.")
    count: int = Field(ge=1, description="Hosts of that type that run at the same time in one zone.")

    @field_validator("instance_type")
    @classmethod
    def _is_known(cls, instance_type: str) -> str:
        if instance_facts(instance_type) is None:
            nearest = nearest_instance_types(instance_type)
            hint = f"; the nearest are {', '.join(nearest)}" if nearest else ""
            raise ValueError(
                f"{instance_type!r} is no training instance type, so no subnet can be sized{hint}"
            )
        return instance_type


class LustreSpec(_Section):
    """The FSx for Lustre file system, in the first availability zone."""

    deployment: Deployment = Field(description="SCRATCH_2 for work in progress, PERSISTENT_2 to keep.")
    throughput: int | None = Field(
        default=None,
        validate_default=True,
        description="MB/s per TiB; persistent types only: 125, 250, 500 or 1000 on PERSISTENT_2.",
    )
    capacity_gib: int = Field(description="GiB: 1200 or a multiple of 2400 on the SSD types in use today.")
    compression: Literal["LZ4", "NONE"] = Field(
        default="LZ4", description="LZ4 compresses on the servers, which also saves disk throughput."
    )

    @field_validator("throughput")
    @classmethod
    def _goes_with_the_deployment(cls, throughput: int | None, info: ValidationInfo) -> int | None:
        if "deployment" in info.data:
            _refuse(throughput_problem(info.data["deployment"], throughput))
        return throughput

    @field_validator("capacity_gib")
    @classmethod
    def _exists(cls, capacity_gib: int, info: ValidationInfo) -> int:
        if {"deployment", "throughput"} <= info.data.keys():
            _refuse(capacity_problem(info.data["deployment"], info.data["throughput"], capacity_gib))
        return capacity_gib

    @property
    def storage_type(self) -> Literal["SSD", "HDD"]:
        """The storage that the deployment type and throughput stand for."""
        return storage_type(self.deployment, self.throughput)


class ClusterSpec(_Section):
    """What one cluster is to consist of."""

    name: str = Field(
        pattern=r"^[a-z]([a-z0-9-]{0,30}[a-z0-9])?$",
        description="Names the stacks (slipway-NAME-network ...) and the manifest "
        "(/slipway/clusters/NAME): lower-case letters, digits and hyphens, at most 32.",
    )
    region: str = Field(pattern=r"^[a-z]{2}(-[a-z]+)+-[0-9]$", description="AWS region, such as us-west-2.")
    availability_zones: list[str] = Field(
        min_length=1,
        description="Zones with one private subnet each. A job runs in one of them, as EFA does not "
        "cross zones; the file system is in the first.",
    )
    hosts: PlannedHosts
    vpc: VpcSpec
    lustre: LustreSpec | None = Field(default=None, description="No file system when left out.")
    removal_policy: Literal["retain", "destroy"] = Field(
        default="retain",
        description="What `cdk destroy` does to buckets, file system and logs. destroy deletes the "
        "file system with its data; a bucket must be empty to be deleted.",
    )
    tags: dict[str, Annotated[str, Field(max_length=256)]] = Field(
        default_factory=dict, description="Tags on every resource."
    )

    @field_validator("availability_zones")
    @classmethod
    def _are_zones_of_the_region(cls, zones: list[str], info: ValidationInfo) -> list[str]:
        region = info.data.get("region")
        for position, zone in enumerate(zones):
            if region and not (zone.startswith(region) and len(zone) > len(region)):
                raise ValueError(f"{zone!r} is no zone of {region}; zones look like {region}a")
            if zone in zones[:position]:
                raise ValueError(f"{zone!r} is there twice; a zone has one subnet")
        return zones

    @field_validator("vpc")
    @classmethod
    def _holds_the_subnets(cls, vpc: VpcSpec, info: ValidationInfo) -> VpcSpec:
        if not {"availability_zones", "hosts"} <= info.data.keys():
            return vpc
        zones, hosts = len(info.data["availability_zones"]), info.data["hosts"]
        needed = zones * 2 ** (32 - subnet_prefix_length(hosts))
        if vpc.nat:
            needed += zones * 2 ** (32 - NAT_PREFIX_LENGTH)
        if needed > vpc.cidr.num_addresses:
            raise ValueError(
                f"cidr {vpc.cidr} has {vpc.cidr.num_addresses} addresses, but {hosts.count} hosts of "
                f"{hosts.instance_type} in {zones} zone(s) need {needed}; their interfaces would not find "
                f"an address. Use /{32 - (needed - 1).bit_length()} or larger"
            )
        return vpc

    @property
    def subnet_prefix_length(self) -> int:
        """The prefix length of each private subnet, such as 24."""
        return subnet_prefix_length(self.hosts)


def load_cluster_file(path: Path) -> ClusterSpec:
    """Read and validate a cluster file.

    Raises:
        ClusterFileError: the file cannot be read, is not YAML or does not fit the schema; all
            problems of the schema are reported at once, with line and column.
    """
    try:
        document = parse_document(path.read_bytes(), str(path), as_written=_AS_WRITTEN)
    except OSError as error:
        raise ClusterFileError(f"{path}: cannot be read: {error.strerror}") from error
    except DocumentError as error:
        raise ClusterFileError(f"{_at(error.place)}: {error.message}") from error
    spec, problems = validate(ClusterSpec, document)
    if spec is None:
        raise ClusterFileError(
            *(f"{_at(problem.place)}: {problem.message}. {problem.remedy}" for problem in problems)
        )
    return spec


def addresses_per_host(instance_type: str) -> int:
    """Private addresses that one training host takes: 2, or with EFA 5, or one per EFA interface.

    Source: SageMaker developer guide, train-vpc (5 per EFA instance, 2 per other). From p5 on a host
    has more than 5 EFA interfaces, each with an address of its own.

    Raises:
        KeyError: no training instance type.
    """
    facts = instance_facts(instance_type)
    if facts is None:
        raise KeyError(instance_type)
    return max(5, facts.efa_interfaces) if facts.efa_interfaces else 2


def subnet_prefix_length(hosts: PlannedHosts) -> int:
    """The smallest subnet in which all the hosts, and what else a cluster has there, find an address."""
    needed = hosts.count * addresses_per_host(hosts.instance_type) + _RESERVED_ADDRESSES + _SPARE_ADDRESSES
    return 32 - (needed - 1).bit_length()


def _at(place: Place) -> str:
    return f"{place.file}:{place.line}:{place.column}"


def _refuse(problem: str | None) -> None:
    if problem is not None:
        raise ValueError(problem)
