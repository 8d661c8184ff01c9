"""Which versions and types a library runs with: the strategies' tables against the SageMaker SDK's."""

from __future__ import annotations

from collections.abc import Iterator
from fnmatch import fnmatchcase
from importlib.metadata import version

from launcher.cluster.instances import training_instance_types
from launcher.planning.images import image_versions
from launcher.planning.strategies import catalogue, toolkit
from launcher.planning.strategies.strategy import Support
from tools.facts.comparison import Comparison, compare, memberships

_IN_AN_IMAGE_OF_ANOTHER_NAME = "the library is in an image of another name, which the tables do not have"
_NEWER_THAN_THE_SDK_KNOWS = (
    "the SDK's list ends at 2.2.0; AWS's release notes of the library (2024-06-11) have PyTorch 2.3.0"
)


def data_parallel() -> Iterator[Comparison]:
    """smddp: ours are of the developer guide, so the SDK is another voice."""
    from sagemaker.core import fw_utils

    theirs = fw_utils.SM_DATAPARALLEL_SUPPORTED_FRAMEWORK_VERSIONS
    types = [name for name in fw_utils.SM_DATAPARALLEL_SUPPORTED_INSTANCE_TYPES if name.startswith("ml.")]
    figures = [
        *memberships("types of smddp", toolkit.SMDDP_SUPPORT.instance_types, types),
        *_versions("PyTorch", toolkit.SMDDP_SUPPORT, theirs["pytorch"]),
        *_versions("TensorFlow", toolkit.SMDDP_TENSORFLOW_SUPPORT, theirs["tensorflow"]),
    ]
    known = {
        f"{name} among the versions of {framework} with smddp": _IN_AN_IMAGE_OF_ANOTHER_NAME
        for framework, names in (("PyTorch", ["1.6.0"]), ("TensorFlow", ["2.3.1", "2.3.2"]))
        for name in names
    }
    known["2.3.0 among the versions of PyTorch with smddp"] = _NEWER_THAN_THE_SDK_KNOWS
    yield compare(_sdk("fw_utils"), figures, independent=True, known=known)


def _versions(framework: str, support: Support, theirs: list[str]) -> Iterator[tuple[str, bool, bool]]:
    """Of whole versions only: the SDK has short ones such as 1.7 beside them."""
    whole = [name for name in theirs if name.count(".") == 2]
    ours = support.versions()
    for name in sorted(set(ours) | {each for each in whole if each in image_versions(support.framework)}):
        yield f"{name} among the versions of {framework} with smddp", name in ours, name in whole


def training_compiler() -> Iterator[Comparison]:
    """torch_xla: the families of types that the compiler knows."""
    from sagemaker.core.training_compiler_config import TrainingCompilerConfig

    families = TrainingCompilerConfig.SUPPORTED_INSTANCE_CLASS_PREFIXES
    figures = (
        (
            f"{name} among the types of the Training Compiler",
            any(fnmatchcase(name, pattern) for pattern in toolkit.COMPILER_SUPPORT.instance_types),
            name.split(".")[1] in families,
        )
        for name in training_instance_types()
    )
    yield compare(_sdk("training_compiler_config"), figures, independent=False)


def torchrun_in_tuning_jobs() -> Iterator[Comparison]:
    """The first PyTorch whose toolkit starts torchrun."""
    from sagemaker.core import fw_utils

    figures = [
        (
            f"oldest PyTorch with torchrun on {processor}",
            catalogue.OLDEST_TORCH_IN_TUNING[processor],
            _oldest(names),
        )
        for processor, names in (
            ("gpu", fw_utils.TORCH_DISTRIBUTED_GPU_SUPPORTED_FRAMEWORK_VERSIONS),
            ("neuron", fw_utils.TRAINIUM_SUPPORTED_TORCH_DISTRIBUTED_FRAMEWORK_VERSIONS),
        )
    ]
    yield compare(_sdk("fw_utils"), figures, independent=False)


def _oldest(versions: list[str]) -> tuple[int, ...]:
    return min(tuple(int(number) for number in name.split(".")[:2]) for name in versions)


def _sdk(module: str) -> str:
    return f"sagemaker {version('sagemaker')}, {module}"
