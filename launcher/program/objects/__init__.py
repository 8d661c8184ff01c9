"""How objects travel through a program, for who evaluates it.

`nodes` goes through syntax trees, `unpacking` says what is unpacked into which name, `imported_names` what
imports give theirs. `members` are those of classes: set, inherited, overridden, or set by a calculated name;
`empty_methods` are there to be overridden, `calculated_names` are read by `getattr`. `handed_back` is what
Python's own library gives back of what it is given, as `asyncio.run` and `next` do.
"""
