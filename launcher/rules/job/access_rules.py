"""Rules on what a job may reach and who may see it: credentials, secrets, isolation, regions.

Credentials must not stand where everyone who may describe the job can read them; their values are never
shown. Secrets are those that the cluster's role may read (IAM002). Containers that reach nobody, and hosts
that encrypt their traffic: NET001, NET002 and SPEC004. A role that no job can have (IAM001).
Hosts whose script does not reach the others and trains alone on each (DIST008). The cluster and MLflow are
to be in the job's region (SPEC003).
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import Any

from launcher.cluster.names import names_the_same
from launcher.failure_modes import distribution, isolation, job_file, storage
from launcher.failure_modes.model import Finding, Path, Severity, Stage
from launcher.failure_modes.registry import finds
from launcher.jobs.specification import JobSpec, Strategy
from launcher.program.dataflow import text_beginning
from launcher.program.index import ancestors, file_of, last_name, parent_of
from launcher.program.objects.nodes import walk
from launcher.program.program import Program
from launcher.program.ranks.reachability import surely_runs
from launcher.program.surroundings.channels import option_with_default
from launcher.program.surroundings.options import as_attribute, option_of
from launcher.program.values import Constant, External
from launcher.rules.job.start_scripts import shell_starts, shell_text
from launcher.rules.job.subject import JobSubject
from launcher.text.values import credential_in

# Credentials where everyone who may describe the job can read them. Their values are never shown.
#
# Names that say of their value that it is one. Words like pad_token and max_tokens are none of them.
_NAME = re.compile(
    r"(?:^|_)(?:secret_?access_?key|access_?key_?id|session_?token|secret_?key|private_?key|api_?key|apikey"
    r"|password|passwd|passphrase|client_?secret|secret|(?<=_)pwd|(?:db|database|user|smtp|redis|mongo)_?pass"
    r"|(?:storage|account|kaggle|license|encryption|langchain|langsmith)_?key"
    r"|(?:access|auth|api|bearer|refresh|security|hf|hub|huggingface|huggingfacehub|github|gitlab|gh|wandb"
    r"|slack|hugging_?face_?hub)_?token)$"
    r"|^token$"
)
# Values that only point to a secret, switch something, or name nothing.
_NO_SECRET = re.compile(
    r"arn:.*|s3://.*|(?:/[\w.-]+){2,}|\{\{resolve:.*\}\}|true|false|none|null|yes|no|[-+.\d]+|<.*>|\*+",
    re.IGNORECASE,
)
_SHORTEST = 8
_WEBHOOK = re.compile(
    r"https://(?:hooks\.slack\.com/services|discord(?:app)?\.com/api/webhooks)/\w+/[\w/-]{16,}"
)
"""An address that anybody who has it may write to."""


@finds(Stage.SPEC, job_file.CREDENTIAL)
def no_credentials(subject: JobSubject) -> Iterator[Finding]:
    """Environment, hyperparameters (at any depth) and arguments, by the form of a value or by its name; and
    values that were given as the name of a secret, by their form.

    A run on this machine or on Slurm stores nothing at AWS: there it is a warning.
    """
    would = (
        "on AWS it would be stored in clear text with the job, and the service would refuse it; here "
        "it is kept in the run's folder"
        if not subject.on_sagemaker
        else "it would be stored in clear text with the job, and the service refuses requests in which it "
        "finds credentials"
    )
    for path, name, value in _texts_of_job(subject):
        shown = _masked(name)
        what = credential_in(value) or credential_in(name)
        if path[0] != "secrets":
            what = what or _credential_by_name(name, value)
            what = what or ("a webhook" if _WEBHOOK.match(value) else None)
        if what:
            field = ".".join(_masked(str(part)) for part in path)
            yield job_file.CREDENTIAL.at(
                path,
                f"{shown} in {path[0]} looks like {what}: {would}",
                severity=None if subject.on_sagemaker else Severity.WARNING,
                subject=field,
            )


def _texts_of_job(subject: JobSubject) -> Iterator[tuple[Path, str, str]]:
    for variable in subject.variables():
        yield variable.path, variable.name, variable.value
    for name, value in subject.job.tags.items():
        yield ("tags", name), name, value
    for name, secret in subject.job.secrets.items():
        yield ("secrets", name), name, secret
    for name, item in subject.job.hyperparameters.items():
        for inner, text in _leaves(name, item):
            yield ("hyperparameters", name), inner, text
    arguments = subject.job.code.arguments
    for index, argument in enumerate(arguments):
        name, equals, value = argument.partition("=")
        if not equals and argument.startswith("-") and index + 1 < len(arguments):
            value = arguments[index + 1]
        is_flag = argument.startswith("-") and bool(value)
        yield (
            ("code", "arguments", index),
            name.lstrip("-") if is_flag else "an argument",
            value if is_flag else argument,
        )


def _leaves(name: str, value: Any) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        for key, item in value.items():
            yield from _leaves(str(key), item)
    elif isinstance(value, list):
        for item in value:
            yield from _leaves(name, item)
    else:
        yield name, str(value)


def _credential_by_name(name: str, value: str) -> str | None:
    if not _NAME.search(name.replace("-", "_").replace(".", "_").lower()):
        return None
    text = value.strip()
    if len(text) < _SHORTEST or _NO_SECRET.fullmatch(text):
        return None
    return "a credential by its name"


def _masked(name: str) -> str:
    return "a name" if credential_in(name) else name


# Secrets that the cluster's role may read: IAM002.


@finds(Stage.SPEC, storage.SECRET_UNREADABLE)
def secrets_are_the_clusters(subject: JobSubject) -> Iterator[Finding]:
    """Each secret of a job with the cluster's role is among those of the cluster.

    A warning: whoever looks after the role may have let it read more.
    """
    cluster, job = subject.cluster, subject.job
    if cluster is None or job.role_arn is not None or not subject.on_sagemaker:
        return
    for variable, secret in job.secrets.items():
        if not any(names_the_same(secret, known) for known in cluster.secrets):
            has = ", ".join(cluster.secrets) or "none"
            yield storage.SECRET_UNREADABLE.at(
                ("secrets", variable),
                f"{secret} is not among the secrets of the cluster {cluster.name} ({has}): unless its role "
                "was allowed to read it otherwise, the job ends on billed hosts before its script starts",
                remedy=f"Add {secret} to `secrets` of the cluster file and deploy.",
                severity=Severity.WARNING,
            )


# Containers that reach nobody, and hosts that encrypt their traffic: NET001, NET002 and SPEC004.


@finds(Stage.SPEC, isolation.ISOLATED_BUT_CALLS_OUT)
def isolated_containers_call_nobody(subject: JobSubject) -> Iterator[Finding]:
    """What the job file asks for, and a container without a network cannot do."""
    if not subject.job.network.isolation or not subject.on_sagemaker:
        return
    for path, message, remedy in _certain_calls(subject):
        yield isolation.ISOLATED_BUT_CALLS_OUT.at(path, message, remedy=remedy)
    wanted = subject.source.requirements
    named = [*wanted.packages, *wanted.fetched] if wanted else []
    if wanted is not None and named and not (wanted.no_index and not wanted.fetched):
        yield isolation.ISOLATED_BUT_CALLS_OUT.at(
            ("code", "requirements"),
            f"what the image lacks of {wanted.file} is fetched from an index, which isolated containers do "
            "not reach: the job would end before its script starts, on billed hosts",
            remedy="Pack wheels, or give them as a channel, and write --no-index and --find-links into the "
            "file; or use an image that has them.",
            severity=Severity.WARNING,
        )


_OF_AWS = ("boto3.client", "boto3.resource", "boto3.Session", "boto3.session.Session", "sagemaker.Session")
_OF_TRACKERS = ("comet_ml.Experiment", "comet_ml.start", "neptune.init_run", "clearml.Task.init")
_OF_ADDRESSES = (
    "urllib.request.urlopen",
    "urllib.request.urlretrieve",
    "requests.get",
    "requests.post",
    "httpx.get",
    "wget.download",
    "gdown.download",
    "nltk.download",
    "torch.hub.download_url_to_file",
)
_OF_TORCH_HUB = ("torch.hub.load", "torch.hub.load_state_dict_from_url", "timm.create_model")
_OF_THE_HUB = (
    "huggingface_hub.snapshot_download",
    "huggingface_hub.hf_hub_download",
    "datasets.load_dataset",
)
_BUILDERS = frozenset({"json", "csv", "parquet", "text", "arrow", "imagefolder", "audiofolder", "webdataset"})
"""What `load_dataset` reads files by, which may lie here."""

_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*(?:/[\w.-]+)?")
_HERE = re.compile(r"https?://(?:localhost|127\.)|file:|/|\./")
_COMMANDS = (
    "subprocess.run",
    "subprocess.call",
    "subprocess.check_call",
    "subprocess.check_output",
    "os.system",
)
_FETCHING = re.compile(r"\b(?:pip3? install|git clone|wget|curl|aws s3 (?:cp|sync))\b")
_OFFLINE = {
    "wandb": ("WANDB_MODE", "WANDB_DISABLED"),
    "hub": ("OFFLINE", "HF_HOME", "_CACHE", "cache_dir", "local_files_only"),
    "torch": ("TORCH_HOME", "set_dir", "cache_dir"),
}
"""Words of the job's environment and of a program by which something is there already, or is not fetched."""


@finds(Stage.SPEC, isolation.ISOLATED_BUT_CALLS_OUT)
def isolated_scripts_call_nobody(subject: JobSubject) -> Iterator[Finding]:
    """A call of the script that surely runs, on one rank at least, and asks somebody outside.

    A warning, and none in a `try`, nor where the program or the environment speaks of going without.
    """
    program = subject.program
    if not subject.job.network.isolation or not subject.on_sagemaker or program is None:
        return
    told = set[str]()
    for call, name in _calls_out(program, subject.job):
        if name in told or any(isinstance(each, ast.Try) for each in ancestors(call)):
            continue
        if not surely_runs(program, _whatever_the_rank(call)):
            continue
        told.add(name)
        yield isolation.ISOLATED_BUT_CALLS_OUT.finding(
            Stage.SPEC,
            f"{name} asks somebody outside of the container, and this job's are isolated",
            location=file_of(call).location(call),
            subject=name,
            severity=Severity.WARNING,
        )


def _calls_out(program: Program, job: JobSpec) -> Iterator[tuple[ast.Call, str]]:
    words = " ".join((*job.environment, *(file.text for file in program.files)))
    goes_without = {who: any(word in words for word in marks) for who, marks in _OFFLINE.items()}
    yield from program.calls(*_OF_AWS, *_OF_TRACKERS)
    if not goes_without["wandb"]:
        yield from program.calls("wandb.init")
    for call, name in program.calls(*_OF_ADDRESSES, "mlflow.set_tracking_uri"):
        known = text_beginning(program, call.args[0]) if call.args else None
        if not _HERE.match(known[0]) if known else name != "mlflow.set_tracking_uri":
            yield call, name
    for call, _ in program.calls(*_COMMANDS):
        command = " ".join(_texts_in(call.args[0])) if call.args else ""
        if _FETCHING.search(command) and "--no-index" not in command:
            yield call, command[:60]
    if not goes_without["torch"]:
        yield from (each for each in program.calls(*_OF_TORCH_HUB) if _is_fetched(program, *each))
    for file in program.files:
        for call in file.calls:
            name = program.qualified(call.func) or ""
            hub = name in _OF_THE_HUB or name.endswith(".from_pretrained")
            if hub and not goes_without["hub"] and _is_on_the_hub(program, call, job):
                yield call, name
            is_torchs = name.startswith(("torchvision.", "torchaudio.")) and _is_fetched(program, call, name)
            if is_torchs and (".datasets." in name or not goes_without["torch"]):
                yield call, name


def _is_fetched(program: Program, call: ast.Call, name: str) -> bool:
    """Whether weights or data are asked for that are not in the image."""
    given = {word.arg: program.value(word.value) for word in call.keywords}
    if name.startswith("torch.hub"):
        return given.get("source") != Constant("local")
    if ".datasets." in name:
        return given.get("download") == Constant(True)
    weights = given.get("weights", Constant(None))
    named = isinstance(weights, Constant | External) and weights != Constant(None)
    return given.get("pretrained") == Constant(True) or (".models." in name and named)


def _is_on_the_hub(program: Program, call: ast.Call, job: JobSpec) -> bool:
    """Whether the first argument is the name of a repository, written or given by the job, and not a path."""
    named = call.args[0] if call.args else None
    text, is_whole = (text_beginning(program, named) if named is not None else None) or ("", False)
    option = option_of(program, named) if isinstance(named, ast.Attribute) else None
    if option is not None:
        given = {as_attribute(name): value for name, value in job.hyperparameters.items()}
        default = option.default.value if isinstance(option.default, ast.Constant) else None
        text, is_whole = str(given.get(option.name, default)).strip('"'), not job.code.arguments
    if not is_whole or not _HUB_ID.fullmatch(text) or text in (*_BUILDERS, "None"):
        return False
    return not (file_of(call).path.parent / text).exists()


def _texts_in(command: ast.expr) -> list[str]:
    parts = command.elts if isinstance(command, ast.List | ast.Tuple) else [command]
    return [str(each.value) if isinstance(each, ast.Constant) else "?" for each in parts]


def _whatever_the_rank(node: ast.AST) -> ast.AST:
    """The outermost test of a rank around a node, or the node: some rank comes by behind it."""
    for each in ancestors(node):
        if isinstance(each, ast.If) and re.search(
            r"rank|is_(?:main|master|local_main)", ast.unparse(each.test)
        ):
            node = each
    return node


@finds(Stage.SPEC, isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC)
def encryption_has_its_price(subject: JobSubject) -> Iterator[Finding]:
    """A warning with several hosts; with one there is no traffic to encrypt."""
    if not subject.job.network.encryption or not subject.on_sagemaker:
        return
    hosts, instance_type = subject.job.resources.instance_count, subject.job.resources.instance_type
    if hosts == 1:
        yield isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC.at(
            ("network", "encryption"),
            "one host sends nothing to others, so there is nothing to encrypt",
            remedy="Leave `network.encryption` out, or keep it for when there are several hosts.",
            severity=Severity.INFO,
        )
        return
    efa = (
        f"; {instance_type} has EFA, and AWS does not say whether its traffic is encrypted"
        if subject.has_efa
        else ""
    )
    yield isolation.HOSTS_ENCRYPT_THEIR_TRAFFIC.at(
        ("network", "encryption"),
        f"{hosts} hosts encrypt all that they send each other: AWS says that distributed training can take "
        f"longer and cost more{efa}",
    )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def encryption_is_within_a_network(subject: JobSubject) -> Iterator[Finding]:
    """CreateTrainingJob takes EnableInterContainerTrafficEncryption with a VpcConfig alone.

    Source: its answer in the SageMaker SDK's tests (2.257.6, test_encryption_flag_in_non_vpc_mode_invalid).
    """
    view = subject.plan.view
    if subject.job.network.encryption and subject.on_sagemaker and view is not None and not view.subnet_ids:
        yield job_file.BREAKS_API_MODEL.at(
            ("network", "encryption"),
            "`network.encryption: true` without subnets: the API encrypts what hosts send each other only in "
            "a VPC, and would refuse the job",
            remedy="Name a cluster, or give `network.subnets` and `network.security_group_ids`; or leave "
            "`network.encryption` out.",
        )


@finds(Stage.SPEC, job_file.BREAKS_API_MODEL)
def a_network_has_subnets_and_groups(subject: JobSubject) -> Iterator[Finding]:
    """The API's VpcConfig needs both; with one alone the job would run outside of the network it names."""
    job, view = subject.job, subject.plan.view
    given = {"subnets": job.network.subnets, "security_group_ids": job.network.security_group_ids}
    lacking = [name for name, ids in given.items() if not ids]
    if (
        len(lacking) != 1
        or job.cluster is not None
        or not subject.on_sagemaker
        or view is None
        or view.subnet_ids
    ):
        return
    (named,) = given.keys() - lacking
    yield job_file.BREAKS_API_MODEL.at(
        ("network", named),
        f"`network.{named}` without `network.{lacking[0]}`: the API needs both for a VPC, and the job would "
        "run outside of it",
        remedy=f"Give `network.{lacking[0]}` as well, or name a cluster, which has both.",
    )


def _certain_calls(subject: JobSubject) -> Iterator[tuple[Path, str, str | None]]:
    """Each call that is certain to be made, where it is asked for, and what to do instead of the default."""
    job = subject.job
    if not subject.plan.with_boot:
        kind = "a tuning job" if job.tuning else f"a job of the strategy {job.distribution.strategy.value}"
        yield (
            ("network", "isolation"),
            f"{kind} starts through the toolkit of the image, which fetches the code from S3 inside the "
            "container: isolated, it would end before the script starts",
            None,
        )
    if job.secrets:
        yield (
            ("secrets",),
            "the values are fetched from Secrets Manager inside the container: isolated, the job would end "
            "before its script starts",
            "Remove `secrets`, or `network.isolation`.",
        )
    if job.checkpoint is not None and job.checkpoint.sync == "slipway":
        yield (
            ("checkpoint", "sync"),
            "checkpoints would be copied to S3 from inside the container, which it cannot reach when "
            "isolated: they would be lost with the hosts",
            "Let SageMaker move them: `sync: sagemaker`.",
        )
    if job.debug.remote:
        yield (
            ("debug", "remote"),
            "no shell gets into an isolated container (AWS, train-remote-debugging)",
            "Remove `debug.remote`, or `network.isolation`.",
        )
    if job.mlflow is not None:
        yield (
            ("mlflow",),
            "an isolated script does not reach MLflow, and nothing would be logged there",
            "Remove `mlflow`, or `network.isolation`.",
        )


# The role of a job, its region and that of its cluster.


@finds(Stage.SPEC, storage.ROLE_INSUFFICIENT)
def a_role_can_be_passed_to_the_job(subject: JobSubject) -> Iterator[Finding]:
    """A role is of the partition of the job's region, and none that AWS keeps for a service of its own.

    Source: AWS IAM user guide, reference_identifiers and using-service-linked-roles.
    """
    role, region = subject.job.role_arn, subject.plan.region
    if role is None or region is None or not {"role_arn", "region"}.isdisjoint(subject.plan.placeholders):
        return
    _, partition, _, _, _, name = role.split(":", 5)
    wanted = next((each for start, each in _PARTITIONS.items() if region.startswith(start)), "aws")
    if partition != wanted:
        yield storage.ROLE_INSUFFICIENT.at(
            ("role_arn",),
            f"the role is of the partition {partition}, and {region} is in {wanted}: accounts of one know no "
            "roles of the other, and the job would be refused",
            remedy=f"Give a role of the account that runs jobs in {region}.",
        )
    elif name.startswith("role/aws-service-role/"):
        yield storage.ROLE_INSUFFICIENT.at(
            ("role_arn",),
            f"{name.rpartition('/')[2]} is a service-linked role, which its service alone takes and nobody "
            "can pass to a job: it would be refused",
            remedy="Give an execution role, which trusts sagemaker.amazonaws.com, or `cluster` to take its.",
        )


_PARTITIONS = {
    "cn-": "aws-cn",
    "us-gov-": "aws-us-gov",
    "us-iso-": "aws-iso",
    "us-isob-": "aws-iso-b",
    "eu-isoe-": "aws-iso-e",
    "us-isof-": "aws-iso-f",
    "eusc-": "aws-eusc",
}
"""The parts of AWS with accounts of their own, by how their regions begin (botocore's partitions.json)."""


@finds(Stage.SPEC, storage.BUCKET_UNUSABLE)
def job_is_in_its_clusters_region(subject: JobSubject) -> Iterator[Finding]:
    """A cluster's buckets, subnets and file system are of one region, and so is the job."""
    cluster, region = subject.cluster, subject.job.region
    if cluster is None or region is None or region == cluster.region:
        return
    of_lustre = " and its file system" if cluster.lustre is not None else ""
    yield storage.BUCKET_UNUSABLE.at(
        ("region",),
        f"the job is to run in {region}, but the buckets{of_lustre} of the cluster {cluster.name} are in "
        f"{cluster.region}: SageMaker would refuse them",
        remedy=f"Leave `region` out, which means {cluster.region}, or name a cluster in {region}.",
    )


_BUCKET_OF_A_REGION = re.compile(
    r"(?:.*[-.])?(?:(?P<before>{region})-\d{{12}}|\d{{12}}-(?P<after>{region})(?:-an)?)".format(
        region=r"[a-z]{2}(?:-(?:gov|iso[a-z]?))?-(?:north|south|east|west|central)+-\d"
    )
)
"""Buckets that AWS's own tools name by account and region: sagemaker-eu-west-1-111122223333 (the SageMaker
SDK's default), cdk-hnb659fds-assets-111122223333-eu-west-1, and those of an account's own namespace (-an)."""


@finds(Stage.SPEC, storage.BUCKET_UNUSABLE)
def buckets_are_named_by_the_jobs_region(subject: JobSubject) -> Iterator[Finding]:
    """A warning, as a name proves little. What the service itself reads and writes is in the job's region."""
    job, region = subject.job, subject.plan.region
    if not subject.on_sagemaker or region is None or "region" in subject.plan.placeholders:
        return
    places: dict[Path, str | None] = {
        ("inputs", name, "s3_uri"): each.s3_uri for name, each in job.inputs.items()
    }
    places["output", "s3_uri"] = job.output.s3_uri if job.output else None
    places["checkpoint", "s3_uri"] = job.checkpoint.s3_uri if job.checkpoint else None
    for path, uri in places.items():
        bucket = (uri or "").removeprefix("s3://").partition("/")[0]
        named = _BUCKET_OF_A_REGION.fullmatch(bucket)
        there = named and (named["before"] or named["after"])
        if there and there != region:
            yield storage.BUCKET_UNUSABLE.at(
                path,
                f"{bucket} is a bucket of {there} by its name, and the job runs in {region}: SageMaker reads "
                "and writes S3 in the job's own region alone",
                remedy=f"Copy what is read into a bucket of {region} and write to one there, or set `region` "
                f"to {there}.",
                severity=Severity.WARNING,
            )


# Whether MLflow is where the job is: SPEC003.


@finds(Stage.SPEC, job_file.INVALID_VALUE)
def mlflow_is_in_the_jobs_region(subject: JobSubject) -> Iterator[Finding]:
    """A warning: nothing is documented of jobs that belong to the MLflow of another region."""
    mlflow, region = subject.job.mlflow, subject.plan.region
    if mlflow is None or "region" in subject.plan.placeholders or mlflow.region == region:
        return
    yield job_file.INVALID_VALUE.at(
        ("mlflow", "arn"),
        f"MLflow is in {mlflow.region} and the job in {region}: AWS does not document that a job may belong "
        "to the MLflow of another region, and may refuse it",
        remedy="Name a tracking server or an app of the job's region.",
        severity=Severity.WARNING,
    )


# Hosts that the strategy none starts beside each other: whether anything makes them one training.


_TORCHRUN_WITH_OTHERS = (
    'Give torchrun --nnodes "$SM_HOST_COUNT" --node_rank "$SM_CURRENT_HOST_RANK" '
    '--master_addr "$SM_MASTER_ADDR" --master_port "$SM_MASTER_PORT", or name the Python script as the '
    "entry point with `strategy: torchrun`, which does so. Where each host is to train for itself, accept "
    "the finding with `ignore: [DIST008]`."
)
_KNOWS_ITS_HOSTS = re.compile(
    r"nnodes|num_nodes|PET_|\bRANK|WORLD_SIZE|MASTER_|SM_(?:HOSTS?|CURRENT|RESOURCE|TRAINING|NETWORK)|TF_CONFIG"
    r"|resourceconfig|init_process_group|init_device_mesh|jax\.distributed|distributed\.init|MultiWorker"
    r"|ParameterServer|\b(?:accelerate|Accelerator|deepspeed|lightning|horovod|hvd|mpi4py|ray|socket|subprocess)\b"
    r"|hostname|os\.system"
)
"""Words of programs that may know of other hosts, or of a part of the work that is theirs."""


def _hosts_beside_each_other(subject: JobSubject) -> int:
    """How many hosts run the script without a launcher of ranks, each on all of the data; 0 where they need
    not meet."""
    job = subject.job
    sharded = any(each.distribution == "ShardedByS3Key" for each in job.inputs.values())
    alone = job.distribution.strategy is Strategy.NONE and not sharded and job.tuning is None
    return job.resources.instance_count if alone and job.resources.instance_count > 1 else 0


@finds(Stage.SPEC, distribution.RANKS_NEVER_MET)
def shells_start_ranks_that_meet(subject: JobSubject) -> Iterator[Finding]:
    """torchrun in a shell script, on several hosts, as if each of them were alone."""
    hosts = _hosts_beside_each_other(subject)
    knows_hosts = _KNOWS_ITS_HOSTS.search(shell_text(subject).decode("utf-8", "replace")) is not None
    started = [each.start for each in shell_starts(subject)] if hosts else []
    for start in (each for each in started if each.starter == "torchrun"):
        is_alone = start.hosts is not None and start.hosts.text in ("1", "1:1")
        if not is_alone and (knows_hosts or start.lost or start.script.is_open or "$" in start.script.text):
            continue
        yield distribution.RANKS_NEVER_MET.at(
            ("code", "entry_point"),
            f"{subject.source.entry_point_name} starts torchrun "
            f"{'for one host alone' if is_alone else 'without --nnodes'} on each of the {hosts} hosts: "
            f"{hosts} trainings of one host each, which know nothing of each other",
            remedy=_TORCHRUN_WITH_OTHERS,
            severity=Severity.WARNING,
        )


@finds(Stage.SPEC, distribution.RANKS_NEVER_MET)
def hosts_train_together(subject: JobSubject) -> Iterator[Finding]:
    """A Python script that trains on several hosts of the strategy none and knows of no other.

    One of tf.distribute.MirroredStrategy, which spans the devices of one host, may ask for the hosts and show
    them all the same.
    """
    hosts, program = _hosts_beside_each_other(subject), subject.program
    if not hosts or program is None or _knows_its_hosts(program):
        return
    framework = framework_of(program)
    if framework is None:
        return
    from launcher.diagnosis.signatures import FRAGMENTS

    meet = FRAGMENTS[f"MEET_{framework.upper()}"].replace("num_nodes=HOSTS", f"num_nodes={hosts}")
    meet = meet.replace("devices=PROCESSES PER HOST", "devices=-1")
    by_torchrun = "Set `distribution: {strategy: torchrun}`. " if framework == "pytorch" else ""
    alone = "nothing in it knows of the others"
    if any(program.calls(_SPANS_ONE_HOST)):
        alone = "its MirroredStrategy spans the devices of one host alone"
    yield distribution.RANKS_NEVER_MET.at(
        ("resources", "instance_count"),
        f"each of the {hosts} hosts would train a whole model for itself, on all of the data: the strategy "
        f"none starts the script on each, and {alone}",
        remedy=f"Take one host, or let them meet. {by_torchrun}{meet}. Hosts that share out the files of a "
        "channel say `distribution: ShardedByS3Key` at the input.",
        severity=Severity.WARNING,
    )


_SPANS_ONE_HOST = "tensorflow.distribute.MirroredStrategy"
"""TensorFlow's guide to distributed training: one of several hosts is MultiWorkerMirroredStrategy."""


def _knows_its_hosts(program: Program) -> bool:
    """Whether a program may know of other hosts by any word; by what it does where its strategy is seen to
    span the devices of one host."""
    spans_one_host = any(program.calls(_SPANS_ONE_HOST))
    files = [each for each in program.files if _KNOWS_ITS_HOSTS.search(each.text)]
    return any(
        not spans_one_host or any(_asks_for_hosts(program, node) for node in walk(file.tree))
        for file in files
    )


_SHOWS = ("print", "debug", "info", "warning", "error", "log")


def _asks_for_hosts(program: Program, node: ast.AST) -> bool:
    """Whether an expression may lead to the other hosts: it is not merely shown, nor the default of an option
    that nobody reads."""
    match node:
        case ast.Constant(value=str() as word) | ast.Name(id=word) | ast.Attribute(attr=word):
            pass
        case _:
            return False
    if _KNOWS_ITS_HOSTS.search(word) is None or isinstance(parent_of(node), ast.Expr):
        return False
    if any(isinstance(each, ast.Call) and last_name(each.func) in _SHOWS for each in ancestors(node)):
        return False
    option = option_with_default(node) if isinstance(node, ast.expr) else None
    return option is None or any(
        file.attributes.get(option) or f"'{option}'" in file.text or f'"{option}"' in file.text
        for file in program.files
    )


_TRAINS_BY = {
    "jax": ("grad", "value_and_grad"),
    "pytorch": ("backward", "Trainer", "Seq2SeqTrainer", "SFTTrainer"),
    "tensorflow": ("fit", "GradientTape", "apply_gradients", "train_on_batch"),
}
_PACKAGES = {
    "jax": ("jax",),
    "pytorch": ("torch", "transformers", "trl"),
    "tensorflow": ("tensorflow", "keras"),
}


def framework_of(program: Program) -> str | None:
    """The framework with which a program is seen to train; None where it is not seen."""
    for framework, calls in _TRAINS_BY.items():
        imported = any(
            (each.module or "").partition(".")[0] in _PACKAGES[framework]
            for file in program.files
            for each in file.imports
        )
        if imported and any(name in file.calls_of for file in program.files for name in calls):
            return framework
    return None
