"""Comparison of an adapter with what the released code gave, batch after batch."""

import numpy as np

TOLERANCE = {"atol": 2e-4, "rtol": 2e-4}


def ours(key: str) -> str:
    """The name in our models of an entry of the released state dict."""
    return key.removeprefix("MAE_encoder.").replace("class_head_rotnet.8.", "auxiliary.rotation.")


def follow(adapter, batches, golden, *, prefix: str = "", atol: float = 2e-3) -> None:
    """Feed the batches one after the other; logits and what is known of the state must agree after each."""
    for step, points in enumerate(batches):
        found, wanted = adapter(points), golden[f"{prefix}logits_{step}"]
        assert np.allclose(found.numpy(), wanted, **TOLERANCE), f"logits of batch {step}"
        state, start = adapter.model.state_dict(), f"{prefix}after_{step}."
        for key in (key for key in golden if key.startswith(start)):
            value = state[ours(key.removeprefix(start))]
            assert np.allclose(value.numpy(), golden[key], atol=atol), f"{key} of batch {step}"
