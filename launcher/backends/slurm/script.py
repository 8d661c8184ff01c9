"""The sbatch script of a run: text that a person can read, made of the plan alone.

sbatch starts it on the first node. There it makes sure that the run is this job's, says where the hosts
meet, and has srun start it once more on each node, with the word `host`: that part is the container of a
host, and starts the same boot as SageMaker and `--local` do. What has become of the run it writes down in
the run's folder, so that neither an accounting database nor the controller's memory is needed.

Source of options and signals: Slurm's manual pages sbatch(1), srun(1) and scancel(1), and the behaviour of
Slurm 22.05 in tests/backends/slurm.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from pathlib import Path

from launcher.backends.interface import BackendError, UnusablePlan
from launcher.backends.local.files import ROOT_VARIABLE
from launcher.backends.local.layout import (
    RENDEZVOUS_VARIABLE,
    boot_command,
    debugging_here,
    job_variables,
)
from launcher.backends.local.start import HERE_VARIABLE
from launcher.backends.slurm.records import CLAIM_NAME, EVENTS_NAME, prefix_on_s3
from launcher.backends.slurm.states import notice_seconds
from launcher.cluster.instances import instance_facts
from launcher.frozen import frozen
from launcher.jobs.job_sections import Slurm
from launcher.jobs.script_inputs import CHECKPOINT_URI_VARIABLE
from launcher.planning.finished_request import HOST_TOKEN_VARIABLE
from launcher.planning.request_view import EFA_OPTION, RequestView
from launcher.planning.training_plan import TrainingPlan

SCRIPT_NAME = "job.sbatch"
"""The script in the run's folder, which each node reads there."""

TOKEN_NAME = "token"
"""In the run's folder: what only its hosts know."""

PEER_SECONDS = 5
"""For so long a host that failed waits before it ends, after which srun ends the others: until then they may
see for themselves what is wrong, and say so."""

_ROOT = "\1"
"""Stands for a host's own folder until the text is written; no value can hold it."""


@frozen
class ScriptParts:
    """What a script is made of: the run's `folder` on the shared folder, its request, what the job file says
    of Slurm, and of the environment (`given`); `gpus` of each host, and the Python that runs the boot."""

    folder: Path
    request: RequestView
    section: Slurm
    gpus: int
    python: str
    given: Mapping[str, str]

    @property
    def hosts(self) -> int:
        """How many there are."""
        return self.request.hosts or 1


def python_of(section: Slurm) -> str:
    """The Python that the section names: as it is, in the environment whose folder it is, or the image's."""
    if section.python is None:
        return "python3"
    path = Path(section.python)
    return str(path if path.name.startswith("python") else path / "bin" / "python")


def script_of(plan: TrainingPlan) -> str:
    """The script that a submission of the plan gives to sbatch.

    Raises BackendError for what no script can hold.
    """
    section = plan.slurm
    if plan.view is None or plan.spec is None or section is None:
        raise UnusablePlan
    parts = ScriptParts(
        run_folder(section) / str(plan.name),
        plan.view,
        section,
        gpus_of(section, plan.view.instance_type),
        python_of(section),
        plan.spec.environment,
    )
    return render_script(parts)


def run_folder(section: Slurm) -> Path:
    """The folder of all runs on the shared folder."""
    return Path(section.shared) / "slipway"


def gpus_of(section: Slurm, instance_type: str | None) -> int:
    """How many GPUs each host is asked for: as the section says, else those of the type it stands for."""
    if section.gpus is not None:
        return section.gpus
    facts = instance_facts(instance_type or "")
    return facts.accelerators if facts is not None and facts.has_gpus else 0


_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def render_script(parts: ScriptParts) -> str:
    """The text of the script. Raises BackendError for what no script can hold."""
    for name, value in parts.request.environment.items():
        if not _VARIABLE.fullmatch(name) or "\0" in value:
            raise BackendError(
                f"{name!r} in `environment` cannot be a variable of a shell script, as Slurm's jobs are.",
                "Give it a name of letters, digits and underscores.",
            )
    values = {
        "OPTIONS": "\n".join(f"#SBATCH {option}" for option in _options(parts)),
        "NAME": str(parts.request.name),
        "RUN": shlex.quote(str(parts.folder)),
        "SCRIPT": SCRIPT_NAME,
        "CLAIM": CLAIM_NAME,
        "EVENTS": EVENTS_NAME,
        "TOKEN": TOKEN_NAME,
        "TOKEN_VARIABLE": HOST_TOKEN_VARIABLE,
        "ROOT_VARIABLE": ROOT_VARIABLE,
        "RENDEZVOUS_VARIABLE": RENDEZVOUS_VARIABLE,
        "PORT": shlex.quote(parts.request.environment.get("MASTER_PORT", "")),
        "SRUN": " ".join(map(shlex.quote, _srun(parts))),
        "ENVIRONMENT": "\n".join(
            f"  export {name}={_word(value)}" for name, value in _environment(parts).items()
        ),
        "BOOT": " ".join(map(_word, _boot(parts))),
        "PEERS": str(PEER_SECONDS),
    }
    template = Path(__file__).with_name(SCRIPT_NAME).read_text("utf-8")
    # In one go: what a value holds is not looked at again.
    return _MARK.sub(lambda mark: values[mark[1]], template)


_MARK = re.compile(r"@([A-Z_]+)@")


def _options(parts: ScriptParts) -> list[str]:
    section, batch_log = parts.section, parts.folder / "slurm" / "log"
    asked = {
        "job-name": parts.request.name,
        "nodes": parts.hosts,
        "ntasks-per-node": 1,
        "time": _time(parts.request.max_runtime_seconds),
        "partition": section.partition,
        "account": section.account,
        "qos": section.qos,
        "constraint": section.constraint,
        "exclude": ",".join(section.exclude) or None,
        "gpus-per-node": parts.gpus or None,
        "cpus-per-task": section.cpus,
        # Without a word about memory some clusters give a share, and kill what takes more.
        "mem": 0 if section.memory is None else f"{section.memory // 2**20}M",
        "chdir": parts.folder,
        "output": batch_log,
        "open-mode": "append",
        "signal": f"B:TERM@{notice_seconds(parts.request.max_runtime_seconds)}",
    }
    whole = [] if section.cpus or section.memory else ["--exclusive"]
    return [
        *(f"--{name}={shlex.quote(str(value))}" for name, value in asked.items() if value is not None),
        *whole,
        "--requeue",
    ]


def _time(seconds: int) -> str:
    """A time limit as sbatch takes it, in whole minutes."""
    minutes = -(-seconds // 60)
    return f"{minutes // 1440}-{minutes % 1440 // 60:02}:{minutes % 60:02}:00"


def _srun(parts: ScriptParts) -> list[str]:
    """srun without the script: one task on each node, on all of its CPUs, ended where another one failed."""
    words = ["srun", "--ntasks-per-node=1", "--kill-on-bad-exit=1", "--cpu-bind=none"]
    if parts.section.cpus:
        # Since Slurm 22.05 srun does not take it from the job.
        words.append(f"--cpus-per-task={parts.section.cpus}")
    if parts.section.image:
        mounts = [parts.section.shared, *parts.section.inputs.values()]
        words += [
            f"--container-image={parts.section.image}",
            "--container-mounts=" + ",".join(f"{each}:{each}" for each in dict.fromkeys(mounts)),
        ]
    return words


def _environment(parts: ScriptParts) -> dict[str, str]:
    request, devices = parts.request, {"CUDA_VISIBLE_DEVICES": str(parts.gpus or "")}
    stored = prefix_on_s3(request)
    return {
        **job_variables(request, Path(_ROOT), parts.folder),
        **({} if stored is None else {CHECKPOINT_URI_VARIABLE: stored}),
        **debugging_here(request, devices, parts.given),
        # sbatch hands the environment of who submits on to the nodes, and with it what these name.
        **({HERE_VARIABLE: "1"} if request.secrets else {}),
    }


def _boot(parts: ScriptParts) -> list[str]:
    # What a container's image lacks is installed in it, as on SageMaker; into a shared Python nothing is.
    command = boot_command(parts.request, Path(_ROOT), parts.python, installs=parts.section.image is not None)
    facts = instance_facts(parts.request.instance_type or "")
    if facts is None or not facts.has_efa:
        return command
    # SageMaker attaches all of them; whoever starts hosts for Slurm may have forgotten some.
    own = command.index("--") if "--" in command else len(command)
    return [*command[:own], EFA_OPTION, str(facts.efa_interfaces), *command[own:]]


def _word(text: str) -> str:
    """A word for the shell; the host's own folder in it is the shell's variable."""
    pieces = [shlex.quote(piece) if piece else "" for piece in text.split(_ROOT)]
    return f'"${ROOT_VARIABLE}"'.join(pieces) or "''"
