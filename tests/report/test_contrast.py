"""What the page writes and draws can be told from its ground, light and dark, by WCAG 2.2's ratios."""

from __future__ import annotations

import re
from importlib import resources

import pytest

STYLE = resources.files("launcher.report").joinpath("page.css").read_text("utf-8")
SCRIPT = resources.files("launcher.report").joinpath("page.js").read_text("utf-8")

TEXT, GRAPHICS = 4.5, 3.0
"""Success criteria 1.4.3 (text) and 1.4.11 (what graphics are understood by)."""

WRITTEN = ("ink", "soft", "link", "bad", "warn", "good")
GROUNDS = ("ground", "raised", "marked")


def palettes() -> dict[str, dict[str, str]]:
    """The variables of the style sheet, by the scheme that they are for."""
    blocks = [block for block in re.findall(r":root \{([^}]*)\}", STYLE) if "--ink" in block]
    assert len(blocks) == 3
    return {
        name: dict(re.findall(r"--(\w+): (#[0-9a-f]{6})", block))
        for name, block in zip(("light", "dark", "print"), blocks, strict=True)
    }


def drawn() -> dict[str, dict[str, str]]:
    """The colours of the charts, by scheme."""
    found = re.findall(r"[?:] \{ (ink: [^}]*) \}", SCRIPT)
    assert len(found) == 2
    return {
        name: dict(re.findall(r'(\w+): "(#[0-9a-f]{6})"', each))
        for name, each in zip(("light", "dark"), found, strict=True)
    }


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
@pytest.mark.parametrize("written", WRITTEN)
def test_text_can_be_read_on_every_ground(scheme: str, written: str) -> None:
    palette = palettes()[scheme]
    assert {
        ground: round(contrast(palette[written], palette[ground]), 2)
        for ground in GROUNDS
        if contrast(palette[written], palette[ground]) < TEXT
    } == {}


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_charts_are_drawn_on_the_ground_of_the_page(scheme: str) -> None:
    assert drawn()[scheme]["ground"] == palettes()[scheme]["ground"]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("name", "least"), [("ink", TEXT), ("soft", TEXT), ("red", TEXT), ("blue", GRAPHICS)]
)
def test_charts_can_be_told_from_their_ground(scheme: str, name: str, least: float) -> None:
    colours = drawn()[scheme]
    assert contrast(colours[name], colours["ground"]) >= least


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_name_of_a_phase_can_be_read_on_its_bar(scheme: str) -> None:
    colours = drawn()[scheme]
    assert contrast(colours["ground"], colours["grey"]) >= TEXT


def test_whoever_sees_no_red_tells_the_one_that_failed_by_its_shape() -> None:
    assert 'symbol: "diamond"' in SCRIPT
    assert 'type: "dashed"' in SCRIPT
