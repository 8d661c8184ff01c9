"""Hosts as network namespaces on one bridge, with interfaces, routes, ports and names of their own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tarfile
import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[3]
PATIENCE_SECONDS = 120.0
# The base interpreter has no torch, whose import costs each host seconds.
WITHOUT_TORCH = getattr(sys, "_base_executable", sys.executable)

BOOT = """
import sys
from slipway import host_assembly
from slipway.gate import pass_gate, probe_host
pass_gate.REDUCTION_SECONDS = 6.0
probe_host.CONNECT_SECONDS = 2.0
if sys.argv[1] != "0":
    pass_gate.ROLL_CALL_SECONDS = float(sys.argv[1])
    host_assembly.DistantSwitchboard.__init__.__kwdefaults__["patience"] = 1.0
from slipway.boot import main
sys.exit(main(sys.argv[2:]))
"""


_SHAPED = ("root", "tbf", "rate", "{}mbit", "burst", "128kb", "latency", "50ms")
"""A queue that lets through so many Mbit/s."""


def why_not(*, shaping: bool = False) -> str | None:
    """Why this machine cannot have namespaces, with `shaping` of limited bandwidth; None where it can."""
    for program in ("ip", "tc") if shaping else ("ip",):
        if shutil.which(program) is None:
            return f"there is no `{program}` (iproute2)"
    name = f"probe-{uuid.uuid4().hex[:6]}"
    made = subprocess.run(["ip", "netns", "add", name], capture_output=True, text=True, check=False)
    if made.returncode:
        return f"network namespaces are not permitted: {made.stderr.strip()}"
    limited = ["tc", "-n", name, "qdisc", "add", "dev", "lo", *_shaped(100)]
    shaped = subprocess.run(limited, capture_output=True, text=True, check=False) if shaping else made
    subprocess.run(["ip", "netns", "delete", name], check=False)
    return f"bandwidth cannot be limited: {shaped.stderr.strip()}" if shaped.returncode else None


def _shaped(mbit: int) -> list[str]:
    return [word.format(mbit) for word in _SHAPED]


class Namespaces:
    """So many hosts, algo-1 and on, each of which knows the others by /etc/hosts, and nothing beyond them."""

    def __init__(self, folder: Path, hosts: int) -> None:
        self.folder = folder
        self.names = [f"algo-{number}" for number in range(1, hosts + 1)]
        self._mark = uuid.uuid4().hex[:6]
        self._bridge = f"b{self._mark}"
        _ip("link", "add", self._bridge, "type", "bridge")
        _ip("link", "set", self._bridge, "up")
        for host in self.names:
            space, outer = self.space(host), f"v{self._mark}{host[-1]}"
            _ip("netns", "add", space)
            _ip("link", "add", outer, "type", "veth", "peer", "name", "eth0", "netns", space)
            _ip("link", "set", outer, "master", self._bridge, "up")
            self.ip(host, "address", "add", f"{self.address(host)}/24", "dev", "eth0")
            self.ip(host, "link", "set", "eth0", "up")
            self.ip(host, "link", "set", "lo", "up")
            self.tell_names(host, {other: self.address(other) for other in self.names})

    def space(self, host: str) -> str:
        return f"slipway-{self._mark}-{host}"

    def address(self, host: str) -> str:
        return f"10.77.0.{host.partition('-')[2]}"

    def ip(self, host: str, *words: str) -> None:
        _ip("-n", self.space(host), *words)

    def tell_names(self, host: str, names: dict[str, str]) -> None:
        """Which names this host knows; `ip netns exec` puts the file in the place of /etc/hosts."""
        folder = Path("/etc/netns") / self.space(host)
        folder.mkdir(parents=True, exist_ok=True)
        lines = ["127.0.0.1 localhost", *(f"{address} {name}" for name, address in names.items())]
        (folder / "hosts").write_text("\n".join(lines) + "\n")
        # No question leaves the machine.
        (folder / "resolv.conf").write_text("nameserver 127.0.0.1\noptions timeout:1 attempts:1\n")

    def swallow(self, host: str, *rule: str) -> None:
        """Let what this host sends by a rule vanish, as a security group does: nobody answers."""
        self.ip(host, "neigh", "replace", "10.77.0.250", "lladdr", "02:00:00:00:00:fa", "dev", "eth0")
        self.ip(host, "route", "replace", "default", "via", "10.77.0.250", "dev", "eth0", "table", "77")
        self.ip(host, "rule", "add", *rule, "lookup", "77")

    def limit(self, host: str, mbit: int) -> None:
        """Let a host send and receive no more than so many Mbit/s, as a slower interface of it would."""
        _run("tc", "-n", self.space(host), "qdisc", "add", "dev", "eth0", *_shaped(mbit))
        _run("tc", "qdisc", "add", "dev", f"v{self._mark}{host[-1]}", *_shaped(mbit))

    def start(
        self,
        host: str,
        *,
        roll_call: float = 0,
        gate: str = "on",
        torch: bool = False,
        variables: Mapping[str, str] | None = None,
        text: str = "print('trained')\n",
        strategy: Sequence[str] = ("none",),
        arguments: Sequence[str] = (),
    ) -> subprocess.Popen[str]:
        """Boot a host; `roll_call` shortens the wait for hosts that do not come, in seconds.

        `text` is the script's, with `arguments`; `strategy` starts it, with what else the boot is told.
        """
        root = self.folder / host
        config, code = root / "input" / "config", root / "input" / "data" / "code"
        config.mkdir(parents=True)
        code.mkdir(parents=True)
        resources = {"current_host": host, "hosts": self.names, "network_interface_name": "eth0"}
        (config / "resourceconfig.json").write_text(json.dumps(resources))
        script = self.folder / f"{host}.py"
        script.write_text(text)
        with tarfile.open(code / "source.tar.gz", "w:gz") as archive:
            archive.add(script, "train.py")
        words = ["--strategy", *strategy, "--entry-point", "train.py", "--gate", gate]
        words += ["--", *arguments] if arguments else []
        python = sys.executable if torch else WITHOUT_TORCH
        return subprocess.Popen(
            ["ip", "netns", "exec", self.space(host), python, "-c", BOOT, str(roll_call), *words],
            env={
                "PATH": os.environ["PATH"],
                "PYTHONPATH": str(PACKAGE),
                "SLIPWAY_ROOT": str(root),
                "SLIPWAY_CHECKPOINT_DIR": str(root / "checkpoints"),
                "TRAINING_JOB_NAME": "job",
                **(variables or {}),
            },
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(
        self, hosts: Sequence[str] | None = None, *, roll_call: float = 0, gate: str = "on"
    ) -> dict[str, tuple[int, str, str]]:
        """Boot these hosts, all by default, to their end: exit code, stdout and stderr of each."""
        return self.ends(
            {host: self.start(host, roll_call=roll_call, gate=gate) for host in hosts or self.names}
        )

    def ends(self, started: Mapping[str, subprocess.Popen[str]]) -> dict[str, tuple[int, str, str]]:
        """How hosts that were started end."""
        ended = {}
        for host, process in started.items():
            out, err = process.communicate(timeout=PATIENCE_SECONDS)
            ended[host] = (process.returncode, out, err)
        return ended

    def failure(self, host: str) -> str:
        return (self.folder / host / "output" / "failure").read_text()

    def close(self) -> None:
        for host in self.names:
            listed = subprocess.run(
                ["ip", "netns", "pids", self.space(host)], capture_output=True, text=True, check=False
            )
            for pid in listed.stdout.split():
                subprocess.run(["kill", "-9", pid], check=False)
            subprocess.run(["ip", "netns", "delete", self.space(host)], check=False)
            shutil.rmtree(Path("/etc/netns") / self.space(host), ignore_errors=True)
        subprocess.run(["ip", "link", "delete", self._bridge], check=False)


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
