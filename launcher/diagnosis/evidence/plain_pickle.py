"""Read a pickle of plain values that may have been made to do harm.

A pickle is a program; Python's own reader runs it, with all the classes that it names. This one knows the
opcodes of None, numbers, texts, lists, tuples and dictionaries with texts for keys, and refuses any other
before anything is done with it. So what is read takes time and memory in proportion to its bytes: no class is
ever looked up, no place of the memo is far away, and no keys can be made to collide.
"""

from __future__ import annotations

from struct import Struct
from typing import Any

LARGEST = 64 * 1024 * 1024
"""Bytes of a pickle that is read: 20,000 collectives with their stacks are some 30 MB."""

_MOST_OPERATIONS = 16_000_000
"""Of a recorder of 20,000 collectives with 20 frames each there are 3.5 million."""

_MOST_CONTAINERS = 2_000_000
"""Lists, dictionaries and tuples: one byte of a pickle makes some 60 bytes of them."""

_LONGEST_NUMBER = 16
"""Bytes of a whole number: times are nanoseconds in eight."""

_INT, _SHORT, _LONG, _FLOAT = Struct("<i"), Struct("<H"), Struct("<Q"), Struct(">d")
_UNSIGNED = Struct("<I")
_CONSTANTS = {0x4E: None, 0x88: True, 0x89: False}
_TUPLES = {0x85: 1, 0x86: 2, 0x87: 3}
_TEXTS = {0x8C: 1, 0x58: 4, 0x8D: 8}
"""Opcodes of texts, and of how many bytes their length is."""


def read_plain_pickle(content: bytes) -> Any:
    """The value of a pickle.

    Raises ValueError for what is too large, torn, or holds anything but plain values.
    """
    if len(content) > LARGEST:
        raise ValueError(f"a pickle of {len(content)} bytes, more than the {LARGEST} that are read")
    try:
        return _run(content)
    except (IndexError, KeyError, TypeError, AttributeError, UnicodeDecodeError) as error:
        raise ValueError(f"not a pickle of plain values, or a torn one ({type(error).__name__})") from None
    except Exception as error:
        # struct.error is no ValueError.
        raise ValueError(f"not a pickle of plain values, or a torn one ({error})") from None


def _run(content: bytes) -> Any:
    stack: list[Any] = []
    marks: list[int] = []
    memo: dict[int, Any] = {}
    at, containers = 0, 0
    for _ in range(_MOST_OPERATIONS):
        code = content[at]
        at += 1
        if code == 0x68:  # BINGET
            stack.append(memo[content[at]])
            at += 1
        elif code == 0x6A:  # LONG_BINGET
            stack.append(memo[_UNSIGNED.unpack_from(content, at)[0]])
            at += 4
        elif code == 0x4B:  # BININT1
            stack.append(content[at])
            at += 1
        elif code == 0x4D:  # BININT2
            stack.append(_SHORT.unpack_from(content, at)[0])
            at += 2
        elif code == 0x28:  # MARK
            marks.append(len(stack))
        elif code == 0x75:  # SETITEMS
            start = marks.pop()
            _set_items(stack[start - 1], stack[start:])
            del stack[start:]
        elif code == 0x65:  # APPENDS
            start = marks.pop()
            _list(stack[start - 1]).extend(stack[start:])
            del stack[start:]
        elif code in (0x5D, 0x7D):  # EMPTY_LIST, EMPTY_DICT
            stack.append([] if code == 0x5D else {})
            containers += 1
            if containers > _MOST_CONTAINERS:
                break
        elif code in _CONSTANTS:
            stack.append(_CONSTANTS[code])
        elif code in _TEXTS:
            width = _TEXTS[code]
            start = at + width
            at = start + int.from_bytes(content[at:start], "little")
            stack.append(str(_slice(content, start, at), "utf-8", "surrogatepass"))
        elif code == 0x71:  # BINPUT
            memo[content[at]] = stack[-1]
            at += 1
        elif code == 0x72:  # LONG_BINPUT
            memo[_UNSIGNED.unpack_from(content, at)[0]] = stack[-1]
            at += 4
        elif code == 0x94:  # MEMOIZE
            memo[len(memo)] = stack[-1]
        elif code == 0x4A:  # BININT
            stack.append(_INT.unpack_from(content, at)[0])
            at += 4
        elif code == 0x8A:  # LONG1
            length = content[at]
            if length > _LONGEST_NUMBER:
                raise ValueError(f"a number of {length} bytes")
            stack.append(int.from_bytes(_slice(content, at + 1, at + 1 + length), "little", signed=True))
            at += 1 + length
        elif code == 0x47:  # BINFLOAT
            stack.append(_FLOAT.unpack_from(content, at)[0])
            at += 8
        elif code in _TUPLES or code in (0x74, 0x29):  # TUPLE, EMPTY_TUPLE
            start = marks.pop() if code == 0x74 else _below(stack, _TUPLES.get(code, 0))
            stack[start:] = [tuple(stack[start:])]
            containers += 1
            if containers > _MOST_CONTAINERS:
                break
        elif code == 0x61:  # APPEND
            value = stack.pop()
            _list(stack[-1]).append(value)
        elif code == 0x73:  # SETITEM
            start = _below(stack, 2)
            _set_items(stack[start - 1], stack[start:])
            del stack[start:]
        elif code == 0x80:  # PROTO
            at += 1
        elif code == 0x95:  # FRAME
            at += 8
        elif code == 0x2E:  # STOP
            if len(stack) != 1:
                raise ValueError("more than one value")
            return stack[0]
        else:
            raise ValueError(f"opcode {bytes([code])!r} is not of a plain value")
    raise ValueError("more values in it than any recorder holds")


def _slice(content: bytes, start: int, end: int) -> bytes:
    if end > len(content):
        raise ValueError("it ends early")
    return content[start:end]


def _below(stack: list[Any], count: int) -> int:
    if len(stack) < count:
        raise IndexError("stack")
    return len(stack) - count


def _list(value: Any) -> list[Any]:
    if type(value) is not list:
        raise TypeError("not a list")
    return value


def _set_items(value: Any, items: list[Any]) -> None:
    if type(value) is not dict or not all(type(key) is str for key in items[::2]):
        raise TypeError("not a dictionary with texts for keys")
    value.update(zip(items[::2], items[1::2], strict=True))
