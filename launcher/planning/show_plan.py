"""A plan as people see it: without the values of variables and credentials, and beside another run.

Where the plan that is sent has the values of variables, people see the variables' names; what was found to be
a credential is masked. So are the job, the request, what pip installs on each host before the script starts,
and what two runs are held against each other by.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, replace
from typing import Any

from launcher.failure_modes import job_file
from launcher.failure_modes.model import Finding, Path
from launcher.frozen import frozen
from launcher.jobs.job_sections import Code
from launcher.jobs.specification import Strategy
from launcher.planning.request import job_file_path
from launcher.planning.request_view import Request, RequestView, S3Channel
from launcher.planning.strategies.toolkit import COMPILER_HYPERPARAMETER
from launcher.planning.training_plan import TrainingPlan
from launcher.source.tree import SourceTree
from launcher.text.values import HIDDEN, MASK, credential_in, without_credentials

MaskValue = Callable[[Any, Path], Any]
"""From a value and its place to the value as it is shown."""


def mask_text(plan: TrainingPlan, text: str, *paths: Path) -> str:
    """A text about a plan, as it is shown; `paths` are the fields of the job file that it speaks of."""
    name = plan.name
    if name:
        # All that is made from the name has it: prefixes, checkpoints, the name of the code.
        text = text.replace(name, plan.substitutions.shown(name, ("name",)))
    return find_credentials(plan).text(plan.substitutions.shown(text, *paths))


def mask_job(plan: TrainingPlan) -> dict[str, Any]:
    """The resolved job, as it is shown."""
    credentials = find_credentials(plan)

    def shown(value: Any, path: Path) -> Any:
        return credentials.value(value, plan.substitutions.value(value, path), path)

    job: dict[str, Any] = _map_texts(plan.job, (), shown, credentials.key)
    return job


def mask_request(plan: TrainingPlan) -> Request | None:
    """The request, as it is shown: what is sent, but for the values of variables and credentials."""
    request, credentials = plan.request, find_credentials(plan)
    if request is None or not (plan.substitutions.made or credentials):
        return request

    def shown(value: Any, place: Path) -> Any:
        origin = job_file_path(place, request)
        if isinstance(value, str):
            return credentials.value(value, mask_text(plan, value, origin), origin)
        return plan.substitutions.value(value, origin)

    made: Request = _map_texts(
        request, (), shown, lambda key, at: credentials.key(key, job_file_path(at, request))
    )
    return made


def mask_earlier_request(plan: TrainingPlan, earlier: Request) -> Request:
    """An earlier request under this plan's name, beside the plan's own: what is alike is shown alike.

    In environment and hyperparameters, another value than the plan's variable or credential is hidden:
    it was that variable's before, or such a credential. So is what looks like one by itself.
    """
    now, now_shown = plan.request or {}, mask_request(plan) or {}
    name = str(RequestView(earlier).name)

    def shown(value: Any, place: Path) -> Any:
        sent, seen = _value_at(now, place), _value_at(now_shown, place)
        if isinstance(value, str):
            # The unique name differs from job to job, and with it all that is made from it.
            value = value.replace(name, str(plan.name))
        if value in (sent, seen):
            return seen
        if seen != sent and job_file_path(place, now)[:1] in (("environment",), ("hyperparameters",)):
            return HIDDEN
        if isinstance(value, str) and credential_in(value):
            return HIDDEN
        return mask_text(plan, value) if isinstance(value, str) else value

    made: Request = _map_texts(earlier, (), shown)
    return made


def _map_texts(value: Any, place: Path, shown: MaskValue, named: MaskValue = lambda key, _: key) -> Any:
    """The value with all within it as `shown` says, and the keys as `named` does."""
    if isinstance(value, dict):
        return {
            named(key, (*place, key)): _map_texts(item, (*place, key), shown, named)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_map_texts(item, (*place, index), shown, named) for index, item in enumerate(value)]
    return shown(value, place)


def _value_at(value: Any, place: Path) -> Any:
    """What stands at a place; None where there is none."""
    for key in place:
        try:
            value = value[key]
        except (KeyError, IndexError, TypeError):
            return None
    return value


# What of a plan was found to be a credential: it is masked wherever the plan is shown.


_ARGUMENTS = ("code", "arguments")
_FROM_A_VARIABLE = re.compile(r"\$\{\w+\}")
_SHORTEST_ANYWHERE = 8
"""Characters. A shorter value stands in other texts by chance; in its own field it is masked all the same."""


@frozen
class PlanCredentials:
    """The credentials of a plan.

    `places` are their fields in the job file, `words` the arguments that hold one with what is shown of each,
    `values` the texts that are masked wherever they stand, the longest first.
    """

    places: frozenset[Path]
    words: dict[str, str]
    values: tuple[str, ...]

    def __bool__(self) -> bool:
        return bool(self.places)

    def value(self, written: Any, shown: Any, path: Path) -> Any:
        """A value as it is shown: `written` is the plan's, `shown` the same with the names of variables.

        Where nothing but a variable's name is shown there is nothing to mask.
        """
        if isinstance(shown, str) and _FROM_A_VARIABLE.fullmatch(shown):
            return shown
        if path[: len(_ARGUMENTS)] == _ARGUMENTS:
            return self.words.get(str(written), shown)
        if path[:2] in self.places:
            return MASK
        return self.text(shown) if isinstance(shown, str) else shown

    def text(self, text: str) -> str:
        """A text about the plan, without the values."""
        for value in self.values:
            text = text.replace(value, MASK)
        return text

    def finding(self, found: Finding) -> Finding:
        """The finding without the values."""
        return replace(found, message=self.text(found.message), remedy=self.text(found.remedy))

    def key(self, name: Any, path: Path) -> Any:
        """The name of a field at `path`, which may be a credential itself."""
        return MASK if path in self.places and credential_in(str(name)) else name


def find_credentials(plan: TrainingPlan) -> PlanCredentials:
    """The credentials of a plan, also those that the user accepted on purpose."""
    found = [each.path for each in plan.findings if each.code == job_file.CREDENTIAL.code and each.path]
    words = dict(_words(plan, found))
    given = (text for path in found if path[:2] != _ARGUMENTS for text in _texts(_given(plan.job, path)))
    values = {text for text in given if len(text) >= _SHORTEST_ANYWHERE}
    return PlanCredentials(frozenset(found), words, tuple(sorted(values, key=len, reverse=True)))


def _words(plan: TrainingPlan, found: list[Path]) -> Iterator[tuple[str, str]]:
    """The arguments with a credential: of `--token=VALUE` the name stays, of `--token VALUE` the option."""
    arguments: list[str] = plan.job.get("code", {}).get("arguments", [])
    for path in found:
        if path[:2] != _ARGUMENTS:
            continue
        place = int(path[2])
        word = arguments[place]
        name, equals, _ = word.partition("=")
        if word.startswith("-") and not credential_in(name):
            if equals:
                yield word, f"{name}={MASK}"
            elif place + 1 < len(arguments):
                yield arguments[place + 1], MASK
        else:
            yield word, MASK


def _texts(value: Any) -> Iterator[str]:
    """All texts in a value: which of those in a structure is the credential is not asked."""
    if isinstance(value, dict | list):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _texts(item)
    elif isinstance(value, str):
        yield value


def _given(job: Any, path: Path) -> Any:
    for key in path:
        job = job.get(key) if isinstance(job, dict) else None
    return job


# What is installed before the script starts, by whom and from where.


CODE_ARTIFACT_VARIABLE = "CA_REPOSITORY_ARN"
"""The environment variable with the CodeArtifact repository that packages come from, which the images'
toolkit reads (aws/sagemaker-training-toolkit, modules.py) and the boot as well."""

_PIP_INDEX_VARIABLE = "PIP_INDEX_URL"


@frozen
class RequirementsToInstall:
    """What pip installs on each host: the lines of the file, as they may be shown.

    `installed_by` is `boot` or `toolkit`, the one of AWS's images; `index` is where the packages come from,
    in words, `links` are further places.
    """

    file: str
    installed_by: str
    packages: tuple[str, ...]
    index: str
    links: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """In the shape that `plan --output json` prints."""
        return {**asdict(self), "packages": list(self.packages), "links": list(self.links)}


def requirements_for_boot(code: Code, source: SourceTree) -> str | None:
    """The file that the boot is told to install: one that is packed, or one that cannot be looked for here.

    A default that is not there is nothing to install. What the user named is passed on wherever it is.
    """
    unseen = code.source_dir.startswith("s3://")
    if source.requirements is not None or unseen or code.requirements is not None:
        return code.requirements_file
    return None


def list_requirements(plan: TrainingPlan) -> RequirementsToInstall | None:
    """What the plan's job installs, as it is shown; None where it is nothing, or there is no request."""
    if plan.package is None or plan.view is None:
        return None
    found = plan.package.source.requirements
    if found is None:
        return None
    given = plan.view.environment
    environment = {name: mask_text(plan, value, ("environment", name)) for name, value in given.items()}
    repository = environment.get(CODE_ARTIFACT_VARIABLE)
    if found.no_index:
        index = "no index"
    elif found.index is not None:
        index = found.index
    elif repository:
        index = f"CodeArtifact, {repository}"
    else:
        index = without_credentials(environment.get(_PIP_INDEX_VARIABLE) or "PyPI")
    return RequirementsToInstall(
        file=found.file,
        installed_by="boot" if plan.with_boot else "toolkit",
        packages=tuple(each.text for each in found.packages),
        index=index,
        links=(*found.links, *found.fetched),
    )


# What two runs are held against each other by: their fields, under the names of the job file.


_OF_THE_JOB = "JOB"


def fields_of_plan(plan: TrainingPlan) -> dict[str, Any]:
    """The fields of a plan, as they are shown: those of its job file, its code, what follows in the request.

    What the plan itself chose stands below `request`.
    """
    fields = mask_job(plan)
    view = RequestView(mask_request(plan) or {})
    if plan.package is not None:
        fields["code"] = {**fields.get("code", {}), "content": plan.package.digest}
    own = fields.get("environment") or {}
    settings = {name: value for name, value in view.environment.items() if name not in own}
    fields["request"] = _without_name(view.name, {"image": view.image, "environment": settings})
    return fields


def fields_of_job(view: RequestView) -> dict[str, Any]:
    """The fields of a job that was submitted, by its request; where a job file would have had them."""
    return {
        "resources": {"instance_type": view.instance_type, "instance_count": view.hosts},
        "distribution": {"processes_per_host": view.processes_per_host},
        "image": view.image,
        "limits": {"max_runtime": view.max_runtime_seconds},
        **_without_name(
            view.name,
            {
                "code": {"uri": view.code_uri or view.code_archive},
                "hyperparameters": dict(view.hyperparameters),
                "environment": dict(view.environment),
                "inputs": {
                    channel.name: channel.uri
                    if isinstance(channel, S3Channel)
                    else f"{channel.file_system_id}:{channel.directory}"
                    for channel in view.inputs
                },
            },
        ),
    }


def plan_uses_compiler(plan: TrainingPlan) -> bool:
    """Whether a plan runs with SageMaker Training Compiler."""
    return bool(plan.job.get("distribution", {}).get("strategy") == Strategy.TORCH_XLA.value)


def job_uses_compiler(view: RequestView) -> bool:
    """Whether a job that was submitted runs with SageMaker Training Compiler."""
    return view.hyperparameters.get(COMPILER_HYPERPARAMETER, "").strip('"') == "true"


def _without_name(name: str | None, value: Any) -> Any:
    """The same with the job's unique name left out: it makes no two jobs differ."""
    if isinstance(value, Mapping):
        return {key: _without_name(name, item) for key, item in value.items()}
    return value.replace(name, _OF_THE_JOB) if name and isinstance(value, str) else value


# Two requests side by side: what a change of the job file changes in what is sent.


def request_diff(earlier: Request, later: Request) -> list[str]:
    """The lines of a unified diff of two requests; empty where they are the same job.

    The jobs' own unique names, and what is made from them, do not count as a difference.
    """
    import difflib  # here: what is only checked is not compared

    lines = difflib.unified_diff(_lines(earlier), _lines(later), "earlier", "now", lineterm="", n=2)
    return list(lines)


def _lines(request: Request) -> list[str]:
    text = json.dumps(request, indent=2, sort_keys=True, ensure_ascii=False)
    return text.replace(str(RequestView(request).name), "JOB").splitlines()
