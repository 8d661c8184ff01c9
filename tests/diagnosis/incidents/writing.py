"""How the lines of a job come to lie in files: whose clock, which prefixes, torn, interleaved, shuffled."""

from __future__ import annotations

import gzip
import json
from datetime import UTC, datetime

from tests.diagnosis.incidents.job import AGENT, CPP, PER_HOST, Job, Said

STARTED = datetime(2025, 11, 21, 10, 0, 20, tzinfo=UTC).timestamp()
_TORN = 0.01


def written(job: Job) -> dict[str, bytes]:
    """The files by their paths, in any order."""
    logs: dict[str, list[tuple[float, str, bool]]] = {}
    for each in job.said:
        at = STARTED + each.at
        for line in each.lines:
            at += job.chance.uniform(0.00001, 0.0005)
            text = _with_time(job, each, line, at)
            logs.setdefault(_file(job, each), []).append((at, _prefix(job, each, at) + text, each.whole))
    if job.layout == "cloudwatch":
        return {"events.json": _events(job, logs)}
    files = [(name, _text(job, lines)) for name, lines in logs.items()]
    job.chance.shuffle(files)
    if job.layout == "gz":
        return {f"{name}.gz": gzip.compress(text, 1) for name, text in files}
    return dict(files)


def _file(job: Job, said: Said) -> str:
    host = f"algo-{said.host + 1}"
    if job.layout in ("hosts", "gz"):
        return f"{host}.log"
    if job.layout == "cloudwatch":
        return f"job/{host}-1763724000"
    if said.rank is None and job.layout in ("ranks", "log-dir"):
        return f"{host}/agent.log"
    if job.layout == "ranks":
        return f"{host}/rank_{said.rank}.log"
    if job.layout == "log-dir":
        return f"{host}/none_x1/attempt_{said.attempt}/{(said.rank or 0) % PER_HOST}/stderr.log"
    return "training.log"


def _prefix(job: Job, said: Said, at: float) -> str:
    time = ""
    if job.clock == "shipped":
        time = (
            datetime.fromtimestamp(at + job.skews[said.host], UTC).strftime("%Y-%m-%dT%H:%M:%S.%f") + "000Z "
        )
    if job.layout == "kubectl":
        return f"[pod/trainer-{said.host}/pytorch] {time}"
    if job.layout == "one" and job.hosts > 1:
        return f"algo-{said.host + 1}-x7k2p  | {time}"
    if job.layout == "mpirun" and said.rank is not None:
        return f"[1,{said.rank}]<stderr>:{time}"
    if job.layout == "srun" and said.rank is not None:
        return f"{said.rank:>{len(str(job.ranks - 1))}}: {time}"
    return time


def _with_time(job: Job, said: Said, line: str, at: float) -> str:
    now = datetime.fromtimestamp(at + job.skews[said.host], UTC)
    header = "" if job.clock == "none" or job.release < (2, 4) else f"{now.month}{now:%d %H:%M:%S.%f}000"
    agent = f"{now:%m%d %H:%M:%S.%f} 77 "
    for level in "IWE":
        line = line.replace(f"{CPP}{level} ", f"{level}{header} ").replace(
            f"{AGENT}{level} ", f"{level}{agent}"
        )
    step = {
        "iso": f"{now:%Y-%m-%d %H:%M:%S},123 - INFO - ",
        "slash": f"{now:%m/%d/%Y %H:%M:%S} - INFO - __main__ - ",
    }
    line = line.replace("\x03", step.get(job.clock, ""))
    return line.replace("\x04", f"{now:%Y-%m-%d_%H:%M:%S}").replace("\x05", f"{now:%Y-%m-%d %H:%M:%S},123")


def _text(job: Job, lines: list[tuple[float, str, bool]]) -> bytes:
    """The lines in the order in which they were printed; now and then two of them run into one."""
    lines = sorted(lines, key=lambda line: line[0])
    parts: list[str] = []
    owed = ""
    for number, (_, text, whole) in enumerate(lines):
        next_whole = number + 1 < len(lines) and lines[number + 1][2]
        torn = not whole and not next_whole and job.layout != "srun" and job.chance.random() < _TORN
        parts.append(text)
        if torn:
            owed += "\n"
        else:
            parts.append(f"\n{owed}")
            owed = ""
    return "".join([*parts, owed]).encode()


def _events(job: Job, logs: dict[str, list[tuple[float, str, bool]]]) -> bytes:
    events = [
        {
            "logStreamName": name,
            "timestamp": int(at * 1000),
            "message": text,
            "ingestionTime": int(at * 1000) + 900,
        }
        for name, lines in logs.items()
        for at, text, _ in sorted(lines, key=lambda line: line[0])
    ]
    return json.dumps({"events": events, "searchedLogStreams": []}).encode()
