"""What is installed before the script, and what of it would fail on the hosts: CODE005."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

TRAIN = {"source_dir": "src", "entry_point": "train.py"}
SMDDP = {"distribution": {"strategy": "smddp"}, "framework": {"name": "pytorch", "version": "2.0.1"}}


@pytest.fixture
def src(tmp_path: Path) -> Path:
    folder = tmp_path / "src"
    folder.mkdir()
    return folder


@pytest.fixture
def found(judge, src: Path) -> Callable[..., list[tuple[str, str]]]:
    """Severity and message of what is found in a requirements.txt with this text."""

    def found(text: str, **fields: object) -> list[tuple[str, str]]:
        (src / "requirements.txt").write_text(text)
        return [(each.severity.value, each.message) for each in judge("CODE005", **fields)]

    return found


def test_a_usual_file_is_fine(found) -> None:
    assert found("einops==0.8.0\ntransformers>=4.40\ntorch>=2.0\n--extra-index-url https://x.example\n") == []


def test_a_source_without_a_file_is_fine(judge) -> None:
    assert judge("CODE005") == []


def test_a_line_that_cannot_be_read_is_named_with_its_place(judge, src: Path) -> None:
    (src / "requirements.txt").write_text("einops\nnumpy=1\n")
    (finding,) = judge("CODE005")
    assert finding.message.startswith("requirements.txt, line 2: 'numpy=1' cannot be read: ")
    assert str(finding.location) == f"{src / 'requirements.txt'}:2:1"


def test_every_line_is_told_at_once(found) -> None:
    assert [severity for severity, _ in found("-e ../..\nnumpy=1\n-r base.txt\n")] == ["error"] * 3


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("numpy==1.26\nnumpy==2.0\n", "error"),
        ("Num_Py==1.26\nnum-py>=2\n", "error"),
        ("numpy>=2\n-c limits.txt\n", "error"),
        ("numpy>=1.20\nnumpy<2\n", "warning"),
        ("numpy==1.26\nnumpy==1.26\n", None),
        ("numpy==1.26; python_version < '3.12'\nnumpy==2.0; python_version >= '3.12'\n", None),
        ("numpy==1.*\nnumpy==1.26\n", "warning"),
    ],
)
def test_a_package_in_two_versions_is_refused(found, src: Path, text: str, severity: str | None) -> None:
    (src / "limits.txt").write_text("numpy==1.26\n")
    assert [each for each, _ in found(text)] == ([severity] if severity else [])


def test_the_two_lines_are_named(found) -> None:
    ((_, message),) = found("numpy==1.26\n\nnumpy==2.0\n")
    assert message == (
        "requirements.txt, line 3: numpy is asked for twice, as numpy==1.26 in requirements.txt, line 1 and "
        "as numpy==2.0: no version is both, and pip would install nothing"
    )


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("torch==2.6.0", True),
        ("torch<2.8", True),
        ("torch==2.8.0", False),
        ("torch>=2", False),
        ("torch", False),
    ],
)
def test_another_torch_than_the_images_cannot_be_installed(found, line: str, refused: bool) -> None:
    assert [severity for severity, _ in found(f"{line}\n")] == (["error"] if refused else [])


def test_the_version_of_a_framework_is_meant_in_full(found) -> None:
    short = {"name": "pytorch", "version": "2.8"}
    assert found("torch==2.8.0\n", framework=short) == []


def test_of_a_version_without_an_image_the_torch_is_not_known(found) -> None:
    assert found("torch==2.6.0\n", framework={"name": "pytorch", "version": "the newest"}) == []


def test_nothing_is_known_of_the_torch_of_an_own_image(found) -> None:
    own = "111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1"
    assert found("torch==2.6.0\n", framework=None, image=own) == []


def test_the_toolkit_replaces_the_images_torch(found) -> None:
    ((severity, message),) = found("torch==2.6.0\n", **SMDDP)
    assert severity == "warning"
    assert "the image's toolkit would replace that" in message


def test_a_named_file_must_be_packed_and_the_nearest_is_named(judge, src: Path) -> None:
    (src / "requirements-gpu.txt").write_text("einops\n")
    (finding,) = judge("CODE005", code_section={**TRAIN, "requirements": "requirements_gpu.txt"})
    assert finding.path == ("code", "requirements")
    assert finding.remedy.endswith("Did you mean requirements-gpu.txt?")


def test_a_named_file_that_is_left_out_is_told_with_the_pattern(judge, src: Path) -> None:
    (src / "gpu.txt").write_text("einops\n")
    (src / ".gitignore").write_text("*.txt\n")
    (finding,) = judge("CODE005", code_section={**TRAIN, "requirements": "gpu.txt"})
    assert finding.remedy.endswith(".gitignore leaves it out: the pattern *.txt fits gpu.txt.")


def test_where_nothing_is_to_be_installed_nothing_is_judged(found) -> None:
    assert found("numpy=1\n", code_section={**TRAIN, "requirements": "none"}) == []


@pytest.mark.parametrize(
    ("named", "refused"), [("none", True), ("gpu.txt", True), ("./requirements.txt", False)]
)
def test_the_toolkit_installs_requirements_txt_and_nothing_else(
    found, src: Path, named: str, refused: bool
) -> None:
    (src / "gpu.txt").write_text("einops\n")
    told = found("einops\n", code_section={**TRAIN, "requirements": named}, **SMDDP)
    assert ["toolkit of the image" in message for _, message in told] == ([True] if refused else [])


def test_the_toolkit_has_nothing_to_install_where_no_file_is_packed(judge) -> None:
    assert judge("CODE005", code_section={**TRAIN, "requirements": "none"}, **SMDDP) == []


@pytest.mark.parametrize(
    ("files", "says"),
    [
        pytest.param(
            {"src/train.py": "import utils\n", "src/utils.py": "", "src/.slipwayignore": "utils.py\n"},
            "leaves out",
            id="left out by a pattern",
        ),
        pytest.param(
            {"src/train.py": "import utils\n", "utils.py": ""}, "outside of", id="beside the source"
        ),
        pytest.param(
            {"src/train.py": "from net.vit import ViT\n", "src/net/__init__.py": ""},
            "is not in the package",
            id="lost",
        ),
        pytest.param({"src/train.py": "import utils\n", "src/utils.py": ""}, None, id="packed"),
        pytest.param(
            {"src/train.py": "from net import vit\n", "src/net/__init__.py": ""}, None, id="a name in it"
        ),
        pytest.param(
            {"src/train.py": "import utils\n", "utils.py": "", "src/requirements.txt": "utils==1\n"},
            None,
            id="installed",
        ),
        pytest.param({"src/train.py": "import logging\n", "logging.py": ""}, None, id="Python's own"),
        pytest.param(
            {"src/train.py": "import datasets\n", "datasets/a.csv": ""}, None, id="a folder of data"
        ),
        pytest.param(
            {
                "src/train.py": "try:\n    import utils\nexcept ImportError:\n    utils = None\n",
                "utils.py": "",
            },
            None,
            id="where it is there",
        ),
        pytest.param(
            {"src/train.py": "import sys\nsys.path.append('..')\nimport utils\n", "utils.py": ""},
            None,
            id="found elsewhere",
        ),
    ],
)
def test_modules_of_ones_own_are_packed(judge, files: dict[str, str], says: str | None) -> None:
    found = [each for each in judge("CODE005", files=files) if each.verified]
    assert [each.severity.value for each in found] == (["warning"] if says else [])
    assert all(says in each.message for each in found)


@pytest.mark.parametrize(
    ("text", "severity"),
    [
        ("torchvision==0.15.2\n", "error"),
        ("torchvision>=0.15\n", None),
        ("torchaudio==2.0.1\n", "error"),
        ("pandas>=2.2,<2.0\n", "error"),
        ("pandas>=2.0,<2.2\n", None),
        ("pandas>1.0,<1.1\n", None),
        ("cv2\n", "warning"),
        ("python>=3.10\n", "warning"),
        ("asyncio\n", "warning"),
        ("dataclasses; python_version < '3.7'\n", None),
        ("opencv-python-headless\nscikit-learn\n", None),
    ],
)
def test_requirements_that_no_package_fits(found, text: str, severity: str | None) -> None:
    assert [each for each, _ in found(text)] == ([severity] if severity else [])


def test_packages_that_nobody_lists_are_told(judge) -> None:
    script = {"src/train.py": "import json\nimport numpy\nimport lightly.loss\nimport timm\n"}
    (finding,) = judge("CODE005", files={**script, "src/requirements.txt": "einops\n"})
    assert (finding.severity, finding.verified) == ("info", False)
    assert "lightly, timm, which requirements.txt does not name" in finding.message
    assert judge("CODE005", files={**script, "src/requirements.txt": "lightly==1.5\ntimm\n"}) == []
    optional = "try:\n    import wandb\nexcept ImportError:\n    wandb = None\n"
    assert judge("CODE005", files={"src/train.py": optional, "src/requirements.txt": "einops\n"}) == []
