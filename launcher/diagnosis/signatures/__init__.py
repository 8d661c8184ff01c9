"""What failures look like in logs: rows of data, which stand with their modes in `launcher/failure_modes/`.

A `Signature` has a pattern, the role of such a line in the story of a failure (initiator, symptom, cascade,
teardown, advisory), one line that matches and one near miss that does not; both are tested for every row.
"""
