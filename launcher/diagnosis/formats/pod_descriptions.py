"""What `kubectl describe pod` prints: how the containers of a pod ended, below the pod's name.

Text: kubectl's pkg/describe/describe.go, describePod and describeContainerState. Each line gets the pod
before it, as `kubectl logs --prefix` writes it, so that the end of a container is told of its pod.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from launcher.diagnosis.formats.blocks import lines_of

_NAME = re.compile(r"Name: {2,40}(?P<name>[a-z0-9][a-z0-9.-]{0,252})$")
_CONTAINERS = "Containers:"


def are_described(lines: Sequence[str]) -> bool:
    """Whether these lines begin with a pod's name and go on with its containers."""
    first = next((line for line in lines if line.strip()), "")
    return _NAME.match(first.rstrip()) is not None and any(line.rstrip() == _CONTAINERS for line in lines)


def with_their_pods(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The text with the name of the pod before each line."""
    mark = ""
    for line in lines_of(blocks):
        if found := _NAME.match(line.rstrip()):
            mark = f"[pod/{found['name']}] "
        yield f"{mark}{line}\n".encode("utf-8", errors="replace")
