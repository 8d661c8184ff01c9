"""The rules on how a script reads its data."""

from __future__ import annotations

from launcher.rules.script.samplers import (
    samplers_are_used,
    samplers_count_all_ranks,
    samplers_share_their_seed,
    samplers_stand_without_shuffle,
    training_data_is_split,
)

RULES = (
    training_data_is_split,
    samplers_stand_without_shuffle,
    samplers_are_used,
    samplers_count_all_ranks,
    samplers_share_their_seed,
)
