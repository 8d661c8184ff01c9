"""A job file of a batch script of Slurm: its `#SBATCH` lines, its variables, and what it starts.

Source of options: Slurm documentation, sbatch (24.11).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from launcher.cluster.names import MAX_NAME_LENGTH
from launcher.drafts.batch.start_line import fields_of_start, questions_of_start
from launcher.drafts.job_draft import DraftDefault, DraftField, DraftNote, DraftQuestion, JobDraft, SourceLine
from launcher.jobs.job_sections import HOST_PATH, PYXIS_IMAGE, SLURM_WORD
from launcher.source.start_line import RANK_STARTERS, StartLine
from launcher.source.start_script import BatchJob, BatchScript, gpus_per_host, hosts_asked_for

Part = DraftField | DraftQuestion

_TIME = re.compile(r"(?:(?P<days>\d+)-)?(?P<first>\d+)(?::(?P<second>\d+))?(?::(?P<third>\d+))?")

_HOST_PATH, _SLURM_WORD, _IMAGE = map(re.compile, (HOST_PATH, SLURM_WORD, PYXIS_IMAGE))
_MEMORY = re.compile(r"(?P<number>[1-9]\d*)(?P<unit>[kKmMgGtT]?)[bB]?")

_OF_RANKS = frozenset(
    {
        "MASTER_ADDR", "MASTER_PORT", "WORLD_SIZE", "RANK", "LOCAL_RANK", "NODE_RANK", "NNODES", "NUM_NODES",
        "GPUS_PER_NODE", "LOCAL_WORLD_SIZE",
    }
)  # fmt: skip
"""Variables that whoever starts the ranks sets."""

_OF_THE_MACHINE = re.compile(
    r"PATH|LD_LIBRARY_PATH|LD_PRELOAD|PYTHONPATH|LIBRARY_PATH|CPATH|CUDA_HOME|CUDA_PATH|HOME|USER|SHELL|TMPDIR"
    r"|CONDA\w*|VIRTUAL_ENV|SLURM_\w+|SBATCH_\w+|SRUN_\w+|HOSTNAMES?|COUNT_NODE|NODES|HEAD_NODE\w*|nodes\w*|head\w*"
)
"""Variables that say where things lie on the cluster's own machines, or what Slurm tells."""


def _cpus_per_host(options: Mapping[str, tuple[str, int]]) -> int | None:
    """The CPUs of each host that the script asks for: those of a task, for each of its tasks."""
    cpus = options.get("cpus-per-task", ("", 0))[0]
    tasks = options.get("ntasks-per-node", options.get("tasks-per-node", ("", 0)))[0]
    all_tasks, hosts = options.get("ntasks", ("", 0))[0], hosts_asked_for(options)
    if not tasks and (not all_tasks or (hosts is not None and hosts[0] == all_tasks)):
        tasks = "1"
    return int(cpus) * int(tasks) if cpus.isdecimal() and tasks.isdecimal() and int(cpus) else None


def draft_of_batch_job(script: BatchScript, job: BatchJob, *, name: str, origin: str) -> JobDraft:
    """The job file of one of the trainings that a script starts; `name` is for a job without one."""
    lost: list[str] = []
    parts = [
        *_name(script, name),
        *_hosts(script, job),
        *_program(script, job),
        *_environment(script, job, lost),
        *_limits(script),
    ]
    fields = tuple(each for each in parts if isinstance(each, DraftField))
    questions = tuple(each for each in parts if isinstance(each, DraftQuestion))
    told = f"Left out, as hosts have their own or only the script uses it: {', '.join(lost)}." if lost else ""
    defaults = tuple(_of_slurm(script, job))
    note = DraftNote(
        ("slurm",),
        "For `launch --slurm`: uncomment this section, and fill in what has no value.",
    )
    return JobDraft(" ".join(filter(None, (origin, told))), fields, questions, defaults, (note,))


def _of_slurm(script: BatchScript, job: BatchJob) -> Iterator[DraftDefault]:
    """The section of what Slurm is asked for, commented out: as it stands the job is one for SageMaker."""
    given = {name: text for name, (text, _) in script.options.items()}
    for name in ("partition", "account", "qos", "constraint"):
        if _SLURM_WORD.fullmatch(given.get(name, "")):
            yield DraftDefault(("slurm", name), given[name])
    if nodes := [each for each in _nodes(given.get("exclude", "")) if _SLURM_WORD.fullmatch(each)]:
        yield DraftDefault(("slurm", "exclude"), nodes)
    yield DraftDefault(("slurm", "shared"), None, "a folder that this machine and all nodes see")
    image = job.start.image
    if image is not None and not image.is_open and _IMAGE.fullmatch(image.text):
        yield DraftDefault(("slurm", "image"), image.text)
    elif script.python is not None and _HOST_PATH.fullmatch(script.python):
        yield DraftDefault(("slurm", "python"), script.python)
    else:
        yield DraftDefault(("slurm", "python"), None, "the Python, or its virtual environment, on all nodes")
    gpus = gpus_per_host(script.options)
    if gpus is not None:
        yield DraftDefault(("slurm", "gpus"), gpus)
    cpus = _cpus_per_host(script.options)
    if cpus is not None:
        yield DraftDefault(("slurm", "cpus"), cpus)
    memory = _MEMORY.fullmatch(given.get("mem", ""))
    if memory is not None:
        # Slurm's units are powers of 1,024, and without one it counts mebibytes.
        yield DraftDefault(("slurm", "memory"), f"{memory['number']}{(memory['unit'] or 'M').upper()}iB")


def _nodes(text: str) -> Iterator[str]:
    """The names in a list of nodes, which may hold ranges: `a,b[1,3-5]` has two."""
    name, depth = "", 0
    for sign in text:
        depth += {"[": 1, "]": -1}.get(sign, 0)
        if sign == "," and depth == 0:
            yield name
            name = ""
        else:
            name += sign
    if name:
        yield name


def _name(script: BatchScript, otherwise: str) -> Iterator[Part]:
    given = script.options.get("job-name")
    text = re.sub(r"[^a-zA-Z0-9]+", "-", given[0] if given else otherwise).strip("-")
    name = text[:MAX_NAME_LENGTH].rstrip("-") or "job"
    yield DraftField(("name",), name, "", SourceLine(given[1]) if given else None)


def _hosts(script: BatchScript, job: BatchJob) -> Iterator[Part]:
    gpus = gpus_per_host(script.options)
    example = {None: "ml.p5.48xlarge", 8: "ml.p5.48xlarge", 1: "ml.g5.xlarge"}.get(gpus, "ml.g5.12xlarge")
    had = "" if gpus is None else f" Those of the script have {gpus} GPU{'s' if gpus > 1 else ''}."
    place = next((script.options[key] for key in ("partition", "constraint") if key in script.options), None)
    had += f" It asks for {place[0]}." if place else ""
    line = SourceLine(place[1]) if place else None
    yield DraftQuestion(("resources", "instance_type"), f"on which hosts?{had}", example, line)
    path = ("resources", "instance_count")
    given = hosts_asked_for(script.options)
    hosts = job.start.hosts
    said = None if hosts is None or not hosts.text.isdecimal() else int(hosts.text)
    if given is not None and given[0].isdecimal():
        if said is not None and said != int(given[0]):
            text = f"how many hosts? Slurm gives {given[0]}, and the ranks are started on {said}"
            yield DraftQuestion(path, text, int(given[0]), SourceLine(job.line))
        else:
            yield DraftField(path, int(given[0]), "", SourceLine(given[1]))
    elif given is not None:
        yield DraftQuestion(path, f"how many hosts? The script has {given[0]}", 2, SourceLine(given[1]))
    elif said is not None:
        yield DraftField(path, said, "", SourceLine(job.line))
    else:
        yield DraftQuestion(
            path, "how many hosts? The script leaves it to whoever starts it", 1, SourceLine(job.line)
        )


def _program(script: BatchScript, job: BatchJob) -> Iterator[Part]:
    start, line = job.start, SourceLine(job.line)
    fields = dict(fields_of_start(start))
    if job.folder is not None and ("code", "source_dir") not in fields:
        if job.folder.is_open:
            text = f"in which folder is the code? The script goes to {job.folder.text}"
            yield DraftQuestion(("code", "source_dir"), text, "src", line)
        else:
            fields["code", "source_dir"] = job.folder.text
    for path, value in fields.items():
        yield DraftField(path, value, "", line)
    for path, text in questions_of_start(start):
        yield DraftQuestion(path, text, None, line)
    yield from _tasks(script, start, line)
    had = "" if start.image is None else f" It runs in the container {start.image.text}."
    if start.starter in RANK_STARTERS:
        yield DraftField(("framework", "name"), "pytorch")
        text = f"which version of PyTorch does the script have?{had}"
        yield DraftQuestion(("framework", "version"), text, "2.8.0")
    else:
        yield DraftQuestion(("framework", "name"), f"in an image of which framework?{had}", "pytorch")


def _tasks(script: BatchScript, start: StartLine, line: SourceLine) -> Iterator[Part]:
    """How ranks come to be where Slurm starts each of them itself."""
    if start.starter != "python":
        return
    given = (
        start.tasks.text if start.tasks is not None else script.options.get("ntasks-per-node", ("1", 0))[0]
    )
    tasks = script.options.get("ntasks", ("1", 0))[0]
    if start.by_srun and (given != "1" or tasks != "1"):
        text = (
            "how are its processes started? Slurm starts one for each task, and tells it its rank by "
            "SLURM_PROCID; torchrun does by RANK"
        )
        yield DraftQuestion(("distribution", "strategy"), text, "torchrun", line)


def _environment(script: BatchScript, job: BatchJob, lost: list[str]) -> Iterator[Part]:
    own = {name: (value, job.line) for name, value in job.environment.items()}
    for name, (value, line) in {**script.exports, **own}.items():
        if name in _OF_RANKS or name in job.uses or _OF_THE_MACHINE.fullmatch(name):
            lost.append(name)
        elif value.is_open or value.text == f"${{{name}}}":
            text = f"which value has {name}? The script has {value.text}"
            yield DraftQuestion(("environment", name), text, None, SourceLine(line))
        else:
            yield DraftField(("environment", name), value.text, "", SourceLine(line))


def _limits(script: BatchScript) -> Iterator[Part]:
    given = script.options.get("time")
    seconds = None if given is None else _seconds(given[0])
    if given is not None and seconds is not None:
        yield DraftField(("limits", "max_runtime"), seconds, "", SourceLine(given[1]))


def _seconds(text: str) -> int | None:
    """Minutes, minutes:seconds, hours:minutes:seconds, days-hours, days-hours:minutes[:seconds]."""
    found = _TIME.fullmatch(text)
    if found is None:
        return None
    numbers: Sequence[int] = [int(each) for each in (found["first"], found["second"], found["third"]) if each]
    if found["days"] is not None:
        numbers = [*numbers, 0, 0][:3]
        return ((int(found["days"]) * 24 + numbers[0]) * 60 + numbers[1]) * 60 + numbers[2] or None
    if len(numbers) == 3:
        return (numbers[0] * 60 + numbers[1]) * 60 + numbers[2] or None
    return (numbers[0] * 60 + (numbers[1] if len(numbers) == 2 else 0)) or None
