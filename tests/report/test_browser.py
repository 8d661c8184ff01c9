"""The page in a real browser: the charts are drawn, light and dark, and nothing is refused or asked for."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from launcher.report.page import page_of
from tests.report.runs import failing_run, proof_run, report_of

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")

pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium on this machine")


def opened(file: Path, width: int, *, dark: bool) -> tuple[str, str]:
    """The document as the browser has it after its scripts have run, and what the browser's console says."""
    command = [
        str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
        f"--user-data-dir={file.parent / 'profile'}", "--enable-logging=stderr", "--virtual-time-budget=2000",
        f"--blink-settings=preferredColorScheme={0 if dark else 1}", f"--window-size={width},2000",
        "--dump-dom", file.as_uri(),
    ]  # fmt: skip
    done = subprocess.run(command, capture_output=True, timeout=200, check=True)
    console = [line for line in done.stderr.decode("utf-8", "replace").splitlines() if "CONSOLE" in line]
    return done.stdout.decode("utf-8"), "\n".join(console)


@pytest.mark.few_cases(every=2)
@pytest.mark.parametrize(("width", "dark"), [(390, True), (1440, False)])
def test_all_charts_are_drawn_and_nothing_is_refused(tmp_path: Path, width: int, *, dark: bool) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(report_of(failing_run())), "utf-8")
    document, console = opened(file, width, dark=dark)
    assert console == ""
    assert 'data-drawn="3"' in document
    sizes = [
        tuple(map(int, size)) for size in re.findall(r'<canvas[^>]* width="(\d+)" height="(\d+)"', document)
    ]
    assert len(sizes) >= 3
    # A window of the browser is never narrower than 500 pixels.
    assert all(100 < across <= max(width, 500) and high > 100 for across, high in sizes)


def test_the_curve_of_a_proof_is_drawn(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    file.write_text(page_of(report_of(proof_run())), "utf-8")
    document, console = opened(file, 820, dark=False)
    assert console == ""
    assert 'data-drawn="2"' in document


def test_a_script_in_a_line_does_not_run(tmp_path: Path) -> None:
    file = tmp_path / "page.html"
    html = page_of(report_of(failing_run()))
    # As if an escape had been forgotten somewhere: the policy stands behind it.
    file.write_text(html.replace("</main>", "<script>document.title='broken'</script></main>"), "utf-8")
    document, console = opened(file, 820, dark=False)
    assert "<title>broken" not in document
    assert "Content Security Policy" in console
    assert 'data-drawn="3"' in document
