"""Write docs/reference/lint-rules.md from what stands above the rules on scripts, and from their examples.

The examples are in tools/generate/pages/lint-rules/. Each is linted here: what the page says of severities,
fixes and messages is what the lint says of the example.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from launcher.failure_modes.model import Finding, Severity
from launcher.failure_modes.registry import CATALOGUE, FAMILIES
from launcher.rules.script.check import RuleDescription, rule_descriptions
from tools.generate.generated import ROOT, as_markdown, filled_in, table_of
from tools.generate.pages.failure_mode_page import page_of_code
from tools.generate.pages.lint_examples import Example, examples, findings_in, is_shown

PAGE = ROOT / "docs" / "reference" / "lint-rules.md"


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule as it finds one failure mode: what is said of it, its example, and what is found in that."""

    description: RuleDescription
    example: Example
    finding: Finding


def generated() -> dict[Path, str]:
    """What the page should hold now."""
    rules = _rules()
    by_code = {code: [each for each in rules if each.example.code == code] for code in CATALOGUE}
    found = {code: listed for code, listed in by_code.items() if listed}
    parts = {"table": _table(found), "rules": _sections(found)}
    return {
        PAGE: filled_in(PAGE, __name__, "launcher/rules/script/, tools/generate/pages/lint-rules/", parts)
    }


def _rules() -> list[_Rule]:
    """Raises ValueError for a rule without an example, or one that does not give its finding."""
    by_name = {(each.code, each.rule): each for each in examples()}
    listed = []
    for description in rule_descriptions():
        for code in description.codes:
            example = by_name.pop((code, description.rule), None)
            if example is None:
                raise ValueError(
                    f"tools/generate/pages/lint-rules/ has no example of {code} {description.rule}"
                )
            found = [
                each for each in findings_in(example.bad, example.job, example.shell) if is_shown(each, code)
            ]
            if [each.code for each in found] != [code]:
                raise ValueError(f"the bad example of {code} {description.rule} gives {found}")
            listed.append(_Rule(description, example, found[0]))
    if by_name:
        raise ValueError(f"there are examples of rules that do not exist: {sorted(by_name)}")
    return listed


def _table(found: dict[str, list[_Rule]]) -> str:
    rows = []
    for code, rules in found.items():
        severities = sorted({each.finding.severity for each in rules}, key=list(Severity).index)
        job = "with a job" if all(each.description.with_job for each in rules) else ""
        title = as_markdown(CATALOGUE[code].title).replace("|", "\\|")
        fixes = " or ".join(sorted({_fix_word(each.finding) for each in rules} - {""}))
        rows.append((f"[{code}](#{code.lower()})", " or ".join(severities), title, fixes, job))
    return table_of(("code", "severity", "failure mode", "fix", ""), rows)


def _fix_word(finding: Finding) -> str:
    if finding.fix is None:
        return ""
    return "safe" if finding.fix.safe else "unsafe"


def _sections(found: dict[str, list[_Rule]]) -> str:
    parts = []
    for family, modes in FAMILIES.items():
        listed = [mode for mode in modes if mode.code in found]
        if listed:
            parts.append(f"## {family}\n")
        for mode in listed:
            parts.append(
                f"### {mode.code}\n\nThe failure mode: {as_markdown(mode.title)} "
                f"([cause and remedy](failure-modes/{page_of_code(mode.code)})).\n"
            )
            parts += [_section(each) for each in found[mode.code]]
    return "\n".join(parts)


def _section(rule: _Rule) -> str:
    description, example, finding = rule.description, rule.example, rule.finding
    job = f"With this in the job file:\n\n```yaml\n{example.job}```\n\n" if example.job else ""
    if example.shell:
        job += f"With this shell script beside it:\n\n```sh\n{example.shell}```\n\n"
    return (
        f"**{as_markdown(description.finds)}**\n\n"
        f"{as_markdown(description.why)}\n\n"
        f"{job}```diff\n{example.difference}```\n\n"
        f"{finding.severity.value.capitalize()}: {as_markdown(finding.message)}.{_of_fix(finding)}\n\n"
        f"Source: {_linked(as_markdown(description.source))}\n"
    )


def _of_fix(finding: Finding) -> str:
    if finding.severity is Severity.INFO:
        return " Shown with `--verbose`, and always in JSON and SARIF."
    if finding.fix is None:
        return ""
    return " `--fix` mends it." if finding.fix.safe else " `--fix --unsafe-fixes` mends it."


def _linked(source: str) -> str:
    """`the sources of DIST006` with a link to where they are listed."""
    return re.sub(
        r"\b[A-Z]{2,4}[0-9]{3}\b", lambda code: f"[{code[0]}](failure-modes/{page_of_code(code[0])})", source
    )
