"""GPU names: aliases, families and what a workload was measured on."""

import pytest

from app.domain.errors import AmbiguousGpuError, UnknownGpuError
from app.pricing.gpus import (
    boards_of_chip,
    canonical_gpu_name,
    nearest_gpu_names,
    resolve_gpu,
    specification_of,
    specifications,
    variants_of,
)


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("A100-SXM4-40GB", "A100-40GB"),
        ("nvidia-tesla-a100", "A100-40GB"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("Quadro RTX 8000", "RTX8000"),
        ("NVIDIA A100-SXM4-80GB", "A100-80GB"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("nvidia-h100-mega-80gb", "H100"),
        ("h100 pcie", "H100-PCIe"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("Tesla V100-SXM2-16GB", "V100-16GB"),
        ("V100S-PCIE-32GB", "V100S"),
        ("Tesla V100-PCIE-16GB", "V100-16GB-PCIe"),
        ("NVIDIA V100-PCIE-32GB", "V100-32GB-PCIe"),
        ("Tesla P100-PCIE-16GB", "P100"),
        ("NVIDIA_Tesla_T4", "T4"),
        ("NVIDIA RTX A6000", "A6000"),
        ("NVIDIA GeForce GTX 1080 Ti", "GTX1080Ti"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX6000-Ada"),
        ("Quadro RTX 6000", "RTX6000"),
        ("rtx-3090", "RTX3090"),
        ("NVIDIA TITAN V", "TITAN-V"),
        ("Google Cloud TPU v3", "TPU-v3"),
        ("A100-SXM4-80G", "A100-80GB"),
        ("V100 32G", "V100-32GB"),
        ("T4G", "T4G"),
        ("2080 Ti", "RTX2080Ti"),
        ("3090", "RTX3090"),
        ("tpu-v5-lite-podslice", "TPU-v5e"),
        ("Intel Gaudi 2", "Gaudi2"),
        ("AMD Instinct MI250", "MI250"),
    ],
)
def test_unambiguous_alias_becomes_its_canonical_name(spelling: str, canonical: str) -> None:
    assert canonical_gpu_name(spelling) == canonical


@pytest.mark.parametrize("name", ["A100", "V100", "my-own-board", "", "é", "MIG 1g.10gb"])
def test_ambiguous_or_unknown_name_is_kept_as_it_came(name: str) -> None:
    assert canonical_gpu_name(name) == name


@pytest.mark.parametrize("name", ["Tesla V100", "nvidia_v100", "v100"])
def test_spellings_of_a_family_are_one_name(name: str) -> None:
    assert canonical_gpu_name(name) == "V100"
    assert variants_of(name) == variants_of("V100")


def test_every_spelling_leads_to_exactly_one_data_sheet() -> None:
    for name, specification in specifications().items():
        assert canonical_gpu_name(name) == name
        assert variants_of(name) == (name,)
        for alias in specification.aliases:
            assert canonical_gpu_name(alias) == name


def test_every_data_sheet_has_positive_figures_and_a_source() -> None:
    for specification in specifications().values():
        assert min(specification.fp32_tflops, specification.memory_gib) > 0
        assert specification.memory_bandwidth_gb_s > 0
        assert specification.tdp_watts is None or specification.tdp_watts > 0
        assert specification.tensor_tflops is None or specification.tensor_tflops > 0
        assert specification.source


@pytest.mark.parametrize(
    ("name", "boards"),
    [
        ("H100-SXM-64GB", (("H100",), 64.0)),
        ("NVIDIA A100-PCIE-64GB", (("A100-40GB-PCIe", "A100-80GB-PCIe"), 64.0)),
        ("RTX 4090 48 GiB", (("RTX4090",), 48.0)),
    ],
)
def test_board_of_another_memory_has_the_boards_of_its_chip(
    name: str, boards: tuple[tuple[str, ...], float]
) -> None:
    assert boards_of_chip(name) == boards


@pytest.mark.parametrize("name", ["A100-20GB", "A100-40GB", "V100", "my-own-96GB", "96GB", ""])
def test_slice_listed_or_unknown_board_has_no_other_boards(name: str) -> None:
    assert boards_of_chip(name) is None


def test_specification_is_found_by_any_spelling() -> None:
    specification = specification_of("Tesla K80")

    assert specification is not None
    assert specification.tensor_tflops is None
    assert specification_of("A100") is None


def test_measured_name_is_always_right() -> None:
    assert resolve_gpu("V100", ["V100", "V100-16GB"]) == "V100"
    assert resolve_gpu("rig-7", ["rig-7"]) == "rig-7"


def test_measured_name_is_found_in_another_spelling() -> None:
    assert resolve_gpu("Tesla v100", ["V100"]) == "V100"


def test_alias_of_an_unmeasured_gpu_is_resolved() -> None:
    assert resolve_gpu("NVIDIA L4", ["T4"]) == "L4"


@pytest.mark.parametrize("name", ["A100", "a100", "NVIDIA A100"])
def test_ambiguous_name_lists_its_variants(name: str) -> None:
    with pytest.raises(AmbiguousGpuError) as caught:
        resolve_gpu(name, ["T4"])

    assert caught.value.variants == ("A100-40GB", "A100-40GB-PCIe", "A100-80GB", "A100-80GB-PCIe")


def test_unmeasured_v100_is_ambiguous() -> None:
    with pytest.raises(AmbiguousGpuError) as caught:
        resolve_gpu("V100", [])

    boards = ("V100-16GB", "V100-16GB-PCIe", "V100-32GB", "V100-32GB-PCIe")
    assert caught.value.variants == boards


def test_unknown_name_comes_with_the_nearest() -> None:
    with pytest.raises(UnknownGpuError) as caught:
        resolve_gpu("H1000", ["T4"])

    assert "H100" in caught.value.nearest


def test_nearest_names_of_a_family_are_its_variants() -> None:
    assert nearest_gpu_names("A100X")[:4] == list(variants_of("A100"))


def test_nearest_names_include_those_measured() -> None:
    assert nearest_gpu_names("rig-77", ["rig-7"])[0] == "rig-7"
    assert nearest_gpu_names("?" * 500) == []
