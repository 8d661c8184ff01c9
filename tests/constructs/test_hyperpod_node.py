"""The script of HyperPod's nodes, really run in a folder that stands for the node's root.

Its stand-ins are what this machine has nothing of: a Lustre mount (findmnt, mount), and the user of
HyperPod's image (getent, install's and chown's owners).
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from constructs.hyperpod_cluster import NODE_SCRIPT

ROOT = Path(__file__).parents[2]

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIFeD6tq0VvZ8j2O3jW0uBYb1Qq9cT4mXnqvR8sLk2p7W alice@example.com"
OTHER = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIDtq0VvZ8j2O3jW0uBYb1Qq9cT4mXnqvR8sLk2p7WxYz1 bob@example.com"

STANDS_IN = {
    "hostname": "echo ip-10-0-1-7",
    "getent": "echo ubuntu:x:1000:1000::/home/ubuntu:/bin/bash",
    "chown": "exit 0",
    # All of install's own, but for owners that this machine does not have.
    "install": 'exec /usr/bin/install $(printf "%s\\n" "$@" | sed "s/^-[og]$//; s/^ubuntu$//")',
    "findmnt": 'cat "$MOUNTED" 2>/dev/null',
    "mount": 'echo "mount.lustre: $1: Connection timed out" >&2; echo tried >>"$MOUNTED.tries"; exit 110',
}


@dataclass
class Node:
    """A node's root, and what its script is found beside."""

    folder: Path

    @property
    def log(self) -> list[str]:
        return (self.folder / "root/var/log/provision/provisioning.log").read_text().splitlines()

    @property
    def keys(self) -> Path:
        return self.folder / "root/home/ubuntu/.ssh/authorized_keys"

    @property
    def shared(self) -> Path:
        return self.folder / "root/fsx"

    def stand_in(self, name: str, text: str) -> None:
        program = self.folder / "bin" / name
        program.write_text(f"#!/bin/bash\n{text}\n")
        program.chmod(0o755)

    def mount(self) -> None:
        (self.folder / "mounted").write_text("lustre\n")

    def run(self) -> subprocess.CompletedProcess[str]:
        environment = {
            "PATH": f"{self.folder}/bin:/usr/bin:/bin",
            "MOUNTED": str(self.folder / "mounted"),
            "SLIPWAY_NODE_ROOT": str(self.folder / "root"),
            "SLIPWAY_NODE_PAUSE": "0",
        }
        script = self.folder / "scripts" / NODE_SCRIPT.name
        return subprocess.run(
            ["bash", str(script)], env=environment, capture_output=True, text=True, stdin=subprocess.DEVNULL
        )


@pytest.fixture
def node(tmp_path: Path) -> Node:
    for name in ("bin", "scripts", "root/fsx", "root/home/ubuntu"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "scripts" / NODE_SCRIPT.name).write_text(NODE_SCRIPT.read_text())
    (tmp_path / "scripts" / "authorized_keys").write_text(f"{KEY}\n")
    node = Node(tmp_path)
    for name, text in STANDS_IN.items():
        node.stand_in(name, text)
    return node


def test_a_node_is_made_ready_and_a_second_run_changes_nothing(node: Node) -> None:
    node.mount()
    (node.keys.parent).mkdir()
    node.keys.write_text(OTHER)  # without an end of its line, as people write it

    first = node.run()

    assert (first.returncode, first.stderr) == (0, "")
    assert stat.S_IMODE((node.shared / "jobs").stat().st_mode) == 0o1777
    assert node.keys.read_text() == f"{OTHER}\n{KEY}\n"
    assert stat.S_IMODE(node.keys.stat().st_mode) == 0o600
    assert node.log[-2:] == [
        "slipway: node: ip-10-0-1-7: 1 new keys of people who log in as ubuntu",
        "slipway: node: ip-10-0-1-7: is ready, with /fsx mounted",
    ]
    assert first.stdout.splitlines() == node.log

    (node.shared / "jobs" / "digits").mkdir()
    second = node.run()

    assert second.returncode == 0
    assert node.keys.read_text() == f"{OTHER}\n{KEY}\n"
    assert [each.name for each in (node.shared / "jobs").iterdir()] == ["digits"]
    assert "0 new keys" in node.log[-2]


def test_a_mount_that_comes_late_is_waited_for(node: Node) -> None:
    node.stand_in(
        "mount", 'echo x >>"$MOUNTED.tries"; [ $(wc -l <"$MOUNTED.tries") -ge 3 ] && echo lustre >"$MOUNTED"'
    )

    assert node.run().returncode == 0
    assert len((node.folder / "mounted.tries").read_text().split()) == 3


def test_a_mount_that_never_comes_is_said_with_what_mount_says_and_ends_the_node(node: Node) -> None:
    ran = node.run()

    assert ran.returncode == 1
    assert node.log[-1] == (
        "slipway: node: FSX005 ip-10-0-1-7: /fsx is not mounted after 20 tries "
        f"(mount.lustre: {node.shared}: Connection timed out)"
    )
    assert not (node.shared / "jobs").exists()
    log = node.folder / "root/var/log/provision/provisioning.log"
    words = [sys.executable, "-m", "launcher.cli.app", "diagnose", "--log", str(log), "--output", "json"]
    told = subprocess.run(words, env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True)
    assert json.loads(told.stdout)["root_cause"]["code"] == "FSX005", told.stdout


def test_a_folder_of_another_kind_is_no_mount(node: Node) -> None:
    (node.folder / "mounted").write_text("ext4\n")

    assert node.run().returncode == 1


def test_a_file_system_that_cannot_be_written_is_said(node: Node) -> None:
    node.mount()
    node.stand_in(
        "touch",
        'case "$1" in *fsx*) echo "touch: $1: Read-only file system" >&2; exit 1;; esac; /usr/bin/touch "$@"',
    )

    assert node.run().returncode == 1
    assert "FSX005 ip-10-0-1-7: /fsx is mounted and cannot be written (touch: " in node.log[-1]
    assert "Read-only file system" in node.log[-1]
