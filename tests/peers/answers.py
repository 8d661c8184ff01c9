"""What the product says of a case, by its own pure path: job file, plan, rules; account; cluster file."""

from __future__ import annotations

import tarfile
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from launcher.cluster.files import ClusterFileError, load_cluster_file
from launcher.cluster.instances import instance_facts
from launcher.cluster.traffic import SecurityGroup, SecurityGroupRule
from launcher.failure_modes.model import Finding, Severity
from launcher.jobs.load_job import load_job
from launcher.planning.training_plan import TrainingPlan
from launcher.session.prepare_plan import prepare_for
from tests.peers.cases import PASSES, Case, merged
from tests.rules.live.states import ANY, FILE_SYSTEM, VPC, found, group, lustre, rule, subnet

JOB: dict[str, Any] = {
    "name": "peer",
    "role_arn": "arn:aws:iam::123456789012:role/training",
    "code": {"source_dir": "src", "entry_point": "train.py"},
    "framework": {"name": "pytorch"},
    "resources": {"instance_type": "ml.p3.16xlarge"},
    "output": {"s3_uri": "s3://output/"},
}
CLUSTER: dict[str, Any] = {
    "name": "peer",
    "region": "us-west-2",
    "availability_zones": ["us-west-2a"],
    "hosts": [{"instance_type": "ml.p5.48xlarge", "count": 4}],
    "vpc": {"cidr": "10.0.0.0/20"},
}
YES = ("accepted", "on")
"""The answers that need no finding behind them."""

OWN, SERVERS = "own", "sg-12345678"


@dataclass(frozen=True, slots=True)
class Answer:
    """One of accepted, warned, refused, on, off, cpu and gpu, and the codes of the findings behind it."""

    verdict: str
    codes: frozenset[str]

    def meets(self, case: Case) -> bool:
        """Whether it is what is expected, and for one of the reasons that are."""
        if case.expected in YES:
            return self.verdict == case.expected or {self.verdict, case.expected} <= set(PASSES)
        return self.verdict == case.expected and (not case.by or bool(self.codes & set(case.by)))


def answer(case: Case, folder: Path) -> Answer:
    """Ask the product; its files are written into the folder."""
    match case.kind:
        case "live":
            return _of_account(case)
        case "cluster":
            return _of_cluster(case, folder)
    plan = _plan(case, folder)
    refusal = _verdict(plan.findings, case.by)
    if case.kind == "debugger" and plan.job:
        codes = frozenset(each.code for each in plan.findings)
        return Answer("on" if plan.debugger.on else "off", codes)
    if case.kind == "processor" and refusal.verdict == "accepted" and plan.request is not None:
        tag = plan.request["AlgorithmSpecification"]["TrainingImage"].partition(":")[2]
        return Answer("gpu" if "-gpu-" in tag else "cpu", frozenset())
    return refusal


def _verdict(findings: Iterable[Finding], warned_by: Iterable[str] = ()) -> Answer:
    """Refused with an error; warned with a warning of one of the codes; else accepted."""
    told = list(findings)
    errors = frozenset(each.code for each in told if each.severity is Severity.ERROR)
    if errors:
        return Answer("refused", errors)
    warnings = frozenset(each.code for each in told if each.severity is Severity.WARNING)
    return Answer("warned", warnings) if warnings & set(warned_by) else Answer("accepted", frozenset())


def _plan(case: Case, folder: Path) -> TrainingPlan:
    job = JOB
    for layer in case.given["layers"]:
        job = merged(job, layer)
    if "parameters" in case.given:
        job = merged(job, {"distribution": {"options": {"parameters": case.given["parameters"]}}})
    for name in case.given.get("files", ["src/train.py"]):
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("tinydb\n" if file.suffix == ".txt" else "def _mp_fn(index):\n    print('trained')\n")
    if "archive" in case.given:
        with tarfile.open(folder / case.given["archive"], "w:gz") as archive:
            archive.add(folder / "src", arcname=".")
    file = folder / "job.yaml"
    file.write_text(yaml.safe_dump(job))
    return prepare_for(load_job(file), None, session_region="us-west-2", unique="0unique")


def _of_cluster(case: Case, folder: Path) -> Answer:
    file = folder / "peer.yaml"
    given = {key: case.given[key] for key in ("lustre", "encryption") if key in case.given}
    file.write_text(yaml.safe_dump({**CLUSTER, **given}))
    try:
        load_cluster_file(file)
    except ClusterFileError:
        return Answer("refused", frozenset())
    return Answer("accepted", frozenset())


def _of_account(case: Case) -> Answer:
    """The account of tests/rules/live, with the network of the case; only the codes of the case count."""
    given = case.given["account"]
    state: dict[str, Any] = {}
    if "instance_type" in given:
        assert instance_facts(given["instance_type"]) is not None
        state["instance_type"] = given["instance_type"]
    if "groups" in given:
        state["groups"] = tuple(_group(id_, rules) for id_, rules in given["groups"].items())
    if "zones" in given:
        state["subnets"] = tuple(
            subnet(f"subnet-{zone[-1]}", availability_zone=zone, cidr=f"10.0.{number}.0/24")
            for number, zone in enumerate(given["zones"])
        )
    if "servers" in given:
        state |= _lustre(given)
    judged = [each for each in found(**state) if each.code in case.by]
    return _verdict(judged, case.by)


def _lustre(given: Mapping[str, Any]) -> dict[str, Any]:
    rules = given["servers"]
    servers = () if rules is None else (_group(SERVERS, rules),)
    known = {each.id: each for each in servers}
    own = group(OWN, rule("egress", ipv4=[ANY]), *lustre("ingress", SERVERS))
    return {
        "subnets": (subnet(cidr="10.0.1.0/24"),),
        "groups": tuple(own if id_ == OWN else known.get(id_, group(id_)) for id_ in given["hosts"]),
        "file_system": replace(
            FILE_SYSTEM,
            vpc_id=given.get("vpc", VPC),
            security_group_ids=tuple(known) or None,
        ),
        "file_system_groups": servers,
    }


def _group(id_: str, rules: Mapping[str, Any]) -> SecurityGroup:
    return group(
        id_,
        *(_rule("ingress", each) for each in rules["in"]),
        *(_rule("egress", each) for each in rules["out"]),
    )


def _rule(direction: Any, given: Mapping[str, Any]) -> SecurityGroupRule:
    peers = given["of"]
    protocol, ports = ("-1", None) if given["traffic"] == "all" else ("tcp", tuple(given["traffic"]))
    return rule(
        direction,
        protocol,
        ports,
        groups=[each for each in peers if each.startswith("sg-")],
        prefix_lists=[each for each in peers if each.startswith("pl-")],
        ipv4=[each for each in peers if each[0].isdigit()],
    )
