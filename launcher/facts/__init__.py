"""Facts of others' making that the launcher goes by, each with the day on which it was looked at.

Where a table of ours comes from, when it was last compared with that, and how long it may be believed.
Below all that the launcher knows; nothing here imports another room.
"""
