"""Values that are not known before a deployment."""

from __future__ import annotations


class Unknown(str):
    """A value that only the deployment knows; the same text stands for the same value.

    Whatever judges it gives it the benefit of the doubt: it may be the value that is needed.
    """

    __slots__ = ()
