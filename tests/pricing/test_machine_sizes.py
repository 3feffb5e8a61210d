"""Names of instance types tell how large machines are."""

import pytest

from app.pricing.machine_sizes import vcpus_of


@pytest.mark.parametrize(
    ("instance_type", "vcpus"),
    [
        ("c4.large", 2),
        ("m5.xlarge", 4),
        ("c6gd.12xlarge", 48),
        ("ml.c5.18xlarge", 72),
        ("ecs.g6.2xlarge", 8),
        ("m3.medium", 1),
        ("t3.medium", 2),
        ("n1-standard-4", 4),
        ("N2D-HIGHCPU-224", 224),
        ("c3-standard-22-lssd", 22),
        ("n2-custom-8-16384", 8),
        ("custom-2-4096", 2),
        ("Standard_D8s_v5", 8),
        ("Standard_D3_v2", 4),
        ("Standard_DS14", 16),
        ("Standard_E16-4s_v3", 4),
        ("Standard_A2_v2", 2),
        ("Standard_F4s", 4),
    ],
)
def test_name_tells_the_virtual_processors(instance_type: str, vcpus: int) -> None:
    assert vcpus_of(instance_type) == vcpus


@pytest.mark.parametrize(
    "instance_type",
    [
        "c6a.metal",
        "a2-highgpu-8g",
        "e2-medium",
        "Standard_A3",
        "Standard_G2",
        "DGX-1",
        "laptop",
        "",
        "c5.0xlarge",
        "n1-standard-0",
    ],
)
def test_name_without_a_size_tells_none(instance_type: str) -> None:
    assert vcpus_of(instance_type) is None
