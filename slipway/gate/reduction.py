"""A short all-reduce between the hosts, in processes of their own that may hang and are killed then.

One process for each of a host's GPUs, or one where there are none. What it says on stdout are lines of JSON:
`{"stage": "ready", ...}` once torch and the device are there, on the first host with the port of its store;
then it waits for a line with the store's address and port, and says `gloo`, `nccl` and `done` as it gets
there, or `error`. NCCL's own log goes where NCCL_DEBUG_FILE says.
"""

from __future__ import annotations

import datetime
import json
import os
import sys
from typing import Any

_LONGEST_LINE = 4096


def main(is_first: int, device: int, devices: int) -> None:
    """Reduce over gloo, by the first process of each host, then over NCCL by all; devices are 0 on CPUs."""
    channel = os.dup(1)
    # What torch and NCCL print is not what is said here.
    os.dup2(2, 1)

    def say(stage: str, **more: Any) -> None:
        os.write(channel, (json.dumps({"stage": stage, **more}) + "\n").encode())

    try:
        _reduce(say, bool(is_first), device, devices)
    except Exception as error:  # whatever torch raises is the answer
        say("error", reason=f"{type(error).__name__}: {error}"[:600])
    # Neither library is given the chance to hang in its end.
    os._exit(0)


def _reduce(say: Any, is_first: bool, device: int, devices: int) -> None:
    import torch
    import torch.distributed as dist

    if not dist.is_available():
        say("without", reason="this torch is built without torch.distributed")
        return
    store = None
    ready: dict[str, Any] = {"devices": devices}
    if devices:
        if not torch.cuda.is_available():
            say("without", **_gpu_unusable(torch))
            return
        torch.cuda.set_device(device)
        torch.zeros(1, device="cuda")
        ready["capability"] = torch.cuda.get_device_capability(device)
        ready["built"] = torch.cuda.get_arch_list()
    patience = datetime.timedelta(seconds=300)
    if is_first and device == 0:
        store = dist.TCPStore("0.0.0.0", 0, -1, True, patience, wait_for_workers=False)
        ready["port"] = store.port
    say("ready", torch=str(torch.__version__), **ready)
    told = json.loads(sys.stdin.readline(_LONGEST_LINE))
    if store is None:
        store = dist.TCPStore(told["address"], told["port"], -1, False, patience, wait_for_workers=False)
    if device == 0:
        say("gloo")
        own = dist.PrefixStore("gloo", store)
        _all_reduce(dist, torch, "gloo", own, told["host"], told["hosts"], torch.device("cpu"))
    if devices:
        say("nccl")
        own, rank = dist.PrefixStore("nccl", store), told["first_rank"] + device
        _all_reduce(dist, torch, "nccl", own, rank, told["ranks"], torch.device("cuda", device))
    say("done")
    # The first host's store must outlive the others' last question.
    sys.stdin.readline(_LONGEST_LINE)


def _all_reduce(dist: Any, torch: Any, backend: str, store: Any, rank: int, ranks: int, where: Any) -> None:
    """Sum ones; raises RuntimeError where the sum is wrong."""
    dist.init_process_group(backend, store=store, rank=rank, world_size=ranks)
    ones = torch.ones(1024, device=where)
    dist.all_reduce(ones)
    if float(ones.sum()) != 1024.0 * ranks:
        raise RuntimeError(f"the sum of {ranks} ones over {backend} is {float(ones[0])}")
    if backend == "gloo":
        dist.destroy_process_group()


def _gpu_unusable(torch: Any) -> dict[str, Any]:
    """Why torch uses no GPU of a host that has some."""
    if not torch.version.cuda:
        return {"reason": f"torch {torch.__version__} is built without CUDA", "cpu_only": True}
    try:
        torch.cuda.init()
    except (RuntimeError, AssertionError) as error:
        return {"reason": str(error).splitlines()[0][:300], "cuda_fails": True}
    return {"reason": "torch finds no GPU"}


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:4]))
