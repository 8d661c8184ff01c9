"""`resources`: the hosts of a job, and how they are obtained."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_serializer, model_validator

from launcher.documents.validation import refusal
from launcher.jobs.placement import UltraServerPlacement
from launcher.jobs.values import Duration, Part

InstanceType = Annotated[str, Field(pattern=r"^ml\.[a-z0-9-]+\.[a-z0-9]+$")]
"""The form alone, such as ml.p5.48xlarge; the rules know which of them exist."""


class Capacity(Part):
    """How the hosts are obtained: on-demand, spot, or from a training plan."""

    kind: Literal["on-demand", "spot", "training-plan"] = "on-demand"
    training_plan: str | None = None

    @model_serializer
    def _as_in_the_file(self) -> str | dict[str, str | None]:
        return {"training_plan": self.training_plan} if self.training_plan else self.kind


def _capacity(value: Any) -> Any:
    if isinstance(value, str):
        if value not in ("on-demand", "spot"):
            raise ValueError(f"{value!r} is not one of on-demand, spot, {{training_plan: ARN}}")
        return {"kind": value}
    if isinstance(value, dict) and set(value) == {"training_plan"}:
        return {"kind": "training-plan", **value}
    if isinstance(value, Capacity):
        return value
    raise ValueError("write on-demand, spot, or {training_plan: ARN}")


class Resources(Part):
    """The hosts of the job: their type, their number, their storage, and how they are obtained."""

    instance_type: InstanceType = Field(description="Such as ml.p5.48xlarge.")
    instance_types: list[InstanceType] = Field(
        [], max_length=10, description="Other types, in this order, for when there is no capacity."
    )
    instance_choice: Literal["launcher", "service"] = Field(
        "launcher",
        description="Who tries `instance_types`: the launcher, in further attempts; or the service, which "
        "takes the first type that has capacity.",
    )
    instance_count: int = Field(1, ge=1, description="How many hosts.")
    volume_size_gb: int = Field(30, ge=1, description="Storage volume per host, GB.")
    capacity: Annotated[
        Capacity,
        BeforeValidator(_capacity, json_schema_input_type=Literal["on-demand", "spot"] | dict[str, str]),
    ] = Field(Capacity(), description="on-demand, spot, or {training_plan: ARN}.")
    keep_alive: Duration | None = Field(None, description="Keep a warm pool for this long.")
    placement: UltraServerPlacement | None = None
    infra_check: bool = Field(
        False,
        description="AWS tests the hosts and their network before the script starts; on by itself in an "
        "attempt after a fault of them, unless it is false here.",
    )

    @model_validator(mode="before")
    @classmethod
    def _one_group(cls, value: Any) -> Any:
        if isinstance(value, dict) and "instance_groups" in value:
            raise refusal(
                "several instance groups (heterogeneous hosts) cannot be planned yet: the number of "
                "processes is derived for hosts that are all alike",
                remedy="Give `instance_type` and `instance_count`, and split what needs other hosts into a "
                "job of its own.",
                below=("instance_groups",),
            )
        return value

    @model_validator(mode="after")
    def _service_can_choose(self) -> Resources:
        """Source: SageMaker API reference, ResourceConfig (what InstancePreferences excludes)."""
        if self.instance_choice == "launcher":
            return self
        if not self.instance_types:
            raise refusal(
                "there is nothing to choose from: `instance_types` is empty",
                remedy="Name further types in `instance_types`, or remove `instance_choice`.",
                below=("instance_choice",),
            )
        if self.capacity.kind == "spot":
            raise refusal(
                "the service chooses among types on demand alone, not among spot hosts",
                remedy="Use `capacity: on-demand`, or `instance_choice: launcher`.",
                below=("instance_choice",),
            )
        return self

    @model_validator(mode="after")
    def _different_types(self) -> Resources:
        if self.instance_types and self.capacity.training_plan:
            raise refusal(
                "a training plan holds hosts of one type, so no retry could try another with it",
                remedy="Remove `instance_types`, or use `capacity: on-demand`.",
                below=("instance_types",),
            )
        tried = [self.instance_type]
        for index, instance_type in enumerate(self.instance_types):
            if instance_type in tried:
                raise refusal(
                    f"{instance_type} is tried already, as {_ordinal(tried.index(instance_type))}",
                    remedy="Name other types only; `instance_type` is always tried first.",
                    below=("instance_types", index),
                )
            tried.append(instance_type)
        return self

    @model_validator(mode="after")
    def _can_be_placed(self) -> Resources:
        if self.placement is None:
            return self
        if self.instance_choice == "service":
            raise refusal(
                "where the service chooses the instance type, no hosts can be placed (SageMaker API, "
                "InstancePreferences)",
                remedy="Remove `placement`, or use `instance_choice: launcher`.",
                below=("placement",),
            )
        placed = sum(each.instance_count for each in self.placement.together)
        if placed > self.instance_count:
            raise refusal(
                f"{placed} hosts are to be placed, and the job has {self.instance_count}",
                remedy="Let the numbers of `together` be `instance_count` in all, or less.",
                below=("placement", "together"),
            )
        return self

    def with_infra_check(self) -> Resources:
        """The same with the health check on; as they are where the file has it off in so many words."""
        if "infra_check" in self.model_fields_set:
            return self
        return self.model_copy(update={"infra_check": True})


def _ordinal(index: int) -> str:
    return "`instance_type`" if index == 0 else f"number {index} of `instance_types`"
