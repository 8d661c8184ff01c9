"""All rules on a job, in the order in which their findings are shown."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from launcher.failure_modes.model import Finding
from launcher.rules.job.access_rules import (
    a_network_has_subnets_and_groups,
    buckets_are_named_by_the_jobs_region,
    encryption_has_its_price,
    encryption_is_within_a_network,
    isolated_containers_call_nobody,
    job_is_in_its_clusters_region,
    mlflow_is_in_the_jobs_region,
    no_credentials,
    secrets_are_the_clusters,
)
from launcher.rules.job.code_rules import (
    code_is_small,
    entry_point_is_packed,
    entry_point_is_there,
    hyperparameters_are_in_the_scripts_style,
    module_is_there,
    named_requirements_are_packed,
    nothing_hides_the_boot,
    packages_are_wanted_in_one_version,
    requirements_can_be_read,
    shell_script_has_unix_line_ends,
    shell_script_is_run_by_what_it_names,
    source_can_be_packed,
    toolkit_knows_one_file,
    torch_is_that_of_the_image,
)
from launcher.rules.job.data_rules import (
    batches_are_even,
    checkpoint_directory_is_made,
    debugger_is_offered,
    debugger_off_with_checkpoints,
    debugger_off_with_model_parallel,
    large_checkpoints_go_to_lustre,
    large_data_is_not_downloaded,
    lustre_is_in_the_jobs_zone,
    lustre_paths_are_below_the_mount,
    objects_are_not_sharded_unevenly,
    own_sync_is_in_the_script,
    state_leaves_room,
    training_jobs_share_no_checkpoints,
    tuning_jobs_have_no_debugger,
    what_restarts_has_a_checkpoint,
)
from launcher.rules.job.host_rules import (
    alternatives_need_retries,
    compiled_training_is_compared,
    compiler_is_maintained,
    compiler_knows_its_gpus,
    device_rdma_only_where_it_is,
    efa_is_not_turned_off,
    hosts_are_of_ultra_servers,
    image_has_the_toolkit,
    image_is_in_ecr,
    image_of_aws_is_known,
    image_uses_the_gpus,
    known_alternatives,
    known_instance_type,
    max_wait_needs_spot,
    no_accelerators_idle_without_a_launcher,
    no_debugging_in_a_normal_run,
    no_obsolete_environment,
    one_process_per_accelerator,
    plugin_is_found,
    settings_are_left_to_the_plugin,
    several_hosts_have_efa,
    volume_has_a_meaning,
    waiting_includes_running,
    warm_pools_are_not_spot,
    workers_have_their_cpus,
)
from launcher.rules.job.subject import JobSubject, SourceSubject

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
    a_network_has_subnets_and_groups,
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
    buckets_are_named_by_the_jobs_region,
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
    nothing_hides_the_boot,
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
    nothing_hides_the_boot,
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
