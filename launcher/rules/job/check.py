"""All rules on a job, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from launcher.failure_modes.model import Finding
from launcher.rules.job.arguments import hyperparameters_are_in_the_scripts_style
from launcher.rules.job.batches import batches_are_even, objects_are_not_sharded_unevenly
from launcher.rules.job.checkpoints import (
    checkpoint_directory_is_made,
    large_checkpoints_go_to_lustre,
    own_sync_is_in_the_script,
    training_jobs_share_no_checkpoints,
    what_restarts_has_a_checkpoint,
)
from launcher.rules.job.credentials import no_credentials
from launcher.rules.job.dataset import large_data_is_not_downloaded
from launcher.rules.job.debugger import (
    debugger_is_offered,
    debugger_off_with_checkpoints,
    debugger_off_with_model_parallel,
    tuning_jobs_have_no_debugger,
)
from launcher.rules.job.efa_environment import (
    device_rdma_only_where_it_is,
    efa_is_not_turned_off,
    plugin_is_found,
    settings_are_left_to_the_plugin,
)
from launcher.rules.job.hosts import several_hosts_have_efa
from launcher.rules.job.image import (
    image_has_the_toolkit,
    image_is_in_ecr,
    image_of_aws_is_known,
    image_uses_the_gpus,
)
from launcher.rules.job.instance_type import (
    alternatives_need_retries,
    known_alternatives,
    known_instance_type,
)
from launcher.rules.job.isolation import (
    encryption_has_its_price,
    encryption_is_within_a_network,
    isolated_containers_call_nobody,
)
from launcher.rules.job.lustre import lustre_is_in_the_jobs_zone, lustre_paths_are_below_the_mount
from launcher.rules.job.memory import state_leaves_room
from launcher.rules.job.mlflow import mlflow_is_in_the_jobs_region
from launcher.rules.job.nccl_environment import no_debugging_in_a_normal_run, no_obsolete_environment
from launcher.rules.job.placement import hosts_are_of_ultra_servers
from launcher.rules.job.processes import (
    no_accelerators_idle_without_a_launcher,
    one_process_per_accelerator,
)
from launcher.rules.job.region import job_is_in_its_clusters_region
from launcher.rules.job.requirements import (
    named_requirements_are_packed,
    packages_are_wanted_in_one_version,
    requirements_can_be_read,
    toolkit_knows_one_file,
    torch_is_that_of_the_image,
)
from launcher.rules.job.secrets import secrets_are_the_clusters
from launcher.rules.job.shell_script import (
    shell_script_has_unix_line_ends,
    shell_script_is_run_by_what_it_names,
)
from launcher.rules.job.source import (
    code_is_small,
    entry_point_is_packed,
    entry_point_is_there,
    module_is_there,
    source_can_be_packed,
)
from launcher.rules.job.spot import max_wait_needs_spot, waiting_includes_running, warm_pools_are_not_spot
from launcher.rules.job.subject import JobSubject, SourceSubject
from launcher.rules.job.training_compiler import (
    compiled_training_is_compared,
    compiler_is_maintained,
    compiler_knows_its_gpus,
)
from launcher.rules.job.volume import volume_has_a_meaning
from launcher.rules.job.workers import workers_have_their_cpus

RULES: tuple[Callable[[JobSubject], Iterator[Finding]], ...] = (
    known_instance_type,
    known_alternatives,
    one_process_per_accelerator,
    no_accelerators_idle_without_a_launcher,
    entry_point_is_there,
    module_is_there,
    max_wait_needs_spot,
    waiting_includes_running,
    warm_pools_are_not_spot,
    volume_has_a_meaning,
    hosts_are_of_ultra_servers,
    mlflow_is_in_the_jobs_region,
    isolated_containers_call_nobody,
    encryption_has_its_price,
    encryption_is_within_a_network,
    alternatives_need_retries,
    own_sync_is_in_the_script,
    no_credentials,
    secrets_are_the_clusters,
    efa_is_not_turned_off,
    plugin_is_found,
    device_rdma_only_where_it_is,
    settings_are_left_to_the_plugin,
    no_obsolete_environment,
    no_debugging_in_a_normal_run,
    several_hosts_have_efa,
    compiler_knows_its_gpus,
    compiled_training_is_compared,
    compiler_is_maintained,
    debugger_off_with_checkpoints,
    debugger_off_with_model_parallel,
    debugger_is_offered,
    large_checkpoints_go_to_lustre,
    what_restarts_has_a_checkpoint,
    checkpoint_directory_is_made,
    training_jobs_share_no_checkpoints,
    tuning_jobs_have_no_debugger,
    image_has_the_toolkit,
    image_is_in_ecr,
    image_of_aws_is_known,
    image_uses_the_gpus,
    job_is_in_its_clusters_region,
    lustre_is_in_the_jobs_zone,
    lustre_paths_are_below_the_mount,
    large_data_is_not_downloaded,
    batches_are_even,
    objects_are_not_sharded_unevenly,
    workers_have_their_cpus,
    state_leaves_room,
    source_can_be_packed,
    entry_point_is_packed,
    code_is_small,
    shell_script_has_unix_line_ends,
    shell_script_is_run_by_what_it_names,
    named_requirements_are_packed,
    requirements_can_be_read,
    packages_are_wanted_in_one_version,
    torch_is_that_of_the_image,
    toolkit_knows_one_file,
    hyperparameters_are_in_the_scripts_style,
)

SOURCE_RULES: tuple[Callable[[SourceSubject], Iterator[Finding]], ...] = (
    entry_point_is_there,
    source_can_be_packed,
    entry_point_is_packed,
    code_is_small,
    module_is_there,
    shell_script_has_unix_line_ends,
)
"""Those of RULES that judge the source alone, and so also where the job file has errors elsewhere."""


def check_source(subject: SourceSubject) -> list[Finding]:
    """The findings on the source, in the order of SOURCE_RULES."""
    return [finding for rule in SOURCE_RULES for finding in rule(subject)]


def check_job(subject: JobSubject) -> list[Finding]:
    """The findings of every rule, in the order of RULES; `path` says where each stands in the job file."""
    return [finding for rule in RULES for finding in rule(subject)]
