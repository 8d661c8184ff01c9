"""Launches on emulated SageMaker: the fixtures of its backend."""

from __future__ import annotations

from tests.backends.sagemaker.conftest import aws, backend, clients, credentials, plan_of, script

__all__ = ["aws", "backend", "clients", "credentials", "plan_of", "script"]
