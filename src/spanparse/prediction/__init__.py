"""What the next request will keep of a prompt, and what would keep more."""

from __future__ import annotations

from spanparse.prediction.continuation import Continuation, ContinuationName, continuations
from spanparse.prediction.forecast import Forecast, Likely, likely_offsets
from spanparse.prediction.outcome import Change, Divergence, Hazard, Outcome, Prediction, Remedy, to_json
from spanparse.prediction.predict import predict, predict_rendering

__all__ = [
    "Change",
    "Continuation",
    "ContinuationName",
    "Divergence",
    "Forecast",
    "Hazard",
    "Likely",
    "Outcome",
    "Prediction",
    "Remedy",
    "continuations",
    "likely_offsets",
    "predict",
    "predict_rendering",
    "to_json",
]
