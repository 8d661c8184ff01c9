"""How objects travel through a program, for who evaluates it.

`nodes` goes through syntax trees, `file_text` says where in its file a node stands, `unpacking` what is
unpacked into which name, `imported_names` what imports give theirs, `bound_arguments` which parameter gets
which argument. `empty_methods` are there
to be overridden, `calculated_names` are read by `getattr`. `handed_back` is what Python's own library gives
back of what it is given, and what a generator yields. `hooks` are the methods that libraries call.
"""
