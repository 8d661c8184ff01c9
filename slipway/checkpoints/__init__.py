"""Checkpoints that are complete or not there, and the order of samples that they continue.

`manager.py` is what a script calls: it copies (`copying.py`, `randomness.py`, `sharded.py`) and hands the
copies to a thread that writes them (`writer.py`) and meets the other ranks (`roll_call.py`) over a
connection of its own (`connection.py`). `manifest.py` and `shelf.py` know what lies on a disk, `choosing.py`
which of it the ranks take, `sharing.py` gives hosts what they lack, `loading.py` puts it back.
"""
