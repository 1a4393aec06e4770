"""A small model that has what the test-time-training methods ask for."""

import torch
from torch import nn

from purgegate.backbones.auxiliary import AUXILIARY, make_auxiliary
from tests.models import small_model


def joint_model(*, seed: int = 0, groups: int = 16) -> nn.Module:
    """A small classifier with a decoder, a rotation head and spheres, all with random weights."""
    model = small_model(seed=seed, groups=groups)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        for name in AUXILIARY:
            model.auxiliary[name] = make_auxiliary(name, model, depth=1)
    return model.eval()
