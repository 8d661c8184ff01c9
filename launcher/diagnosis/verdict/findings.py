"""A root cause in words: which rank it is, with the lines that show it, how sure it is, and what else it
may have been.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import replace

from launcher.diagnosis.logs.lines import redacted, shown
from launcher.diagnosis.match.rows import ROLES
from launcher.diagnosis.model import Confidence, RankState, RootCause, Sureness
from launcher.diagnosis.signatures import SHORTLY, LineRole
from launcher.diagnosis.signs.ranks import Waiting
from launcher.diagnosis.signs.readings import Reading, Survived
from launcher.diagnosis.signs.sightings import BEFORE_ALL_LINES, Sighting
from launcher.diagnosis.verdict.incidents import reading_order
from launcher.failure_modes import checkpoints, data, model_hub, nccl, network, training_script
from launcher.failure_modes.model import Finding, Severity, Stage
from launcher.frozen import frozen
from launcher.text.values import list_some

_MOST_EVIDENCE = 4
_LONGEST_REMEDY = 1000


def describe_root_cause(root: Sighting, others: Sequence[Sighting], context: str | None) -> RootCause:
    """The root cause with its message and a few lines that show it; `others` are the signs beside it."""
    place = f" ({root.place})" if root.place else ""
    finding = root.mode.finding(
        Stage.LOG,
        shown(f"{_writer_in_words(root)}{root.what}") + place,
        remedy=_remedy(root),
        severity=Severity.ERROR,
        subject=root.subject,
    )
    mates = [sign for sign in others if sign.rank == root.rank and sign.host == root.host]
    # Under `none` the container knows the rank, and its lines do not.
    beside = [sign for sign in others if sign.rank in (root.rank, None) and sign.host == root.host]
    lines = [*_places_beside_root(root, beside), root.text]
    if context:
        lines.insert(0, context)
    lines += [sign.text for sign in mates if sign.index != BEFORE_ALL_LINES]
    evidence = list(dict.fromkeys(shown(line) for line in lines if line.strip()))
    kept = (
        evidence if len(evidence) <= _MOST_EVIDENCE else [*evidence[: _MOST_EVIDENCE - 1], shown(root.text)]
    )
    return RootCause(finding, root.rank, root.host, shown(root.text), tuple(dict.fromkeys(kept)))


def _places_beside_root(root: Sighting, mates: Sequence[Sighting]) -> tuple[str, ...]:
    """The lines that show where it happened. A reason is cut to what the service takes: the same traceback
    in the log tells more."""
    if root.index != BEFORE_ALL_LINES or root.place is None:
        return root.details
    file = root.place.rpartition(":")[0]
    return next(
        (mate.details for mate in mates if mate.details and mate.details[0].startswith(f"{file}:")),
        root.details,
    )


def group_findings(signs: Iterable[Sighting], *, warn: bool = False) -> Iterable[Finding]:
    """One finding for each failure mode: its first sign, and how many ranks or hosts have it."""
    modes: dict[str, list[Sighting]] = {}
    for sign in signs:
        modes.setdefault(sign.code, []).append(sign)
    order = sorted(modes.values(), key=lambda group: min((ROLES[sign.role], sign.code) for sign in group))
    for group in order:
        first = min(group, key=lambda sign: (ROLES[sign.role], sign.vague, *reading_order(sign)))
        ranks = sorted({sign.rank for sign in group if sign.rank is not None})
        hosts = sorted({sign.host for sign in group if sign.host})
        who = (
            f"{ranks_in_words(ranks)}: "
            if len(ranks) > 1
            else f"{len(hosts)} hosts: "
            if len(hosts) > 1
            else _writer_in_words(first)
        )
        severity = Severity.WARNING if warn and first.mode.severity is Severity.ERROR else first.mode.severity
        yield first.mode.finding(
            Stage.LOG,
            shown(f"{who}{first.what}"),
            remedy=_remedy(first),
            severity=severity,
            subject=first.subject,
        )


def warn_survived(history: Iterable[Survived]) -> Iterator[Finding]:
    """What failed and was survived, a warning for each mode; what only followed from it is left out."""
    for restarted, how in (
        (False, "training went on after it"),
        (True, "the ranks were started anew after it"),
    ):
        signs = [each.sign for each in history if each.restarted is restarted]
        telling = [sign for sign in signs if sign.role is not LineRole.CASCADE and not sign.plumbing]
        yield from group_findings(
            (replace(sign, what=f"{sign.what} (survived: {how})") for sign in telling), warn=True
        )


def _remedy(sign: Sighting) -> str | None:
    return None if sign.remedy is None else shown(sign.remedy, _LONGEST_REMEDY)


def _writer_in_words(sign: Sighting) -> str:
    """Such as `rank 3 on algo-2: `; nothing where the sign's own words begin so."""
    host = redacted(sign.host) if sign.host else None
    if sign.rank is None:
        return f"{host}: " if host else ""
    who = f"rank {sign.rank} on {host}" if host else f"rank {sign.rank}"
    return "" if sign.what.startswith(f"{who} ") else f"{who}: "


def judge_sureness(root: Sighting, rivals: Sequence[Sighting]) -> Sureness:
    """How sure the root cause is; `rivals` may have failed before it, for all that clocks tell."""
    codes = sorted({sign.code for sign in rivals} - {root.code})
    if codes:
        return Sureness(
            Confidence.UNSURE,
            f"{', '.join(codes)} weighs as much, and no clock that both share tells which came first",
        )
    if root.role is LineRole.INITIATOR and not root.vague:
        return Sureness(Confidence.SURE, "the line itself tells what failed")
    if root.fatal and not root.plumbing:
        return Sureness(Confidence.SURE, "nobody caught the exception, so its process ended with it")
    if root.role is LineRole.CASCADE:
        return Sureness(
            Confidence.UNSURE,
            "such a line is what other failures leave behind, and none of them is in the log",
        )
    if root.role is LineRole.SYMPTOM:
        return Sureness(Confidence.LIKELY, "the line tells how it showed, and nothing in the log tells why")
    return Sureness(Confidence.LIKELY, "the line tells that it failed, and little of what")


def find_runner_up(root: Sighting, rivals: Sequence[Sighting], others: Sequence[Sighting]) -> Finding | None:
    """What else may have been the cause, where the root cause is not sure."""
    sure = judge_sureness(root, rivals)
    if sure.confidence is Confidence.SURE:
        return None
    possible = [sign for sign in (*rivals, *others) if sign.code != root.code and sign.role.may_be_root]
    # Beside a root that is itself only what others leave behind, such a line may as well be it.
    echoes = root.role is LineRole.CASCADE
    possible = [
        sign
        for sign in possible
        if sign in rivals
        or sign.role is not LineRole.CASCADE
        or (echoes and not _says_only_that_it_ended(sign))
    ]
    first = min(
        possible,
        key=lambda sign: (sign not in rivals, ROLES[sign.role], sign.vague, *reading_order(sign)),
        default=None,
    )
    return None if first is None else next(iter(group_findings([first], warn=True)))


def tells_no_error(root: Sighting) -> bool:
    """Whether all that is known of a failure is with which exit code it ended, so that nobody can say whether
    it would fail again."""
    told = "exit" in root.captured or "exitcode" in root.captured or _EXITED.fullmatch(root.what) is not None
    return told and _says_only_that_it_ended(root)


_EXITED = re.compile(r"exited with code \d+")
"""What the boot says of a rank that printed nothing."""


def _says_only_that_it_ended(sign: Sighting) -> bool:
    """Whether a sign tells no cause, but that a process ended with an error of its own."""
    return sign.mode is training_script.SCRIPT_RAISED and "what" not in sign.captured and sign.place is None


_LAGS = (nccl.COLLECTIVE_TIMED_OUT, data.UNEVEN_BATCHES, checkpoints.STATE_DICT_NOT_ON_EVERY_RANK)
"""Modes in which ranks wait for others that lag behind: those that waited name the operation."""

_OF_WAITING = frozenset({"sequence", "operation", "expected_bytes"})
"""What is captured where a rank tells of its own collective."""

_NOTICED = (nccl.CLOSED_BY_PEER, nccl.RENDEZVOUS_TIMED_OUT, nccl.SYSTEM_ERROR)
"""Modes of which the lines that only follow from something are those of ranks that lost another one."""

_REFUSED = (model_hub.HUB_UNREACHABLE, network.NO_WAY_OUT)
"""Modes of what lies outside of the job, which is the same for all ranks."""

_OF_ALL = (checkpoints.UNEXPECTED_KEY_PREFIX,)
"""Modes of what all ranks do with the same file: who printed it first is no other than the rest."""

_FEWEST_ALIKE = 3
_NUMBER = re.compile(r"\d{1,30}")
_COPY_BELOW = 3
_NAMED_RANKS = 8


@frozen
class OddRanks:
    """The ranks for which the others wait, and how that shows."""

    ranks: tuple[int, ...]
    how: str


def name_rank(root: Sighting, others: Sequence[Sighting], reading: Reading) -> Sighting:
    """The root cause with rank and message from other lines, where its own do not say.

    Who waits in vain is not who failed: of such a root the rank is that of whom the others wait for, and None
    where nothing shows it.
    """
    local = next((sign.captured["local_rank"] for sign in others if _same_launcher(sign, root)), None)
    if root.rank is None and local is not None:
        root = replace(root, captured={"local_rank": local, **root.captured})
    if root.rank is None:
        named = [sign for sign in others if sign.rank is not None and _tells_of(sign, root)]
        if len({sign.rank for sign in named}) > 1:
            # Each host's torchrun has a table, of what followed on other hosts as well.
            named = [sign for sign in named if sign.code == root.code]
        if len({sign.rank for sign in named}) == 1:
            root = replace(root, rank=named[0].rank, host=root.host or named[0].host)
        tasks = {
            sign.captured["task"] for sign in others if "task" in sign.captured and _tells_of(sign, root)
        }
        if root.rank is None and len(tasks) == 1:
            root = replace(root, captured={"task": tasks.pop(), **root.captured})
    if root.mode is nccl.VERSIONS_DIFFER:
        return _name_odd_version(root, others)
    if "tensor" in root.captured:
        missing = _missing_rank([root, *others])
        return replace(root, rank=missing, host=None, about="" if missing is None else None)
    if root.mode in _LAGS and (_waits(root) or _names_nobody(root)):
        analysed = [sign for sign in others if "analysed" in sign.captured]
        # It saw the recorders of all ranks; the first collective that does not match explains later ones.
        return analysed[0] if analysed else _name_odd_rank(root, others, reading)
    if root.rank is None and root.host is None:
        hosts = {sign.host for sign in others if sign.code == root.code and "host" in sign.captured}
        root = replace(root, host=hosts.pop()) if len(hosts) == 1 else root
    return root


def _name_odd_version(root: Sighting, others: Sequence[Sighting]) -> Sighting:
    """The rank that every pair of different versions has; a pair alone tells not which of both is odd."""
    pairs = {
        frozenset((int(sign.captured["one"]), int(sign.captured["two"])))
        for sign in (root, *others)
        if sign.mode is root.mode and {"one", "two"} <= sign.captured.keys()
    }
    odd = frozenset.intersection(*pairs) if len(pairs) > 1 else frozenset()
    alone = next(iter(odd)) if len(odd) == 1 else None
    return replace(root, rank=alone, host=None, about=None if alone is not None else "")


def find_odd_ranks(
    rows: Sequence[Waiting], world_size: int, seen: frozenset[int] = frozenset()
) -> OddRanks | None:
    """The ranks that are behind, in another collective, missing, or idle while all others wait; None where
    nothing shows who it is. Rows of one process group; `seen` are the ranks of which anything was read."""
    placed = {row.rank: row.position for row in rows if row.position is not None}
    if not placed:
        return None
    furthest = max(placed.values())
    behind = sorted(rank for rank, place in placed.items() if place < furthest)
    if behind and len(behind) <= len(placed) - len(behind):
        at = ", ".join(f"{ranks_in_words([rank])} at {placed[rank]}" for rank in behind[:4])
        return OddRanks(
            tuple(behind), f"{at}, while {_waiting_in_words(placed, behind)} in number {furthest}"
        )
    apart = _in_another_collective(rows)
    if apart is not None:
        return apart
    known = set(range(world_size)) if max(placed) < world_size else set()
    missing = sorted((known | seen) - placed.keys())
    if not missing or len(missing) > len(placed) // 2 or behind:
        return None
    one = len(missing) == 1
    how = (
        f"{'waits' if one else 'wait'} in nothing"
        if seen.issuperset(missing)
        else (f"of {world_size} {'has' if one else 'have'} not reported")
    )
    return OddRanks(
        tuple(missing),
        f"{ranks_in_words(missing)} {how}, while {_waiting_in_words(placed, [])} in number {furthest}",
    )


def _name_odd_rank(root: Sighting, others: Sequence[Sighting], reading: Reading) -> Sighting:
    groups: dict[str | None, list[Waiting]] = {}
    for row in reading.waiting:
        groups.setdefault(row.group, []).append(row)
    seen = frozenset(row.rank for row in reading.ranks)
    found = [
        odd for rows in groups.values() if (odd := find_odd_ranks(rows, reading.world_size, seen)) is not None
    ]
    reporters = {sign.rank for sign in [root, *others] if _waits(sign)}
    if not found:
        # Of one that waits alone nothing is known but that it waits.
        subject = root.subject if len(reporters) == 1 else None
        return replace(root, rank=None, host=root.host if subject else None, about=subject or "")
    culprits = {rank for odd in found for rank in odd.ranks}
    what = f"{root.what}; {'; '.join(odd.how for odd in found[:2])}"
    if len(culprits) != 1:
        return replace(root, what=what, rank=None, host=None, about="")
    rank = culprits.pop()
    host = next((row.host for row in reading.ranks if row.rank == rank and row.host), None)
    where = next((sign for sign in [root, *others] if sign.rank == rank and _waits(sign)), None)
    host = host or (where.host if where else None)
    return replace(
        root,
        what=f"the others waited for it in vain: {'; '.join(odd.how for odd in found[:2])}",
        rank=rank,
        host=host,
        about=f"rank {rank}",
    )


def drop_innocent_rank(root: Sighting, signs: Sequence[Sighting], table: Sequence[RankState]) -> Sighting:
    """The root cause of nobody, where its rank did no more than others: only noticed that one is gone,
    or failed as most of the ranks did, each by itself."""
    if _writer_of(root) is None or root.mode is nccl.VERSIONS_DIFFER:
        return root
    if root.mode in _OF_ALL:
        return replace(root, rank=None, about=root.host or "")
    if root.role is LineRole.CASCADE and root.mode in _NOTICED and "rank" not in root.captured:
        return replace(root, rank=None, about=root.host or "")
    if root.role is not LineRole.INITIATOR:
        return root
    same = [sign for sign in signs if _says_the_same(sign, root)]
    alike = {_writer_of(sign) for sign in same} - {None}
    ranks = {(row.rank, None, None) for row in table} | {_writer_of(sign) for sign in signs} - {None}
    if root.mode in _REFUSED and len(alike) > 1 and len(alike) == len({sign.rank for sign in same} - {None}):
        # What a hub or a network refuses to several it refuses to the job.
        how = f"so for {ranks_in_words(sorted({sign.rank for sign in same if sign.rank is not None}))}"
    elif _are_most(alike, ranks):
        how = f"{len(alike)} of {len(ranks)} ranks failed so"
    else:
        # Where lines name hosts alone, only torchrun's table of one of them tells a rank.
        hosts = {sign.host for sign in same if sign.host and _writer_of(sign) is None}
        every = {sign.host for sign in signs if sign.host}
        if not (_are_most(hosts, every) or 1 < len(hosts) == len(every)):
            return root
        how = f"{len(hosts)} of {len(every)} hosts failed so"
    return replace(root, what=f"{root.what} ({how})", rank=None, host=None, about="")


def _are_most(alike: Collection[object], every: Collection[object]) -> bool:
    return len(alike) >= _FEWEST_ALIKE and 2 * len(alike) > len(every)


def _writer_of(sign: Sighting) -> tuple[int | None, int | None, str | None] | None:
    """Which process printed a sign: its rank, else its local rank and host; None where nothing tells."""
    if sign.rank is not None:
        return sign.rank, None, None
    return None if sign.local_rank is None else (None, sign.local_rank, sign.host)


def _says_the_same(sign: Sighting, root: Sighting) -> bool:
    """Whether both are one failure of two ranks: in the same words, but for numbers."""
    return sign.code == root.code and _NUMBER.sub("", sign.what) == _NUMBER.sub("", root.what)


def _missing_rank(signs: Iterable[Sighting]) -> int | None:
    """The one rank of which all lines say that the others wait for its tensor: where some name another one,
    ranks are out of step, and none is to blame more than the rest. Who writes such a line coordinates."""
    named = {
        sign.rank if "missing" not in sign.captured else None for sign in signs if "tensor" in sign.captured
    }
    return named.pop() if len(named) == 1 else None


def _names_nobody(sign: Sighting) -> bool:
    """Whether a line says that something stalled and not who; stacks and reports beside the lines show it."""
    return sign.vague and "rank" not in sign.captured and sign.index != BEFORE_ALL_LINES


def _waits(sign: Sighting) -> bool:
    """Whether a sign says that its own rank waited in vain, and not for whom."""
    return sign.mode in _LAGS and not _OF_WAITING.isdisjoint(sign.captured) and "other" not in sign.captured


def _in_another_collective(rows: Sequence[Waiting]) -> OddRanks | None:
    """The few that are in another collective than most, at the same place."""
    by_operation: dict[str, list[int]] = {}
    for row in rows:
        if row.operation is not None:
            number = "" if row.sequence is None else f" {row.sequence}"
            by_operation.setdefault(f"{row.operation}{number}", []).append(row.rank)
    if len(by_operation) < 2:
        return None
    parts = sorted(by_operation.items(), key=lambda entry: (-len(entry[1]), entry[1]))
    most = parts[0]
    few = sorted(rank for _, ranks in parts[1:] for rank in ranks)
    how = "ranks are apart: " + ", ".join(f"{ranks_in_words(ranks)} in {name}" for name, ranks in parts[:4])
    return OddRanks(tuple(few) if len(few) < len(most[1]) else tuple(sorted([*few, *most[1]])), how)


def _waiting_in_words(placed: Iterable[int], without: Sequence[int]) -> str:
    waiting = sorted(set(placed) - set(without))
    return f"{ranks_in_words(waiting)} wait{'s' if len(waiting) == 1 else ''}"


def _tells_of(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign that has a rank speaks of the same failure: a late name, or torchrun's table."""
    if root.mode in _LAGS:
        return sign.mode in _LAGS and "ms" in sign.captured
    if sign.host == root.host and sign.details and 0 < sign.index - root.index <= _COPY_BELOW:
        return True  # torch prints an exception, and again with its traceback behind the rank's prefix.
    if "xla_device" in sign.captured:
        # torch_xla's C++ logs what fails before the process names its device, its stack comes after.
        return sign.stream == root.stream and abs(sign.index - root.index) <= SHORTLY
    if root.captured.get("device") == str(sign.rank):
        # NCCL names the host and its GPU, torch's exception a few lines below the rank.
        return (
            sign.code == root.code and sign.stream == root.stream and 0 < sign.index - root.index <= SHORTLY
        )
    if "exitcode" in sign.captured:
        if root.local_rank is not None and sign.captured.get("local_rank") != str(root.local_rank):
            return False
        if root.captured.get("exit", sign.captured["exitcode"]) != sign.captured["exitcode"]:
            return False  # another host's table, where one file has those of several
        return not sign.host or not root.host or _is_of_host(root.host, sign)
    # slurmstepd says that the kernel killed something, srun below it which task that was; the kernel's log of
    # a host that nothing names tells what a rank met.
    later = root.host is None and ("task" in sign.captured or root.index == BEFORE_ALL_LINES)
    return sign.code == root.code and (later or sign.host == root.host)


def _is_of_host(host: str, table: Sighting) -> bool:
    """Whether an entry of torchrun's table is of this host: by its stream, or by the name that it gives,
    which the path of a process' own log has in it (`gpu-2/none_x7/attempt_0/3/stderr.log`)."""
    named = {(table.host or "").split(".")[0], table.captured.get("host", "").split(".")[0]} - {""}
    return not named.isdisjoint(part.split(".")[0] for part in host.split("/"))


def _same_launcher(sign: Sighting, root: Sighting) -> bool:
    """Whether a sign is torchrun's word on the first local rank of this host that failed."""
    return "local_rank" in sign.captured and sign.host == root.host and sign.index > root.index


def ranks_in_words(ranks: Sequence[int]) -> str:
    """Such as `ranks 0, 1, 2`, runs of more than two as `ranks 0 to 7`."""
    unique = sorted(set(ranks))
    runs: list[list[int]] = []
    for rank in unique:
        if runs and rank == runs[-1][-1] + 1:
            runs[-1].append(rank)
        else:
            runs.append([rank])
    named = [f"{run[0]} to {run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs]
    return f"rank{'s' if len(unique) > 1 else ''} {list_some(named, _NAMED_RANKS)}"
