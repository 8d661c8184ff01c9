"""Clean lines of whatever bytes a log comes in, each step a pure generator of bounded memory.

`decode` unpacks and makes UTF-8 with line feeds of any text, `formats` says by its beginning how a stream
is to be read and takes off what copying and terminals put around lines, `events` reads what log services
and log drivers write around messages. `lines` cuts streams into windows of whole lines and says who printed
a line. `tracebacks` gathers Python's exceptions and stacks from lines, `attempts` knows where a log says
that a job was started again, that training ended well, and how far its step counters went.
"""
