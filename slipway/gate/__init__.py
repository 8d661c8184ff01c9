"""The health gate: what would hang or fail for want of a sound host is refused before the ranks start.

Facts are read in `look.py`, `machine.py`, `pairs.py` and `reducing.py`; `gpus.py`, `storage.py`,
`reaching.py`, `meeting.py`, `networks.py` and `verdict.py` judge them and read nothing.
"""
