"""EC2's prices are read as other repositories write them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tools.facts.price_lists import PriceLists, aws_gpu_prices, karpenter_prices
from tools.generate import ec2_prices

SAMPLES = Path(__file__).with_name("samples")
KARPENTER = (SAMPLES / "zz_generated.pricing_aws.go").read_text("utf-8")
AWS_GPU = (SAMPLES / "all_gpu_instances.js").read_text("utf-8")


def test_of_karpenter_the_hosts_with_accelerators_are_read() -> None:
    assert karpenter_prices(KARPENTER) == PriceLists(
        "2026-07-20", {"us-east-1": {"p5.48xlarge": 55.04, "p5.4xlarge": 6.88}}
    )


def test_of_aws_gpu_all_regions_are_read() -> None:
    found = aws_gpu_prices(AWS_GPU)
    assert found.as_of == "2026-01-21"
    assert found.prices["eu-north-1"] == {"p5.48xlarge": 58.88}


@pytest.mark.parametrize("read", [karpenter_prices, aws_gpu_prices])
def test_a_file_in_another_form_is_not_taken_for_an_empty_one(read) -> None:
    with pytest.raises(ValueError, match="does not say when"):
        read("var prices = [];\n")


def test_the_table_takes_each_region_from_the_first_that_has_it(tmp_path: Path) -> None:
    karpenter = _clone(tmp_path / "one", "pkg/providers/pricing/zz_generated.pricing_aws.go", KARPENTER)
    aws_gpu = _clone(tmp_path / "two", "data/all_gpu_instances.js", AWS_GPU)
    table = ec2_prices.table([karpenter, aws_gpu])
    assert table["as_of"] == "2026-01-21"
    assert [(each["region"], each["as_of"], each["prices"]) for each in table["lists"]] == [
        ("us-east-1", "2026-07-20", {"p5.48xlarge": 55.04, "p5.4xlarge": 6.88}),
        ("eu-north-1", "2026-01-21", {"p5.48xlarge": 58.88}),
    ]
    assert all(" at commit " in each["source"] for each in table["lists"])


def test_without_both_clones_it_says_what_it_needs(capsys: pytest.CaptureFixture[str]) -> None:
    assert ec2_prices.main(["one"]) == 2
    assert "KARPENTER AWS_GPU" in capsys.readouterr().err


def _clone(folder: Path, path: str, text: str) -> str:
    (folder / path).parent.mkdir(parents=True)
    (folder / path).write_text(text, "utf-8")
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    for arguments in (("init", "-q"), ("add", "."), (*who, "commit", "-q", "-m", "prices")):
        subprocess.run(["git", "-C", str(folder), *arguments], check=True)
    return str(folder)
