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


@pytest.mark.parametrize("encoding", ["utf-16", "utf-32", "utf-8-sig"])
def test_a_file_that_a_mark_says_the_encoding_of_is_read_as_pip_reads_it(
    judge, src: Path, encoding: str
) -> None:
    (src / "requirements.txt").write_text("einops==0.8.0\nnumpy=1\n", encoding)
    (finding,) = judge("CODE005")
    assert "line 2: 'numpy=1' cannot be read" in finding.message


def test_a_source_without_a_file_is_fine(judge) -> None:
    assert judge("CODE005") == []


def test_a_line_that_cannot_be_read_is_named_with_its_place(judge, src: Path) -> None:
    (src / "requirements.txt").write_text("einops\nnumpy=1\n")
    (finding,) = judge("CODE005")
    assert finding.message.startswith("requirements.txt, line 2: 'numpy=1' cannot be read: ")
    assert str(finding.location) == f"{src / 'requirements.txt'}:2:1"


def test_a_file_of_another_kind_is_told_once(found) -> None:
    ((severity, message),) = found(
        "name: env\ndependencies:\n" + "".join(f"- p{n}=1=py_0\n" for n in range(40))
    )
    assert severity == "error"
    assert message.endswith("; 41 further lines cannot be read either")


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


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("numpy==1.17.4", True),
        ("numpy~=1.19.2", True),
        ("numpy<1.24", True),
        ("scipy>=1.2,<=1.10.1", True),
        ("scikit_image==0.18.*", True),
        ("Pillow===8.1.0", True),
        ("numpy==1.26.*", False),
        ("numpy<2", False),
        ("numpy!=1.26.0", False),
        ("numpy>=1.17", False),
        ("scipy", False),
        ("numpy==1.17.4; python_version < '3.8'", False),
        ("einops==0.3.0", False),
    ],
)
def test_a_version_without_a_wheel_for_the_images_python_cannot_be_installed(
    found, line: str, refused: bool
) -> None:
    said = found(f"{line}\n", framework={"name": "pytorch", "version": "2.8.0", "python": "py312"})
    assert [severity for severity, _ in said] == (["error"] if refused else [])
    assert all("no wheel for the image's Python 3.12" in message for _, message in said)


@pytest.mark.parametrize(
    ("line", "version", "refused"),
    [
        ("timm==0.3.2", "2.8.0", True),
        ("timm==0.3.2", "1.13.1", False),
        ("timm==0.4.12", "2.8.0", False),
        ("timm", "2.8.0", False),
        ("torchtext", "2.8.0", True),
        ("torchtext==0.18.0", "2.3.0", False),
    ],
)
def test_a_package_that_the_images_torch_does_not_run_is_named(
    found, line: str, version: str, refused: bool
) -> None:
    said = found(f"{line}\n", framework={"name": "pytorch", "version": version})
    assert [text for _, text in said if "every rank ends where it is imported" in text] == [
        text for _, text in said if refused
    ]
    assert bool(said) >= refused


def test_an_older_image_has_an_older_python(found) -> None:
    older = {"name": "pytorch", "version": "2.5.1", "python": "py311"}
    assert found("numpy==1.24.0\n", framework=older) == []
    assert found("numpy==1.24.0\n", here=True) == []


def test_a_run_here_may_have_another_torch_than_the_image(found) -> None:
    assert [severity for severity, _ in found("torch==2.6.0\n", here=True)] == ["warning"]


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


SYS = "import os, sys\nfrom pathlib import Path\n"


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
            {"src/train.py": "import figures\n", "figures/a.csv": ""},
            "neither the image",
            id="a folder of data",
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
            "outside of",
            id="above by a text",
        ),
        pytest.param(
            {
                "src/train.py": f"{SYS}sys.path.insert(0, os.path.join(os.path.dirname(__file__), '..'))\n"
                "from lib.data import x\n",
                "lib/data.py": "",
            },
            "outside of",
            id="above by the file, of a package without __init__",
        ),
        pytest.param(
            {
                "src/train.py": f"{SYS}ROOT = Path(__file__).resolve().parents[1]\n"
                "if str(ROOT) not in sys.path:\n    sys.path.append(str(ROOT))\nimport utils\n",
                "utils.py": "",
            },
            "outside of",
            id="above by a path, where it is not there yet",
        ),
        pytest.param(
            {
                "src/train.py": f"{SYS}sys.path.append('../lib')\nimport datalib\n",
                "lib/datalib.py": "",
            },
            "outside of",
            id="in a folder beside the source",
        ),
        pytest.param(
            {
                "src/train.py": "import sys\nsys.path.append('..')\nimport utils\n",
                "utils.py": "",
                "src/utils.py": "",
            },
            None,
            id="above, and packed too",
        ),
        pytest.param(
            {
                "src/train.py": f"{SYS}sys.path.append(os.path.join(os.path.dirname(__file__), 'vendor'))\n"
                "import utils\n",
                "utils.py": "",
                "src/vendor/utils.py": "",
            },
            None,
            id="in a folder of the source",
        ),
        pytest.param(
            {
                "src/train.py": "import sys\nsys.path.append('/opt/ml/input/data/code')\nimport utils\n",
                "utils.py": "",
            },
            None,
            id="in a folder of the container",
        ),
        pytest.param(
            {
                "src/train.py": f"{SYS}sys.path.append(os.environ['LIBRARIES'])\nsys.path.append('..')\n"
                "import utils\n",
                "utils.py": "",
            },
            None,
            id="in a folder that nobody knows",
        ),
        pytest.param(
            {"src/train.py": "import sys\nsys.path += ['..']\nimport utils\n", "utils.py": ""},
            None,
            id="added in another way",
        ),
        pytest.param(
            {
                "src/train.py": "import sys\nsys.path.append('..')\nimport utils\n",
                "utils.py": "",
                "src/requirements.txt": "utils==1\n",
            },
            None,
            id="above, and installed",
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
        ("requests>1.0,<1.1\n", None),
        ("cv2\n", "warning"),
        ("python>=3.10\n", "warning"),
        ("asyncio\n", "warning"),
        ("dataclasses; python_version < '3.7'\n", None),
        ("opencv-python-headless\nscikit-learn\n", None),
    ],
)
def test_requirements_that_no_package_fits(found, text: str, severity: str | None) -> None:
    assert [each for each, _ in found(text)] == ([severity] if severity else [])


IN_LOCKED_IMAGE = {"framework": {"name": "pytorch", "version": "2.12.1"}}
"""An image whose packages AWS publishes in full."""


def missing(judge, script: str, requirements: str | None = None, **fields: object) -> list[str]:
    """The packages that are surely missing, such as `timm line 3`."""
    files = {"src/train.py": script}
    if requirements is not None:
        files["src/requirements.txt"] = requirements
    found = [each for each in judge("CODE005", files=files, **{**IN_LOCKED_IMAGE, **fields}) if each.verified]
    assert all(each.severity.value == "warning" for each in found)
    return [f"{each.subject} line {each.location.line}" for each in found]


@pytest.mark.parametrize(
    ("script", "requirements", "expected"),
    [
        pytest.param("import torch\nimport timm\n", None, ["timm line 2"], id="no file at all"),
        pytest.param(
            "import timm\nfrom transformers import pipeline\n", "timm\n", ["transformers line 2"], id="one"
        ),
        pytest.param("import wandb, timm\n", "einops\n", ["wandb line 1", "timm line 1"], id="two in a line"),
        pytest.param(
            "from torch.utils.tensorboard import SummaryWriter\n",
            None,
            ["tensorboard line 1"],
            id="behind torch",
        ),
        pytest.param("from torch.utils import tensorboard\n", None, ["tensorboard line 1"], id="as a name"),
        pytest.param(
            "from transformers import Trainer\n", "transformers\n", ["accelerate line 1"], id="of the Trainer"
        ),
        pytest.param(
            "import transformers as tf\ntf.Trainer(None)\n",
            "transformers\n",
            ["accelerate line 1"],
            id="of the Trainer as a part",
        ),
        pytest.param("import hydra\n", "omegaconf\n", ["hydra-core line 1"], id="under the name of pip"),
        pytest.param("import h5py\n", None, ["h5py line 1"], id="no longer in the image"),
        pytest.param("import cv2\n", None, ["opencv-python-headless line 1"], id="on the CPU's image alone"),
    ],
)
def test_what_the_image_lacks_and_nobody_installs_is_named_at_its_line(
    judge, script: str, requirements: str | None, expected: list[str]
) -> None:
    assert missing(judge, script, requirements) == expected


@pytest.mark.parametrize(
    ("script", "requirements"),
    [
        pytest.param("import numpy, yaml, PIL, sklearn, dateutil, git\n", None, id="in the image"),
        pytest.param("import flash_attn\nimport deepspeed\n", None, id="built for the image"),
        pytest.param("from lightly import loss\nimport timm\n", "lightly==1.5\ntimm\n", id="listed"),
        pytest.param("import cv2\nimport bs4\n", "opencv-python\n", id="by another name"),
        pytest.param(
            "import huggingface_hub\nimport tokenizers\n", "transformers\n", id="brought by a listed one"
        ),
        pytest.param(
            "import pandas\nimport wandb\n", "wandb>=0.16; python_version > '3.8'\n", id="with a marker"
        ),
        pytest.param(
            "try:\n    import wandb\nexcept ImportError:\n    wandb = None\n", None, id="only if it is there"
        ),
        pytest.param("def plot():\n    import seaborn, wandb\n", None, id="in a function"),
        pytest.param(
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import timm\n", None, id="for types"
        ),
        pytest.param("import os\nif os.environ.get('LOG'):\n    import wandb\n", None, id="in a condition"),
        pytest.param("import smdistributed.dataparallel\n", None, id="not known"),
        pytest.param("import timm\n", "https://a.example/own-1.0-py3-none-any.whl\n", id="a wheel"),
        pytest.param("import timm\n", "git+https://github.com/a/b\n", id="a repository"),
        pytest.param("import timm\n", "a-package-of-ours\n", id="a package that nobody knows"),
        pytest.param("import boto3\nimport accelerate\n", "sagemaker[local]\naccelerate\n", id="extras"),
        pytest.param("import pip\npip.main(['install', 'timm'])\nimport timm\n", None, id="installs itself"),
        pytest.param("import slipway\nfrom slipway import guard\n", None, id="our own"),
        pytest.param("import __main__\nprint(__main__.__file__)\n", None, id="the script itself"),
    ],
)
def test_what_may_be_there_is_left_alone(judge, script: str, requirements: str | None) -> None:
    assert missing(judge, script, requirements) == []


@pytest.mark.parametrize(
    ("script", "requirements", "expected"),
    [
        ("import torch\nimport pointnet2_ops\n", None, ["pointnet2_ops line 2"]),
        ("import torch\nimport pointnet2_ops\n", "timm\n", ["pointnet2_ops line 2"]),
        ("import its_ops\n", "a-package-of-ours\n", []),
        ("import apex\n", "a-package-of-ours\n", ["apex line 1"]),
        ("import apex\n", "git+https://github.com/NVIDIA/apex\n", []),
        ("import apex\n", "git+https://github.com/NVIDIA/another\n", ["apex line 1"]),
        ("import apex\n", "# pip install apex\ntimm\n", ["apex line 1"]),
        ("import timm\n", "git+https://github.com/openai/CLIP.git\n", ["timm line 1"]),
        ("import clip\nimport ftfy\n", "git+https://github.com/openai/CLIP.git\n", []),
        ("import sys\nsys.path.insert(0, 'data/api')\nimport timm\n", None, ["timm line 3"]),
        ("print('pip install timm')\nimport timm\n", None, ["timm line 2"]),
        ("import os\nos.system('pip install timm')\nimport timm\n", None, []),
        ("try:\n    import pointnet2_ops\nexcept ImportError:\n    pass\n", None, []),
        ("import horovod.torch as hvd\n", None, ["horovod line 1"]),
        ("import horovod.torch as hvd\n", "horovod==0.28.1\n", []),
    ],
)
def test_a_module_that_nothing_brings_is_warned_of(
    judge, script: str, requirements: str | None, expected: list[str]
) -> None:
    assert missing(judge, script, requirements) == expected


@pytest.mark.parametrize(
    ("script", "version", "requirements", "expected"),
    [
        (
            "import torchaudio\n\ndef read(path):\n    return torchaudio.load(path)\n",
            "2.10.0",
            None,
            ["line 1"],
        ),
        ("import torchaudio as ta\nta.save('a.wav', None, 8)\n", "2.10.0", "timm\n", ["line 1"]),
        ("from torchaudio import load\n", "2.9.0", None, ["line 1"]),
        ("import torchaudio\ntorchaudio.load('a.wav')\n", "2.10.0", "torchcodec==0.10.0\n", []),
        ("import torchaudio\ntorchaudio.load('a.wav')\n", "2.8.0", None, []),
        ("import torchaudio\nprint(torchaudio.transforms.Resample())\n", "2.10.0", None, []),
        ("import torchaudio, soundfile\nsoundfile.read('a.wav')\n", "2.10.0", "soundfile\n", []),
    ],
)
def test_since_2_9_torchaudio_needs_torchcodec(
    judge, script: str, version: str, requirements: str | None, expected: list[str]
) -> None:
    found = missing(judge, script, requirements, framework={"name": "pytorch", "version": version})
    assert [each.rpartition("torchcodec ")[2] for each in found] == expected


def test_extensions_whose_sources_alone_are_packed_are_warned_of_once_a_line(judge) -> None:
    files = {
        "src/train.py": "from ops import pool\n",
        "src/ops/__init__.py": "",
        "src/ops/pool.py": "import top_pool, left_pool\n",
        "src/ops/src/top_pool.cpp": "",
        "src/ops/src/left_pool.cu": "",
    }
    (finding,) = judge("CODE005", files=files)
    assert "pool.py imports top_pool, left_pool: neither the image nor the source folder has them" in (
        finding.message
    )
    assert judge("CODE005", files=files | {"src/requirements.txt": "./ops\n", "src/ops/setup.py": ""}) == []


@pytest.mark.parametrize(
    ("script", "line", "version", "refused"),
    [
        ("from pycocotools.cocoeval import COCOeval\n", "cocoapi.git#subdirectory=PythonAPI", "2.6.0", True),
        ("from pycocotools.cocoeval import COCOeval\n", "cocoapi.git#subdirectory=PythonAPI", "2.2.0", False),
        ("from pycocotools.coco import COCO\n", "cocoapi.git#subdirectory=PythonAPI", "2.6.0", False),
        ("from pycocotools.cocoeval import COCOeval\n", "another.git", "2.6.0", False),
    ],
)
def test_the_first_evaluation_of_coco_is_said_to_end_with_a_newer_numpy(
    judge, script: str, line: str, version: str, refused: bool
) -> None:
    files = {"src/train.py": script, "src/requirements.txt": f"git+https://github.com/cocodataset/{line}\n"}
    found = judge("CODE005", files=files, framework={"name": "pytorch", "version": version})
    assert [each.severity.value for each in found if "np.float" in each.message] == ["error"] * refused


@pytest.mark.parametrize(
    "other",
    [
        {},
        {"src/lib/ops/_ext.pyx": ""},
        {"src/lib/ops/_ext.cpython-312.so": ""},
        {"src/lib/ops/_ext.so": ""},
        {"src/lib/ops/_ext/__init__.py": ""},
        {"src/lib/ops/_ext.py": ""},
    ],
)
def test_a_part_that_a_package_lacks_is_warned_of(judge, other: dict[str, str]) -> None:
    files = {
        "src/train.py": "import sys\nsys.path.insert(0, 'lib')\nfrom ops import norm\n",
        "src/lib/ops/__init__.py": "",
        "src/lib/ops/norm.py": "from ._ext import forward\n",
    }
    found = [each.subject for each in judge("CODE005", files=files | other) if each.verified]
    is_there = any(not each.endswith(".pyx") for each in other)
    assert found == ([] if is_there else ["ops._ext"])


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"framework": {"name": "pytorch", "version": "2.8.0"}}, []),
        ({"framework": {"name": "pytorch", "version": "2.5.1"}}, []),
        ({"resources": {"instance_type": "ml.m5.xlarge"}}, ["tensorboard line 2"]),
        ({"resources": {"instance_type": "ml.g5.xlarge"}}, ["cv2", "tensorboard line 2"]),
        ({"resources": {"instance_type": "ml.unheard.of"}}, ["tensorboard line 2"]),
    ],
)
def test_each_image_is_known_by_itself(judge, fields: dict[str, object], expected: list[str]) -> None:
    script = "import cv2\nfrom torch.utils.tensorboard import SummaryWriter\n"
    found = missing(judge, script, **fields)
    assert [each.replace("opencv-python-headless line 1", "cv2") for each in found] == expected


def test_a_newer_image_than_those_that_are_known_is_taken_to_lack_the_same(judge) -> None:
    newest = {"framework": {"name": "pytorch", "version": "2.14"}}
    script = "from torch.utils.tensorboard import SummaryWriter\nimport pandas\n"
    (finding,) = judge("CODE005", files={"src/train.py": script}, **newest)
    assert finding.subject == "tensorboard"
    assert "neither the image (by what that of 2.13.0 holds) nor the source folder has it" in finding.message
    files = {"src/train.py": "import torchvision\n", "src/requirements.txt": "torchvision==0.28.0\n"}
    assert judge("CODE005", files=files, **newest) == []


def test_nothing_is_known_of_other_images(judge) -> None:
    for image in (
        "111122223333.dkr.ecr.us-west-2.amazonaws.com/own:1",
        "763104351884.dkr.ecr.us-west-2.amazonaws.com/huggingface-pytorch-training:2.12.1-gpu-py312",
    ):
        assert missing(judge, "import transformers\n", framework=None, image=image) == []


def test_an_image_of_aws_that_is_named_is_known_too(judge) -> None:
    image = "763104351884.dkr.ecr.us-west-2.amazonaws.com/pytorch-training:2.8.0-gpu-py312"
    assert missing(judge, "import transformers\n", framework=None, image=image) == ["transformers line 1"]


def test_a_module_of_the_program_itself_is_no_package(judge) -> None:
    files = {"src/train.py": "import timm\nimport wandb.own\n", "src/timm.py": "", "src/wandb/own.py": ""}
    assert [each for each in judge("CODE005", files=files, **IN_LOCKED_IMAGE) if each.verified] == []


def test_what_imported_files_import_is_told_at_their_lines(judge) -> None:
    files = {"src/train.py": "import net\n", "src/net.py": "import torch\n\nimport timm\n"}
    (finding,) = judge("CODE005", files=files, **IN_LOCKED_IMAGE)
    assert str(finding.location).endswith("src/net.py:3:1")
    assert finding.message.startswith("net.py imports timm: neither the image nor the source folder has it")


@pytest.mark.parametrize(
    ("before", "after"),
    [(None, "timm\n"), ("", "timm\n"), ("einops\n", "einops\ntimm\n"), ("einops", "einops\ntimm\n")],
)
def test_the_fix_is_the_line_that_is_missing(judge, src: Path, before: str | None, after: str) -> None:
    files = {"src/train.py": "import timm\n"}
    if before is not None:
        files["src/requirements.txt"] = before
    (finding,) = judge("CODE005", files=files, **IN_LOCKED_IMAGE)
    (edit,) = finding.fix.edits
    text = before or ""
    assert Path(edit.file) == src / "requirements.txt"
    assert text[: edit.start] + edit.text + text[edit.end :] == after
    assert "Add the line timm to requirements.txt" in finding.remedy


def test_a_file_with_hashes_is_not_added_to(judge) -> None:
    text = "einops==0.8.0 --hash=sha256:" + "0" * 64 + "\n"
    (finding,) = judge(
        "CODE005", files={"src/train.py": "import timm\n", "src/requirements.txt": text}, **IN_LOCKED_IMAGE
    )
    assert finding.fix is None


def test_of_an_image_that_is_not_known_one_is_reminded(judge) -> None:
    old = {"framework": {"name": "pytorch", "version": "2.5.1"}}
    script = {"src/train.py": "import json\nimport numpy\nimport lightly.loss\nimport timm\n"}
    (finding,) = judge("CODE005", files={**script, "src/requirements.txt": "einops\n"}, **old)
    assert (finding.severity, finding.verified) == ("info", False)
    assert "lightly, timm, which requirements.txt does not name" in finding.message
    assert judge("CODE005", files={**script, "src/requirements.txt": "lightly==1.5\ntimm\n"}, **old) == []


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("torchvision==0.27.1", False),
        ("torchvision==0.26.0", True),
        ("torchaudio==2.11.0", False),
        ("torchaudio<2.9", True),
    ],
)
def test_what_is_built_for_another_torch_than_a_new_images_is_refused(
    found, line: str, refused: bool
) -> None:
    assert [each for each, _ in found(f"{line}\n", **IN_LOCKED_IMAGE)] == (["error"] if refused else [])


def test_requirements_that_git_ignores_are_not_installed(judge, src: Path) -> None:
    (src / "requirements.txt").write_text("einops\n")
    (src / ".gitignore").write_text("*.txt\n")
    (finding,) = judge("CODE005")
    assert finding.severity.value == "warning"
    assert "left out by .gitignore (the pattern *.txt): nothing of what it asks for" in finding.message


def test_requirements_that_are_left_out_for_jobs_are_meant_to_be(judge, src: Path) -> None:
    (src / "requirements.txt").write_text("einops\n")
    (src / ".slipwayignore").write_text("*.txt\n")
    assert judge("CODE005") == []


@pytest.mark.parametrize(
    ("line", "refused"),
    [
        ("opencv-python==4.5.1.48", True),
        ("opencv-python==3.4.18.65", False),
        ("opencv-python==4.8.0.74", False),
        ("sentencepiece==0.1.95", True),
        ("sentencepiece==0.1.99", False),
        ("PyYAML==5.4.1", True),
        ("PyYAML==5.3", False),
        ("numpy==1.26.0", True),
        ("numpy==1.26.4", False),
        ("sklearn==0.0", False),
        ("sklearn", True),
    ],
)
def test_an_old_version_with_a_wheel_or_a_source_that_builds_is_fine(found, line: str, refused: bool) -> None:
    framework = {"name": "pytorch", "version": "2.10.0", "python": "py313"}
    assert bool(found(f"{line}\n", framework=framework)) is refused
