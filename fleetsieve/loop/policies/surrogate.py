"""Gaussian processes of scikit-learn over (log2 TP, log2 load), for the policies that use one as their surrogate.

Hyperparameters are fixed: with the few cells of an arm they cannot be learnt, and a fit that moves between runs would not repeat.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fleetsieve.instance import Cell

Floats = NDArray[np.float64]

LENGTH_OCTAVES = 1.5
"""How far, in doublings of TP or load, one measurement still predicts another."""

NOISE_SHARE = 0.01


def features(cells: Sequence[Cell]) -> Floats:
    """(log2 TP, log2 load) of each cell; a cell without a load number is at load 1."""
    return np.array([[math.log2(cell.key.tp), math.log2(cell.offered) if cell.offered else 0.0] for cell in cells])


def predictions(
    known: Sequence[Cell], values: Sequence[float], asked: Sequence[Cell], scale: float
) -> tuple[Floats, Floats]:
    """Mean and standard deviation at the cells `asked`, given `values` at the cells `known` (none: mean 0, deviation `scale`).

    `scale` > 0 is the prior standard deviation around the mean of what is known.
    """
    if not known:
        return np.zeros(len(asked)), np.full(len(asked), scale)
    regressor, mean = _fitted(known, values, scale)
    predicted, deviation = regressor.predict(features(asked), return_std=True)
    return predicted + mean, deviation


def _fitted(known: Sequence[Cell], values: Sequence[float], scale: float) -> tuple[Any, float]:
    from sklearn.gaussian_process import GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel

    mean = float(np.mean(values))
    kernel = ConstantKernel(scale**2, "fixed") * RBF(LENGTH_OCTAVES, "fixed")
    regressor = GaussianProcessRegressor(kernel, alpha=NOISE_SHARE * scale**2, optimizer=None)
    return regressor.fit(features(known), np.asarray(values) - mean), mean
