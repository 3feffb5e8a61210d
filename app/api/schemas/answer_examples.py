"""Answers that the OpenAPI document shows: a workload, its runs and what is asked about it."""

from typing import Any, Final

from app.domain.errors import UnknownWorkloadError

_Example = dict[str, Any]

_RUN: Final[_Example] = {
    "run_id": "run_01m8ehq3gh1zh8vvjdfzjqjzk",
    "workload": "bert",
    "external_id": "ci-2/1",
    "status": "succeeded",
    "duration_seconds": 291.8,
    "progress": None,
    "configuration": {
        "gpu_type": "A10G",
        "instance_type": "g5.xlarge",
        "provider": "aws",
        "region": None,
        "purchase": None,
        "nodes": None,
        "workers": 2,
    },
    "work": {"dataset_size": 88641, "batch_size": 64, "epochs": 2},
    "parameters": {"precision": "fp16"},
    "phases": {},
    "resources": {},
    "cost": None,
    "started_at": None,
    "labels": {},
    "forecast_id": None,
    "excluded": False,
    "excluded_reason": None,
    "created_at": "2026-11-27T13:04:34.833922Z",
}
_UPLOAD: Final[_Example] = {
    "created": 1,
    "duplicates": 0,
    "dry_run": False,
    "runs": [
        {
            "row": 1,
            "run_id": "run_01m8ehq3gh1zh8vvjdfzjqjzk",
            "workload": "bert",
            "external_id": "ci-2/1",
            "duplicate": False,
            "assessment": {
                "verdict": "as_expected",
                "expected_seconds": {
                    "median": 299.5537,
                    "lower": 290.4987,
                    "upper": 308.8904,
                    "confidence": 0.95,
                },
                "ratio": 0.974116,
                "p_value": 0.0938695,
                "reason": None,
            },
        }
    ],
    "invalid": [],
    "invalid_count": 0,
    "warnings": [],
}
_WORKLOAD: Final[_Example] = {
    "workload": "bert",
    "description": "BERT-base on SST-2",
    "dataset_unit": "samples",
    "parameters": {"precision": {"type": "category", "unit": None}},
    "currency": "USD",
    "labels": {},
    "refit_policy": {"mode": "manual", "min_new_runs": 1, "max_age_s": None},
    "pooling": "project",
    "runs": {"succeeded": 13},
    "published_version": 1,
    "created_at": "2026-11-27T13:04:33.173067Z",
    "updated_at": "2026-11-27T13:04:33.173067Z",
    "features": {
        "workers": {"type": "number", "min": 1, "max": 4, "runs": 13},
        "gpu_type": {"type": "category", "values": ["A10G"], "runs": 13},
    },
    "regressor": {
        "version": 1,
        "fitted_at": "2026-11-27T13:04:34.713963Z",
        "runs_used": 12,
        "accuracy": {"interpolation": 0.0088591, "workers": 0.0203611},
        "coverage": {"0.8": 1.0, "0.9": 1.0},
    },
    "last_fit": {
        "fit_id": "fit_01m8ehq20ng0p0q4qbaspxnmc",
        "state": "succeeded",
        "requested_at": "2026-11-27T13:04:33.301117Z",
        "ended_at": "2026-11-27T13:04:34.713963Z",
    },
}
_FIT: Final[_Example] = {
    "fit_id": "fit_01m8ehq20ng0p0q4qbaspxnmc",
    "workload": "bert",
    "state": "succeeded",
    "progress": 1.0,
    "step": "published version 1",
    "requested_at": "2026-11-27T13:04:33.301117Z",
    "started_at": "2026-11-27T13:04:33.355154Z",
    "ended_at": "2026-11-27T13:04:34.713963Z",
    "attempts": 1,
    "cancel_requested": False,
    "request": {
        "time_budget_s": 60.0,
        "seed": 0,
        "regressors": None,
        "publish": "auto",
        "runs_since": None,
    },
    "candidates": [
        {
            "regressor": "scaling_law",
            "weight": 0.0,
            "mape": 0.0554641,
            "by_axis": {"interpolation": 0.0211782, "workers": 0.106893},
        },
        {
            "regressor": "gaussian_process",
            "weight": 0.13459,
            "mape": 0.0135838,
            "by_axis": {"interpolation": 0.00906607, "workers": 0.0203603},
        },
    ],
    "regressor_version": 1,
    "published": True,
    "problem": None,
}
_FORECAST: Final[_Example] = {
    "forecast_id": "fc_01m8ehqt61ge51gftr0675gax",
    "workload": "bert",
    "regressor_version": 1,
    "fitted_at": "2026-11-27T13:04:34.713963Z",
    "configuration": {
        "gpu_type": "A10G",
        "instance_type": "g5.xlarge",
        "provider": "aws",
        "region": "us-east-1",
        "purchase": None,
        "nodes": None,
        "workers": 2,
    },
    "work": {"dataset_size": 88641, "batch_size": 128, "epochs": 2},
    "parameters": {"precision": "fp16"},
    "duration_seconds": {
        "median": 272.6622,
        "lower": 265.8721,
        "upper": 279.6258,
        "confidence": 0.9,
    },
    "time_limit_seconds": 280,
    "cost": {
        "currency": "USD",
        "median": "0.152",
        "lower": "0.149",
        "upper": "0.156",
        "price_per_hour": "1.006",
        "price": {
            "source": "karpenter-provider-aws 1d92708 zz_generated.pricing_aws.go",
            "valid_from": "2026-07-20T00:00:00Z",
            "age_days": 130,
            "purchase": "on_demand",
            "provider": "aws",
            "region": "us-east-1",
            "instance_type": "g5.xlarge",
            "gpu_type": "A10G",
            "gpu_count": 1,
            "instances": 2,
            "price_id": None,
            "others": [],
        },
        "conversion": None,
        "line_items": [
            {
                "kind": "compute",
                "quantity": "0.151479",
                "unit": "instance-hour",
                "unit_price": "1.006",
                "amount": "0.152",
            }
        ],
    },
    "feasibility": {"fits_probability": 0.9986, "basis": "12 runs that fitted"},
    "probability": {"deadline": 0.999963, "budget": None},
    "support": {
        "within_range": True,
        "axes": [],
        "unseen_levels": [],
        "rare_levels": [],
        "unidentified": [],
        "runs_used": 12,
        "nearest_runs": [
            "run_01m8ehq1z90jewn4rawm4yd02",
            "run_01m8ehq1z90jewn4rawm4yd06",
            "run_01m8ehq1z90jewn4rawm4yczy",
        ],
        "pooled_from": [],
        "factory_prior": True,
    },
    "basis": "measured",
    "to_target": None,
    "energy": {
        "kilowatt_hours": 0.04544,
        "kg_co2e": None,
        "watts_per_worker": 300.0,
        "basis": "data_sheet",
        "power_usage_effectiveness": 1.0,
        "kg_co2e_per_kwh": None,
        "grid_factor": None,
        "reason": "No grid factor is known for aws us-east-1;"
        " store one with POST /v1/grid-factors.",
    },
    "spot": None,
    "purchases": [],
    "explanation": [
        {"term": "computation", "share": 0.8747},
        {"term": "overhead", "share": 0.05836},
        {"term": "communication", "share": 0.03612},
        {"term": "fixed", "share": 0.0308},
    ],
    "explained_by": "terms",
    "taught_by": None,
    "warnings": [],
}
_BATCH: Final[_Example] = {
    "forecasts": [
        {
            "ref": "job-1",
            "forecast": {
                "duration_seconds": _FORECAST["duration_seconds"],
                "cost": _FORECAST["cost"],
            },
        },
        {
            "ref": "job-2",
            "problem": {
                "type": "/problems/unknown_workload",
                "title": "Unknown workload",
                "status": 404,
                "detail": "There is no workload 'brt'. The nearest name is 'bert'.",
                "instance": "/v1/forecasts:batch",
                "code": "unknown_workload",
                "remedy": UnknownWorkloadError.remedy,
            },
        },
    ],
    "failed": 1,
}
_RANKED: Final[_Example] = {"forecast": {**_FORECAST, "forecast_id": None}}
_RECOMMENDATION: Final[_Example] = {
    "workload": "bert",
    "regressor_version": 1,
    "objective": "cost",
    "confidence": 0.9,
    "considered": 3,
    "recommended": _RANKED,
    "next_worker": {
        "workers": 3,
        "seconds_saved": 75.9445,
        "extra_cost": "0.013",
        "currency": "USD",
        "seconds_per_money": 5841.88,
    },
    "ranked": [_RANKED],
    "pareto": [_RANKED],
    "rejected": [
        {
            "configuration": {
                "gpu_type": "A10G",
                "instance_type": "g5.xlarge",
                "provider": None,
                "region": None,
                "purchase": None,
                "nodes": None,
                "workers": 1,
            },
            "reason": "deadline",
        }
    ],
    "rejected_count": 1,
    "rejected_by_reason": {"deadline": 1},
    "nearest": None,
}
EXAMPLES: Final[dict[str, _Example]] = {
    "RunOut": _RUN,
    "UploadOut": _UPLOAD,
    "WorkloadDetailOut": _WORKLOAD,
    "FitOut": _FIT,
    "ForecastOut": _FORECAST,
    "BatchOut": _BATCH,
    "RecommendationOut": _RECOMMENDATION,
}
"""By the name of the schema; the framework would drop their null members from a model."""
