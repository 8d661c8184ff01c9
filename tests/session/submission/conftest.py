"""Launches on emulated SageMaker: the fixtures of its backend."""

from __future__ import annotations

from tests.backends.sagemaker.conftest import backend, clients, credentials, plan_of, script

__all__ = ["backend", "clients", "credentials", "plan_of", "script"]
