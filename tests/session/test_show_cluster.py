"""Pictures: every text is drawn as wide as its box was made for, and what is missing is said."""

from __future__ import annotations

import re
from pathlib import Path
from xml.etree import ElementTree

import pytest

from launcher.failure_modes.model import Refusal
from launcher.session import show_cluster
from tools.generate.generated import ROOT

SVG = "{http://www.w3.org/2000/svg}"
DOT = """digraph { node [fontname="Helvetica" fontsize=12 shape=box];
a [label=<<B>Bold</B><BR/><FONT POINT-SIZE="11">small &amp; é</FONT>>]; a -> b [label="way"] }"""


@pytest.mark.parametrize("picture", ["architecture", "rooms"])
def test_no_text_leaves_its_box_in_any_font(picture: str) -> None:
    root = ElementTree.parse(ROOT / "docs" / f"{picture}.svg").getroot()
    nodes = [group for group in root.iter(f"{SVG}g") if group.get("class") == "node"]
    assert len(nodes) > 8
    for node in nodes:
        (outline,) = [each for each in node.iter(f"{SVG}path") if each.get("d")]
        across = [float(x) for x in re.findall(r"(-?[\d.]+),-?[\d.]+", outline.get("d", ""))]
        for text in node.iter(f"{SVG}text"):
            left = float(text.get("x", "nan"))
            assert text.get("lengthAdjust") == "spacingAndGlyphs"
            assert min(across) < left
            assert left + float(text.get("textLength", "nan")) < max(across), text.text


def test_bold_and_plain_texts_have_the_widths_that_graphviz_reckons_with() -> None:
    texts = {each.text: each for each in ElementTree.fromstring(show_cluster.render(DOT)).iter(f"{SVG}text")}
    assert texts.keys() == {"Bold", "small & é", "b", "way"}
    bold, small = (float(texts[each].get("textLength", "nan")) for each in ("Bold", "small & é"))
    assert bold == pytest.approx(26.66, abs=0.1) and small == pytest.approx(45.23, abs=0.1)


def test_without_node_a_picture_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show_cluster.shutil, "which", lambda *_, **__: None)
    with pytest.raises(Refusal, match="no node on PATH") as refused:
        show_cluster.render(DOT)
    assert "--picture" in refused.value.remedy


def test_without_the_package_a_picture_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(show_cluster, "_CHECKOUT", tmp_path)
    with pytest.raises(Refusal, match="wasm-graphviz is not in") as refused:
        show_cluster.render(DOT)
    assert "npm ci" in refused.value.remedy


def test_a_graph_that_cannot_be_read_is_refused() -> None:
    with pytest.raises(Refusal, match="node ended with 1: syntax error in line 1"):
        show_cluster.render("digraph {")
