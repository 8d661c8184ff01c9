"""A tuning job of twenty training jobs, for the rules that judge one."""

from __future__ import annotations

TUNING = {
    "objective": {"metric": "loss", "goal": "minimize", "regex": "loss=([0-9.]+)"},
    "ranges": {"lr": {"min": 0.1, "max": 0.2}},
    "max_jobs": 20,
}
