"""The average of all ranks' gradients, outside of a backward."""

from __future__ import annotations

from typing import Any

from slipway.agreement.group import SideGroup

BUCKET = 25 * 2**20
"""Bytes that are sent at once, as DistributedDataParallel's `bucket_cap_mb` has it."""


def average_gradients(model: Any, agreement: SideGroup) -> None:
    """Average the gradients of a DistributedDataParallel model over its ranks, in its own group.

    A parameter that no rank used keeps none; where only some did, the others count as zeros, as there.
    """
    import torch
    import torch.distributed as dist

    parameters = [one for one in model.module.parameters() if one.requires_grad]
    used = agreement.any_of([one.grad is not None for one in parameters])
    gradients = []
    for parameter, is_used in zip(parameters, used):
        if is_used and parameter.grad is None:
            parameter.grad = torch.zeros_like(parameter)
        if is_used:
            gradients.append(parameter.grad)
    group = model.process_group
    for bucket in _buckets(gradients):
        together = torch.cat([gradient.reshape(-1) for gradient in bucket])
        together.div_(agreement.world_size)
        dist.all_reduce(together, group=group)
        for gradient, averaged in zip(bucket, together.split([one.numel() for one in bucket])):
            gradient.copy_(averaged.view_as(gradient))


def _buckets(gradients: list[Any]) -> list[list[Any]]:
    """Neighbours of one type and device, up to BUCKET bytes together; a larger one is alone."""
    buckets: list[list[Any]] = []
    size = 0
    for gradient in gradients:
        own = gradient.numel() * gradient.element_size()
        last = buckets[-1][-1] if buckets else None
        alike = last is not None and (last.dtype, last.device) == (gradient.dtype, gradient.device)
        if alike and size + own <= BUCKET:
            buckets[-1].append(gradient)
            size += own
        else:
            buckets.append([gradient])
            size = own
    return buckets
