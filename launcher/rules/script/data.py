"""The rules on how a script reads its data."""

from __future__ import annotations

from launcher.rules.script.channels import channels_are_there
from launcher.rules.script.cpus import workers_have_cpus
from launcher.rules.script.downloads import one_rank_downloads
from launcher.rules.script.epochs import samplers_know_the_epoch
from launcher.rules.script.listings import listings_are_sorted
from launcher.rules.script.samplers import (
    samplers_are_used,
    samplers_count_all_ranks,
    samplers_share_their_seed,
    samplers_stand_without_shuffle,
    training_data_is_split,
)
from launcher.rules.script.shards import shards_are_equally_many, shuffles_before_a_cut_agree
from launcher.rules.script.workers import workers_are_there, workers_leave_the_devices_alone

RULES = (
    training_data_is_split,
    samplers_stand_without_shuffle,
    samplers_are_used,
    samplers_count_all_ranks,
    samplers_share_their_seed,
    samplers_know_the_epoch,
    listings_are_sorted,
    shards_are_equally_many,
    shuffles_before_a_cut_agree,
    workers_are_there,
    workers_leave_the_devices_alone,
    one_rank_downloads,
)

JOB_RULES = (workers_have_cpus, channels_are_there)
