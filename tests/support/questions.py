"""Hypothesis strategies for forecast requests to the workloads "fitted" and "other"."""

from typing import Any

from hypothesis import strategies as st

_configurations = st.fixed_dictionaries(
    {"workers": st.sampled_from([1, 2, 3, 8, 64, 4096])},
    optional={
        "gpu_type": st.sampled_from(["T4", "A100-40GB", "V100-16GB", "our own"]),
        "nodes": st.integers(1, 4),
        "purchase": st.sampled_from(["spot", "on_demand"]),
        "region": st.just("eu-west-1"),
    },
)
_sizes = st.one_of(st.floats(1e-3, 1e18), st.integers(1, 10**9), st.just(2.0**53 + 2))
_pricings = st.fixed_dictionaries(
    {},
    optional={
        "price_per_hour": st.sampled_from(["0", "3.06", "0.000001", "999999999.123456", "2E+2"]),
        "minimum_billed_s": st.sampled_from([0, 60, 3600]),
        "billing_step_s": st.sampled_from([1, 60]),
        "currency": st.sampled_from(["USD", "EUR"]),
        "extras": st.just({"egress_gb": "3", "egress_per_gb": "0.09"}),
        "spot": st.just({"interruptions_per_hour": 0.2}),
    },
)
documents: "st.SearchStrategy[dict[str, Any]]" = st.fixed_dictionaries(
    {
        "workload": st.sampled_from(["fitted", "other"]),
        "configuration": _configurations,
        "work": st.fixed_dictionaries(
            {}, optional={"dataset_size": _sizes, "batch_size": _sizes, "epochs": _sizes}
        ),
    },
    optional={
        "parameters": st.just({"precision": "fp32 ü"}),
        "confidence": st.sampled_from([0.5, 0.8, 0.99]),
        "deadline_s": st.floats(1.0, 1e6),
        "budget": st.sampled_from(["0", "5", "1000.55"]),
        "pricing": _pricings,
        "energy": st.just({"kg_co2e_per_kwh": 0.4, "power_usage_effectiveness": 1.3}),
        "explain": st.booleans(),
    },
)
