"""The formats in which logs come, each a pure generator of bounded memory, whatever bytes it is given.

`compression` and `archives` unpack, `text` makes clean UTF-8 of any encoding and refuses what is no text,
`margins` takes off what stands before each line of a copy, `wrapping` joins what a terminal broke.
`json_events` and `table_events` read what log services and log drivers write around the lines; `detection`
says which of these a stream's beginning asks for.
"""
