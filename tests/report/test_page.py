"""The page of a run: well formed, asking nothing of a network, and inert whatever the run printed."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
import subprocess
from dataclasses import replace
from html.parser import HTMLParser
from importlib import resources
from importlib.resources import files
from itertools import pairwise, product
from pathlib import Path

import pytest

import launcher.report
from launcher.diagnosis.logs.lines import Record
from launcher.diagnosis.model import AccountCheck, CheckOutcome
from launcher.experiments.fabric_proof import RECORD_MARK
from launcher.report import sentences
from launcher.report.page import charts_of, is_ours, page_of
from launcher.report.run_report import PlannedFinding, PlannedRun, PlannedSetting, RunJob, RunPhase
from tests.report.runs import START, failing_run, long_run, proof_run, raising_run, report_of

VOID = {"meta", "link", "br", "img", "input", "hr"}
FIVE_MB = 5_000_000


class Page(HTMLParser):
    """What a browser would find: tags with their attributes in their order, texts, and what is not closed."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.mistakes: list[str] = []
        self.texts: dict[str, list[str]] = {}
        self.reading: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if not self.open or self.open[-1] != tag:
            self.mistakes.append(f"</{tag}> in {self.open[-3:]}")
        else:
            self.open.pop()

    def handle_data(self, data: str) -> None:
        if self.open:
            self.texts.setdefault(self.open[-1], []).append(data)
            if self.open[-1] not in ("script", "style"):
                self.reading.append(data)

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.tags if name == tag]

    @property
    def words(self) -> str:
        """All that is read in its order, without scripts and styles."""
        return " ".join(self.reading)


def said(html: str) -> str:
    """The words of a page, with single spaces."""
    return " ".join(Page(html).words.split())


@pytest.fixture(scope="module")
def whole() -> str:
    """A page with everything that a page can have."""
    planned = PlannedRun(
        findings=(PlannedFinding("EFA001", "warning", "the group lacks a rule", "Add it.", ignored=True),),
        settings=(PlannedSetting("NCCL_DEBUG", "WARN", "tells of errors", yours="NCCL_DEBUG=INFO"),),
        request={"TrainingJobName": "demo"},
        job={"name": "demo"},
        cost="12.00 USD an hour",
        usd_per_hour=12.0,
    )
    job = RunJob(
        "Failed", True, 900.0, 2, 2, "ml.p4d.24xlarge",
        (RunPhase("Starting", START - 60, START), RunPhase("Training", START, START + 25)),
    )  # fmt: skip
    return page_of(report_of(failing_run(), name="demo", job=job, planned=planned))


def test_every_element_is_closed_and_every_id_is_there_once(whole: str) -> None:
    page = Page(whole)
    assert (page.mistakes, page.open) == ([], [])
    ids = [attributes["id"] for _, attributes in page.tags if "id" in attributes]
    assert len(ids) == len(set(ids))
    for _, attributes in page.tags:
        for name in ("aria-labelledby", "aria-describedby"):
            assert attributes.get(name) is None or attributes[name] in ids
        target = attributes.get("href") or "#main"
        assert target.startswith("#") and target[1:] in ids


def test_a_screen_reader_finds_its_way(whole: str) -> None:
    page = Page(whole)
    assert page.named("html") == [{"lang": "en"}]
    for landmark in ("header", "nav", "main", "footer", "h1"):
        assert len(page.named(landmark)) == 1
    levels = [int(tag[1]) for tag, _ in page.tags if re.fullmatch(r"h[1-6]", tag)]
    assert all(below - above <= 1 for above, below in pairwise(levels))
    assert len(page.named("caption")) == len(page.named("table")) > 4
    assert all(head.get("scope") == "col" for head in page.named("th"))
    charts = [attributes for attributes in page.named("div") if attributes.get("class") == "chart"]
    assert len(charts) == 3
    assert all(chart["role"] == "img" and chart["aria-label"] for chart in charts)
    scrolled = [attributes for attributes in page.named("div") if attributes.get("class") == "scroll"]
    assert all(each.get("tabindex") == "0" and ("aria-label" in each or "aria-labelledby" in each)
               for each in scrolled)  # fmt: skip


def test_nothing_is_asked_of_a_network(whole: str) -> None:
    page = Page(whole)
    refused = {"src", "srcset", "style", "onclick"}
    assert not [attributes for _, attributes in page.tags if refused & set(attributes)]
    assert not page.named("link") and not page.named("iframe") and not page.named("img")
    (policy,) = [each["content"] or "" for each in page.named("meta") if each.get("http-equiv")]
    assert policy.startswith("default-src 'none'; ")
    assert "http" not in policy and "unsafe" not in policy
    styles = "".join(page.texts["style"])
    assert "url(" not in styles and "@import" not in styles


def test_the_policy_allows_the_scripts_of_the_page_and_no_others(whole: str) -> None:
    scripts = [inside for _, inside in re.findall(r"<(script|style)>(.*?)</\1>", whole, re.S)]
    assert len(scripts) == 3
    hashes = {base64.b64encode(hashlib.sha256(each.encode()).digest()).decode() for each in scripts}
    (policy,) = [each["content"] or "" for each in Page(whole).named("meta") if each.get("http-equiv")]
    assert set(re.findall(r"'sha256-([^']+)'", policy)) == hashes


def test_the_page_tells_what_happened_what_was_planned_and_what_it_cost(whole: str) -> None:
    words = Page(whole).words
    for text in (
        "demo failed after 15m00s: rank 2 on algo-2: the GPU is full",
        "At most 3.00 USD for 15m00s",
        "the group lacks a rule",
        "NCCL_DEBUG=INFO",
        "tells of errors",
        "Connection closed by peer",
        "failed first",
    ):
        assert text in words


def test_how_sure_the_cause_is_and_what_else_it_may_be_are_told(whole: str) -> None:
    failed = "[rank0]: ncclSystemError: System call (e.g. socket, malloc) or external library call failed"
    ended = "[rank1]: RuntimeError: DataLoader worker (pid(s) 9120, 9123) exited unexpectedly"
    run = report_of([Record(START, "algo-1", line) for line in (failed, ended)], name="demo")
    cause, other = run.diagnosis.root_cause, run.diagnosis.runner_up
    assert cause is not None and other is not None
    words = said(page_of(run))
    assert f"How sure? {sentences.sureness_in_words(cause.sureness)}" in words
    assert f"It may as well be {other.code} {other.message}" in words
    sure = said(whole)
    assert "How sure? Yes: the line itself tells what failed." in sure
    assert "It may as well be" not in sure


def test_what_the_account_shows_is_told_with_a_remedy_for_what_is_wrong() -> None:
    run = report_of(failing_run(), name="demo")
    checks = (
        AccountCheck("EFA001", CheckOutcome.RIGHT, "sg-1 is right, so not EFA001", "Nothing."),
        AccountCheck("EFA002", CheckOutcome.WRONG, "sg-1 has no egress to itself", "Add the rule."),
    )
    html = page_of(replace(run, diagnosis=replace(run.diagnosis, checked=checks)))
    page, words = Page(html), said(html)
    assert "Checked in the account right sg-1 is right, so not EFA001" in words
    assert "wrong sg-1 has no egress to itself Add the rule." in words
    assert "Nothing." not in words
    assert (page.mistakes, page.open) == ([], [])


def test_of_what_nobody_has_explained_the_summary_and_the_unusual_lines_are_shown() -> None:
    run = report_of([Record(START, "algo-1", "the flux capacitor failed: <b>1.21</b>")], name="demo")
    assert run.diagnosis.summary is not None
    page = Page(page_of(run))
    assert "nothing known was met in 1 line" in page.words
    assert "the flux capacitor failed: <b>1.21</b>" in page.words
    assert (page.mistakes, page.open) == ([], [])
    assert {"href": "#unexplained"} in page.named("a")


def test_whatever_scrolls_or_opens_is_reached_by_the_keyboard(whole: str) -> None:
    page, style = Page(whole), files("launcher.report").joinpath("page.css").read_text("utf-8")
    scrolling = set(re.findall(r"^([\w.]+) \{[^}]*overflow: auto", style, re.MULTILINE))
    assert scrolling == {"pre", ".scroll"}
    scrolled = [each for tag, each in page.tags if tag == "pre" or each.get("class") == "scroll"]
    assert scrolled and all(each.get("tabindex") == "0" for each in scrolled)
    assert {each["tabindex"] for _, each in page.tags if "tabindex" in each} == {"0"}
    assert "outline: none" not in style and "outline: 0" not in style
    assert len(page.named("details")) == len(page.named("summary")) > 3
    first = next(each for tag, each in page.tags if tag == "a")
    assert first == {"class": "skip", "href": "#main"}


def test_the_whole_traceback_of_the_rank_that_failed_is_on_the_page() -> None:
    run = report_of(raising_run(), name="demo")
    assert [line.text for line in run.context] == [
        "Traceback (most recent call last):",
        '  File "/opt/ml/code/train.py", line 9, in <module>',
        "    main()",
        '  File "/opt/ml/code/train.py", line 5, in main',
        '    return batch["labels"]',
        "           ~~~~~^^^^^^^^^^",
        "KeyError: 'labels'",
    ]
    assert [line.text for line in run.context if line.is_cause] == ["KeyError: 'labels'"]
    assert {line.rank for line in run.context} == {1}
    page = Page(page_of(run))
    assert {"href": "#context"} in page.named("a")
    assert '<h2 id="context-title">The traceback</h2>' in page_of(run)
    assert run.incident is not None
    assert (run.incident.rank, run.incident.at, run.incident.is_exact) == (1, START + 20, True)


def test_what_was_accepted_is_no_alarm_and_stands_below_what_was_not() -> None:
    findings = (
        PlannedFinding("DIST001", "error", "seven GPUs idle", "Use them.", ignored=True),
        PlannedFinding("EFA001", "warning", "the group lacks a rule", "Add it."),
    )
    planned = PlannedRun(findings, (), None, {}, "")
    html = page_of(report_of([], planned=planned))
    assert '<span class="tag accepted">accepted</span>' in html
    assert '<span class="tag error">' not in html
    assert said(html).index("EFA001") < said(html).index("DIST001")


def test_what_stands_between_backticks_is_code_and_what_a_run_put_there_stays_text() -> None:
    findings = (PlannedFinding("S3001", "info", "`<b>x</b>` is wrong", "Give `output.s3_uri`."),)
    html = page_of(report_of([], planned=PlannedRun(findings, (), None, {}, "")))
    assert "Give <code>output.s3_uri</code>." in html
    assert "<code>&lt;b&gt;x&lt;/b&gt;</code> is wrong" in html


HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(1)>",
    "\x1b]52;c;ZXZpbA==\x07\x1b[2J\x1b[31mred",
    "\u202eevil\u2066 \u009b31m \x00",
    "{{ 7 * 7 }} {% include '/etc/passwd' %}",
    "\ud800 half a surrogate",
)


@pytest.mark.parametrize("text", HOSTILE)
def test_what_a_run_prints_is_only_shown(text: str) -> None:
    lines = [
        Record(START, text, f"[rank0]: step=1 loss=2 {text}"),
        Record(START + 1, text, f"[rank0]: step=2 loss=1 {text}"),
        Record(START + 2, text, f"[rank0]: RuntimeError: {text}"),
    ]
    html = page_of(report_of(lines, name=text))
    page = Page(html)
    assert (page.mistakes, page.open) == ([], [])
    assert len(page.named("script")) == 3 and not page.named("img")
    assert "49 " not in page.words
    charts = json.loads(page.texts["script"][0])
    for shown in (page.words, str(charts["timeline"]["rows"])):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]", shown)


def test_secrets_are_hidden_and_long_lines_cut() -> None:
    key = "AKIAIOSFODNN7EXAMPLE"
    html = page_of(report_of([Record(None, "", f"RuntimeError: cannot log in: api_key={key}")]))
    assert key not in html and "[hidden]" in html
    # A line of ten megabytes is cut.
    html = page_of(report_of([Record(START, "algo-1", "RuntimeError: " + "x" * 10_000_000)]))
    assert len(html) < FIVE_MB


def test_a_day_of_512_ranks_is_one_page_below_five_megabytes() -> None:
    run = report_of(long_run(512, hours=24, every=1800))
    html = page_of(run)
    assert len(html.encode()) < FIVE_MB
    charts = json.loads(Page(html).texts["script"][0])
    assert len(charts["timeline"]["rows"]) == 512
    assert len(charts["timeline"]["spans"]) > 5_000


def test_a_run_without_lines_says_so_and_needs_no_script() -> None:
    html = page_of(report_of([]))
    assert "There are no log lines" in Page(html).words
    assert "<script" not in html
    assert "script-src &#39;none&#39;" in html


def test_a_page_is_known_by_its_beginning(whole: str) -> None:
    assert is_ours(whole[:2000])
    assert not is_ours("<!DOCTYPE html><html><head><title>mine</title>")


def test_the_charting_library_is_the_one_that_its_note_names() -> None:
    folder = Path(launcher.report.__file__).parent / "echarts"
    digest = hashlib.sha256((folder / "echarts.min.js").read_bytes()).hexdigest()
    assert f"SHA-256 of the file: {digest}" in (folder / "README.md").read_text("utf-8")
    assert (folder / "echarts.min.js").stat().st_size < 700_000, "more of it than the page draws with"
    assert "Apache License" in (folder / "LICENSE").read_text("utf-8")


STYLE = resources.files("launcher.report").joinpath("page.css").read_text("utf-8")
SCRIPT = resources.files("launcher.report").joinpath("page.js").read_text("utf-8")

TEXT, GRAPHICS = 4.5, 3.0
"""Success criteria 1.4.3 (text) and 1.4.11 (what graphics are understood by)."""

WRITTEN = ("ink", "soft", "link", "bad", "warn", "good")
GROUNDS = ("ground", "raised", "marked")


def palettes() -> dict[str, dict[str, str]]:
    """The variables of the style sheet, by the scheme that they are for."""
    blocks = [block for block in re.findall(r":root \{([^}]*)\}", STYLE) if "--ink" in block]
    colours = [dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block)) for block in blocks]
    return dict(zip(("light", "dark", "print"), colours, strict=True))


def drawn() -> dict[str, dict[str, str]]:
    """The colours of the charts, by scheme."""
    found = re.findall(r"[?:] \{ (ink: [^}]*) \}", SCRIPT)
    colours = [dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', each)) for each in found]
    return dict(zip(("light", "dark"), colours, strict=True))


def luminance(colour: str) -> float:
    """The relative luminance of WCAG: 0 for black, 1 for white."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    high, low = sorted((luminance(one), luminance(other)), reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_the_ratio_is_that_of_the_standard() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


@pytest.mark.parametrize("scheme", ["light", "dark", "print"])
def test_text_can_be_read_on_every_ground(scheme: str) -> None:
    palette = palettes()[scheme]
    ratios = {pair: contrast(*(palette[each] for each in pair)) for pair in product(WRITTEN, GROUNDS)}
    assert {pair: ratio for pair, ratio in ratios.items() if ratio < TEXT} == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_charts_are_drawn_on_the_ground_of_the_page_and_can_be_told_from_it(scheme: str) -> None:
    colours = drawn()[scheme]
    ground = colours["ground"]
    assert ground == palettes()[scheme]["ground"]
    # The grey is that of a phase, whose name stands on its bar.
    least = {"ink": TEXT, "soft": TEXT, "red": TEXT, "blue": GRAPHICS, "grey": TEXT}
    assert [name for name in least if contrast(colours[name], ground) < least[name]] == []


def test_prose_is_as_wide_as_its_rules_and_tables_scroll_inside() -> None:
    assert re.findall(r"^(\w+)[^{}]*\{[^{}]*max-width: \d", STYLE, re.MULTILINE) == ["body"]
    assert re.search(r"^\.scroll \{[^}]*overflow: auto", STYLE, re.MULTILINE)


@pytest.mark.skipif(shutil.which("node") is None, reason="there is no node on this machine")
def test_axes_are_in_units_that_people_read() -> None:
    functions = SCRIPT[SCRIPT.index("  const elapsed") : SCRIPT.index("  const placed")]
    asked = (
        "[0, 0.5, 0.00008, -0.0002, 0.1 + 0.2, 20000, 3000000].map(read),"
        "[0, 0.052, 0.5, 1.25, 90].map(lasting)"
    )
    done = subprocess.run(
        ["node", "-e", f"{functions} console.log(JSON.stringify([{asked}]))"],
        capture_output=True, check=True, text=True, timeout=60,
    )  # fmt: skip
    numbers, times = json.loads(done.stdout)
    assert numbers == ["0", "0.5", "8e-5", "-2e-4", "0.3", "20,000", "3e6"]
    assert times == ["0", "52 ms", "500 ms", "1.25 s", "1m30s"]
    # Epochs and steps are whole, and so are the places of their axis.
    assert "minInterval: 1" in SCRIPT


def test_whoever_sees_no_red_tells_the_one_that_failed_by_its_shape() -> None:
    assert 'symbol: "diamond"' in SCRIPT
    assert 'type: "dashed"' in SCRIPT


def test_the_page_of_a_proof_shows_the_curve_the_limit_and_the_slow_host() -> None:
    run = report_of(proof_run())
    html = page_of(run)
    chart = charts_of(run)["network"]
    assert chart == {"sizes": ["1.0 MiB", "1.0 GiB"], "values": [3.0, 9.4], "limit": 50.0, "enough": 25.0}
    assert '<div class="chart" id="network"' in html
    assert "18 % of the 50 GB/s" in html
    assert "&lt;b&gt;algo-2 is slow" in html
    assert "<b>algo-2" not in html
    assert '<a href="#network-section">' in html


def test_without_a_rate_the_curve_of_a_proof_has_no_limit() -> None:
    chart = charts_of(report_of(proof_run(gbps=None)))["network"]
    assert (chart["limit"], chart["enough"]) == (None, None)


def test_a_broken_record_and_runs_that_are_no_proof_have_no_part_on_the_network(whole: str) -> None:
    broken = [*proof_run()[:1], Record(START + 60, "algo-1", f"{RECORD_MARK}{{}}")]
    for html in (page_of(report_of(broken)), whole):
        assert "Network between hosts" not in html
