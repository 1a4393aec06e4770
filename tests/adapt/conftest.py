"""Golden batches of the released code, and the model that they were made with."""

import numpy as np
import pytest
import torch

import purgegate as pg


@pytest.fixture(scope="session")
def baselines(shared):
    """Folder of the golden baselines."""
    return shared / "golden" / "baselines"


@pytest.fixture
def golden_model(shared):
    """The small model with random weights behind all golden numbers."""
    path = shared / "golden" / "pointmae_forward" / "weights.safetensors"
    return pg.load_backbone(path, classes=10, groups=64, group_size=32, heads=6)


@pytest.fixture(scope="session")
def golden_batches(baselines):
    """Three batches of eight clouds."""
    return list(torch.from_numpy(np.load(baselines / "inputs.npz")["points"]))
