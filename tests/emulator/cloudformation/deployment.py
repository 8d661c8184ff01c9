"""Creating and updating a stack: everything in the new template stands in the end, or all is as before.

The order is CloudFormation's. First resources are made, changed and made anew, each after those that it
needs. Then the outputs are taken, and exports that others import must be as they were. Only when all that
went well comes the cleanup, which deletes what was replaced or is no longer declared; whatever fails there
is left behind, and the stack is complete all the same. A failure before the cleanup takes everything back.
"""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

from tests.emulator.cloudformation.account import Account
from tests.emulator.cloudformation.kinds.kind import Kind, NotEmulated, Refused, Resource, kind_of
from tests.emulator.cloudformation.replacement import create_only_changes, fixed_name
from tests.emulator.cloudformation.stacks import Output, Stack, Stacks
from tests.emulator.cloudformation.template import Scope, Unresolved, in_order, resolve

# What a stack reports as the reason of a failure; anything else is a mistake of the emulator.
FAILURES = (ClientError, NotEmulated, Refused, Unresolved)


class Failed(Exception):
    """The operation cannot go on; the message is the reason that the stack tells."""


@dataclass(frozen=True)
class Wanted:
    """The new state of a stack."""

    template_body: str
    template: dict[str, Any]
    given_parameters: dict[str, str]
    parameters: dict[str, Any]
    tags: dict[str, str]


class Deployment:
    """One creation or update of a stack."""

    def __init__(self, stacks: Stacks, stack: Stack, wanted: Wanted) -> None:
        self.stacks, self.stack, self.wanted = stacks, stack, wanted
        self.account = stacks.account
        self.before = {} if stack.status == "REVIEW_IN_PROGRESS" else stack.declared
        self.declared: dict[str, Any] = wanted.template["Resources"]
        self.resources = dict(stack.resources)
        self.replaced: list[tuple[str, Resource]] = []
        self.undo: list[Callable[[], None]] = []
        self.scope = Scope(
            self.account, stack.id, stack.name, wanted.parameters, self.resources, self._export, self._output
        )

    def run(self) -> None:
        """Create or update; the stack's status and events tell what came of it."""
        creates = self.stack.status == "REVIEW_IN_PROGRESS"
        verb = "CREATE" if creates else "UPDATE"
        self.stack.become(f"{verb}_IN_PROGRESS", "User Initiated")
        try:
            for logical_id in in_order(self.declared):
                self._deploy(logical_id)
            outputs = self._take_outputs()
        except (Failed, *FAILURES) as failure:
            self._roll_back("ROLLBACK" if creates else "UPDATE_ROLLBACK", str(failure))
            return
        stack, wanted = self.stack, self.wanted
        gone = {name: each for name, each in self.resources.items() if name not in self.declared}
        stack.resources = {name: each for name, each in self.resources.items() if name in self.declared}
        stack.template_body, stack.template = wanted.template_body, wanted.template
        stack.given_parameters, stack.parameters = wanted.given_parameters, wanted.parameters
        stack.tags, stack.outputs, stack.imports = wanted.tags, outputs, self.scope.imported
        if not creates:
            stack.updated = datetime.now(UTC)
            stack.become("UPDATE_COMPLETE_CLEANUP_IN_PROGRESS")
            self._clean_up(gone)
        stack.become(f"{verb}_COMPLETE")

    def _deploy(self, logical_id: str) -> None:
        declared, old = self.declared[logical_id], self.resources.get(logical_id)
        type_ = declared["Type"]
        if old and self.before[logical_id]["Type"] != type_:
            raise Failed(
                "Update of resource type is not permitted. The new template modifies resource type of the "
                f"following resources: [{logical_id}]"
            )
        try:
            kind = kind_of(type_)
            properties = resolve(declared.get("Properties", {}), self.scope)
            if old is None:
                self._create(logical_id, kind, properties)
            elif old.properties != properties:
                changes = create_only_changes(self.account.region, type_, old.properties, properties)
                if changes:
                    self._replace(logical_id, kind, old, properties)
                else:
                    self._update(logical_id, kind, old, properties)
        except FAILURES as failure:
            physical_id = old.physical_id if old else ""
            reason = reason_of(failure)
            self._tell(logical_id, physical_id, f"{'UPDATE' if old else 'CREATE'}_FAILED", reason)
            raise Failed(f"The following resource(s) failed: [{logical_id}]. {reason}") from failure

    def _create(self, logical_id: str, kind: Kind, properties: dict[str, Any]) -> None:
        self._tell(logical_id, "", "CREATE_IN_PROGRESS")
        made = kind.create(self.account, chosen_name(self.stack.name, logical_id), properties)
        self.resources[logical_id] = made
        self._tell(logical_id, made.physical_id, "CREATE_COMPLETE")
        if self.declared[logical_id].get("DeletionPolicy") == "Retain":
            self.undo.append(lambda: self._tell(logical_id, made.physical_id, "DELETE_SKIPPED"))
        else:
            self.undo.append(lambda: self._remove(logical_id, kind, made))

    def _update(self, logical_id: str, kind: Kind, old: Resource, properties: dict[str, Any]) -> None:
        self._tell(logical_id, old.physical_id, "UPDATE_IN_PROGRESS")
        before, new = dict(old.properties), old.changed(properties)
        try:
            kind.update(self.account, old, properties)
        except FAILURES:
            # Half of it may be done.
            self.undo.append(lambda: kind.update(self.account, old, before))
            raise
        self.undo.append(lambda: kind.update(self.account, new, before))
        self.resources[logical_id] = new
        self._tell(logical_id, old.physical_id, "UPDATE_COMPLETE")

    def _replace(self, logical_id: str, kind: Kind, old: Resource, properties: dict[str, Any]) -> None:
        requested = "Requested update requires the creation of a new physical resource; hence creating one."
        self._tell(logical_id, old.physical_id, "UPDATE_IN_PROGRESS", requested)
        name = fixed_name(self.account.region, kind.type, old.properties, properties)
        if name is not None:
            raise Refused(
                "CloudFormation cannot update a stack when a custom-named resource requires replacing. "
                f"Rename {name} and update the stack again."
            )
        made = kind.create(self.account, chosen_name(self.stack.name, logical_id), properties)
        self.resources[logical_id] = made
        self.replaced.append((logical_id, old))
        self._tell(logical_id, made.physical_id, "UPDATE_COMPLETE")
        self.undo.append(lambda: self._remove(logical_id, kind, made))

    def _take_outputs(self) -> dict[str, Output]:
        outputs = {}
        for key, declared in self.wanted.template.get("Outputs", {}).items():
            value = resolve(declared["Value"], self.scope)
            export = resolve(declared["Export"]["Name"], self.scope) if "Export" in declared else None
            outputs[key] = Output(key, value, export, declared.get("Description"))
        taken = {name: stack for name, (stack, _) in self.stacks.exports().items() if stack is not self.stack}
        exported = {each.export: each.value for each in outputs.values() if each.export is not None}
        for name in exported:
            if name in taken:
                raise Failed(f"Export with name {name} is already exported by stack {taken[name].name}")
        for name, value in self.stack.exports.items():
            users = ", ".join(each for each in self.stacks.importers(name) if each != self.stack.name)
            if users and name not in exported:
                raise Failed(f"Export {name} cannot be deleted as it is in use by {users}")
            if users and exported[name] != value:
                raise Failed(f"Export {name} cannot be updated as it is in use by {users}")
        return outputs

    def _clean_up(self, gone: dict[str, Resource]) -> None:
        """Delete what was replaced and what is no longer declared, each before what it needs."""
        for logical_id, old in reversed(self.replaced):
            kept = self.declared[logical_id].get("UpdateReplacePolicy") == "Retain"
            self._discard(logical_id, self.declared[logical_id]["Type"], old, kept)
        for logical_id in reversed(in_order(self.before)):
            if logical_id in gone:
                kept = self.before[logical_id].get("DeletionPolicy") in ("Retain", "RetainExceptOnCreate")
                self._discard(logical_id, self.before[logical_id]["Type"], gone[logical_id], kept)

    def _discard(self, logical_id: str, type_: str, old: Resource, kept: bool) -> None:
        if kept:
            self.stack.tell(logical_id, type_, old.physical_id, "DELETE_SKIPPED")
            return
        self.stack.tell(logical_id, type_, old.physical_id, "DELETE_IN_PROGRESS")
        try:
            delete_or_find_gone(self.account, type_, old)
        except FAILURES as failure:
            self.stack.tell(logical_id, type_, old.physical_id, "DELETE_FAILED", reason_of(failure))
        else:
            self.stack.tell(logical_id, type_, old.physical_id, "DELETE_COMPLETE")

    def _roll_back(self, verb: str, reason: str) -> None:
        self.stack.become(f"{verb}_IN_PROGRESS", reason)
        for step in reversed(self.undo):
            try:
                step()
            except FAILURES as failure:
                self.stack.become(f"{verb}_FAILED", reason_of(failure))
                return
        self.stack.become(f"{verb}_COMPLETE")

    def _remove(self, logical_id: str, kind: Kind, made: Resource) -> None:
        kind.delete(self.account, made)
        self._tell(logical_id, made.physical_id, "DELETE_COMPLETE")

    def _export(self, name: str) -> Any:
        # A stack does not import from itself, but for that all exports count.
        return self.stacks.exports().get(name, (None, None))[1]

    def _output(self, region: str, stack_name: str, key: str) -> Any:
        return Stacks.of(self.account.id, region).output(stack_name, key)

    def _tell(self, logical_id: str, physical_id: str, status: str, reason: str | None = None) -> None:
        self.stack.tell(logical_id, self.declared[logical_id]["Type"], physical_id, status, reason)


def reason_of(failure: Exception) -> str:
    """What an event says of a failure."""
    if isinstance(failure, ClientError):
        return f"{failure.response['Error']['Code']}: {failure.response['Error']['Message']}"
    return f"not emulated: {failure}" if isinstance(failure, NotEmulated) else str(failure)


def delete_or_find_gone(account: Account, resource_type: str, old: Resource) -> None:
    """Delete a resource; one that is no longer there counts as deleted, as in CloudFormation."""
    try:
        kind_of(resource_type).delete(account, old)
    except ClientError as failure:
        code = failure.response["Error"]["Code"]
        if "NotFound" not in code and not code.startswith("NoSuch"):
            raise


def chosen_name(stack_name: str, logical_id: str) -> str:
    """The name that CloudFormation gives a resource; short enough for a bucket, whose limit is the lowest."""
    suffix = "".join(random.choices(string.ascii_letters + string.digits, k=12))
    return f"{stack_name[:24]}-{logical_id[:24]}-{suffix}"
