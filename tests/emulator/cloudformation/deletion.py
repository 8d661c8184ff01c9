"""Deleting a stack: each resource before what it needs, as far as the services let it."""

from __future__ import annotations

from collections.abc import Collection

from tests.emulator.cloudformation.deployment import FAILURES, delete_or_find_gone, reason_of
from tests.emulator.cloudformation.stacks import Stack, Stacks
from tests.emulator.cloudformation.template import in_order, needs


def delete(stacks: Stacks, stack: Stack, retained: Collection[str] = ()) -> None:
    """Delete a stack; its status and events tell what came of it.

    What a resource that could not be deleted needs is not tried; the rest goes all the same, but for what is
    `retained`, whatever its policy says.
    """
    stack.become("DELETE_IN_PROGRESS", "User Initiated")
    for export in stack.exports:
        if users := stacks.importers(export):
            reason = f"Export {export} cannot be deleted as it is in use by {', '.join(users)}"
            stack.become("DELETE_FAILED", reason)
            return
    failed: list[str] = []
    needed: set[str] = set()
    for logical_id in reversed(in_order(stack.declared)):
        if logical_id not in stack.resources:
            continue
        declared, resource = stack.declared[logical_id], stack.resources[logical_id]
        if logical_id in needed:
            needed.update(needs(stack.declared, logical_id))
        elif logical_id in retained or _is_kept(declared):
            stack.tell(logical_id, declared["Type"], resource.physical_id, "DELETE_SKIPPED")
            del stack.resources[logical_id]
        else:
            stack.tell(logical_id, declared["Type"], resource.physical_id, "DELETE_IN_PROGRESS")
            try:
                delete_or_find_gone(stacks.account, declared["Type"], resource)
            except FAILURES as failure:
                reason = reason_of(failure)
                stack.tell(logical_id, declared["Type"], resource.physical_id, "DELETE_FAILED", reason)
                failed.append(logical_id)
                needed.update(needs(stack.declared, logical_id))
            else:
                stack.tell(logical_id, declared["Type"], resource.physical_id, "DELETE_COMPLETE")
                del stack.resources[logical_id]
    if failed:
        names = ", ".join(sorted(failed))
        stack.become("DELETE_FAILED", f"The following resource(s) failed to delete: [{names}]. ")
        return
    stack.outputs, stack.imports = {}, set()
    stack.become("DELETE_COMPLETE")


def _is_kept(declared: dict[str, object]) -> bool:
    return declared.get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")
