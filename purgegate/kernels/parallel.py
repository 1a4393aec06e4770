"""Compiled loops over the clouds of a batch, on all cores."""

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import torch


def over_clouds(kernel: Callable[..., None], *arrays: np.ndarray) -> None:
    """Call `kernel` on equal shares of the arrays' first axis, one thread a share.

    Threads over compiled code that holds no lock: unlike numba's own pool they survive a fork.
    """
    total = len(arrays[0])
    workers = min(torch.get_num_threads(), total)
    if workers <= 1:
        kernel(*arrays)
        return
    bounds = [total * worker // workers for worker in range(workers + 1)]
    shares = [slice(low, high) for low, high in itertools.pairwise(bounds)]
    with ThreadPoolExecutor(workers) as pool:
        list(pool.map(lambda share: kernel(*(array[share] for array in arrays)), shares))
