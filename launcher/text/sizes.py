"""Bytes as people read them. Disks, files and S3 are counted in powers of 1000, memory in powers of 1024."""

from __future__ import annotations


def size_in_words(size: float) -> str:
    """Bytes in the unit that fits them, to three digits: 512 B, 3.4 MB, 12 GB."""
    for unit in ("B", "kB", "MB", "GB", "TB"):
        # What would round to four digits belongs to the next unit.
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:,.0f} PB"


def gigabytes(size: float) -> str:
    """Bytes in GB whatever their number, so that they compare with a disk's: 500 GB, 10,000 GB."""
    return f"{size / 1e9:,.0f} GB"


def memory_in_words(size: float) -> str:
    """Bytes of memory as PyTorch tells them, in MiB below one GiB: 18.6 MiB, 2.5 GiB."""
    return gibibytes(size) if size >= 2**30 else f"{size / 2**20:,.1f} MiB"


def gibibytes(size: float) -> str:
    """Bytes of memory in GiB, as the makers of accelerators count them: 40.0 GiB."""
    return f"{size / 2**30:,.1f} GiB"
