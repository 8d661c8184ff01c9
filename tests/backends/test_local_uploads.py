"""`checkpoint.sync: slipway` in a local job: hosts with folders of their own, copied to the run's."""

from __future__ import annotations

from pathlib import Path

from launcher.backends.interface import JobState
from launcher.backends.local.backend import LocalBackend
from tests.backends.workplace import Workplace, finish, texts

SCRIPT = """
    import os
    from pathlib import Path
    folder, host = Path(os.environ["SLIPWAY_CHECKPOINT_DIR"]), os.environ["SM_CURRENT_HOST"]
    print("found", *sorted(path.name for path in folder.iterdir()))
    looked = Path(os.environ["LOOKED"])
    if host == "algo-2":
        looked.touch()
    # A host that starts late fetches what the others have copied by then.
    while not looked.exists():
        pass
    (folder / f"{host}.pt").write_text(host)
"""


def test_each_hosts_checkpoints_come_into_the_runs_folder_and_from_there_to_every_host(
    workplace: Workplace, local: LocalBackend, tmp_path: Path
) -> None:
    copied = {"options": ("--checkpoint-sync", "slipway")}
    looked = str(tmp_path / "looked")
    there = {"SLIPWAY_CHECKPOINT_URI": "s3://bucket/job-1", "LOOKED": looked}
    local.submit(workplace.plan(SCRIPT, hosts=2, environment=there, **copied))
    assert finish(local).state is JobState.COMPLETED
    assert "found" in texts(local, "algo-2"), "no host sees what another one writes"
    assert sorted(file.name for file in workplace.shared("").iterdir()) == ["algo-1.pt", "algo-2.pt"]
    again = workplace.plan(SCRIPT, name="job-2", hosts=2, environment=there, resume_from="job-1", **copied)
    local.submit(again)
    assert finish(local, "job-2").state is JobState.COMPLETED
    assert "found algo-1.pt algo-2.pt" in texts(local, "algo-2", "job-2")
