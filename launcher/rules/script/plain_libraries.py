"""Whether a program imports only libraries of which it is known what they do with process groups."""

from __future__ import annotations

import sys

from launcher.scripts.program import Program

_PLAIN = frozenset(
    {
        "numpy",
        "torch",
        "torchvision",
        "torchaudio",
        "tqdm",
        "PIL",
        "pandas",
        "yaml",
        "matplotlib",
        "sklearn",
        "scipy",
        "tensorboard",
        "tensorboardX",
        "boto3",
        "botocore",
        "cv2",
        "requests",
        "smdebug",
    }
)
"""The libraries of which it is known that they make no process group and register no backend."""


def imports_the_unknown(program: Program) -> bool:
    """Whether anything that a program imports could make a group, or a backend; what cannot be read could."""
    if program.unread:
        return True
    for file in program.files:
        if any(star.startswith(".") for star in file.stars):
            return True
        for binding in file.imports:
            root = (binding.module or "").partition(".")[0]
            own = program.module(binding.module or "", file) or program.module(root, file)
            if own is None and root not in _PLAIN and root not in sys.stdlib_module_names:
                return True
    return False
