"""Write the files that are made from others, or say which are not current.

python -m tools.generate                        all of them, in the order in which they need one another
python -m tools.generate image_table api_model  some
python -m tools.generate --check                change nothing, exit 1 when one is not current
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from importlib import import_module

from tools.generate.generated import command_of, write_or_check

GENERATORS = {
    name.rpartition(".")[2]: f"tools.generate.{name}"
    for name in (
        "failure_modes",
        "pages.failure_mode_page",
        "pages.field_pages",
        "pages.lint_rules_page",
        "pages.command_line_page",
        "pages.costs_page",
        "pages.lint_findings_page",
        "image_table",
        "api_model",
        "create_only",
        "boot_signatures",
        "library_tables",
        "architecture_diagram",
        "rooms_diagram",
    )
}
"""The modules, each with a function `generated`, by what they are called on the command line."""


def main() -> int:
    """Run those that are named, or each in a process of its own, as one reads what another writes."""
    parser = argparse.ArgumentParser(prog="python -m tools.generate", description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(GENERATORS)}")
    parser.add_argument("--check", action="store_true", help="change nothing, exit 1 when not current")
    chosen = parser.parse_args()
    unknown = set(chosen.names) - set(GENERATORS)
    if unknown:
        parser.error(f"there is no {', '.join(sorted(unknown))}; there are {', '.join(GENERATORS)}")
    if len(chosen.names) == 1:
        module = import_module(GENERATORS[chosen.names[0]])
        return write_or_check(module.generated(), command_of(module.__name__), check=chosen.check)
    options = ["--check"] if chosen.check else []
    ends = [
        subprocess.run([sys.executable, "-m", "tools.generate", name, *options]).returncode
        for name in chosen.names or GENERATORS
    ]
    return max(ends)


if __name__ == "__main__":
    sys.exit(main())
