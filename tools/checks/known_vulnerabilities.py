"""Say which packages of the lock have known vulnerabilities, from what pip-audit found.

    pip-audit --require-hashes --disable-pip -r requirements.lock -f json -o REPORT
    python -m tools.checks.known_vulnerabilities REPORT

Exits with 1 where a package has one. pip-audit skips a package about which it gets no data, and calls that no
vulnerability; here it is said, and where there is no data about any package, that nothing was checked.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any


def judged(report: dict[str, Any] | None) -> tuple[int, list[str]]:
    """The exit code, and the lines to print, for a report of pip-audit; None where it could not write one."""
    packages = report["dependencies"] if report else []
    checked = [package for package in packages if "skip_reason" not in package]
    if not checked:
        return 0, ["known vulnerabilities: not checked, as the data about them cannot be had from here"]
    found = [package for package in checked if package["vulns"]]
    lines = [
        f"{package['name']} {package['version']}: {each['id']}"
        f" (repaired in {', '.join(each['fix_versions']) or 'no version yet'})"
        for package in found
        for each in package["vulns"]
    ]
    lines += [f"not checked: {each['skip_reason']}" for each in packages if "skip_reason" in each]
    lines += [f"known vulnerabilities: in {len(found)} of {len(checked)} packages that were checked"]
    return (1 if found else 0), lines


def main(path: Path) -> int:
    """Print what the report at a path says; the exit code."""
    text = path.read_text("utf-8") if path.exists() else ""
    code, lines = judged(json.loads(text) if text else None)
    print("\n".join(lines))
    return code


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1])))
