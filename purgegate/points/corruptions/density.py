"""Density: neighbourhoods that are thinned, kept whole or cut out."""

import numpy as np
from jaxtyping import Int

from purgegate.points.corruptions.interface import Corrupted, Draws
from purgegate.typing import Cloud

PATCH, THINNED = 100, 75  # of the PATCH nearest points of a seed, `density` deletes THINNED
HOLE = 30  # points that `cutout` deletes round a seed


def density(points: Cloud, seeds: int, generator: Draws) -> Corrupted:
    """Thin the neighbourhoods of random points, one after the other."""
    _check_size(points, PATCH + THINNED * (seeds - 1), f"to be thinned round {seeds} points")
    for _ in range(seeds):
        near = _round_a_point(points, PATCH, generator)
        points = np.delete(points, near[generator.choice(PATCH, THINNED, replace=False)], axis=0)
    return points


def density_inc(points: Cloud, clusters: int, generator: Draws) -> Corrupted:
    """Halve a cloud but keep some neighbourhoods whole; the rest is drawn with replacement."""
    _check_size(points, 2 * PATCH * clusters, f"to keep {clusters} neighbourhoods of {PATCH} in half of them")
    half, kept = len(points) // 2, []
    for _ in range(clusters):
        near = _round_a_point(points, PATCH, generator)
        kept.append(points[near])
        points = np.delete(points, near, axis=0)
    return np.concatenate([*kept, points[generator.choice(len(points), half - PATCH * clusters)]])


def cutout(points: Cloud, seeds: int, generator: Draws) -> Corrupted:
    """Delete the neighbourhoods of random points, one after the other."""
    _check_size(points, HOLE * seeds + 1, f"for {seeds} holes of {HOLE} to leave any")
    for _ in range(seeds):
        points = np.delete(points, _round_a_point(points, HOLE, generator), axis=0)
    return points


def nearest(points: Cloud, seed: int, count: int) -> Int[np.ndarray, " n"]:
    """Find the points nearest to a point, itself first, in order of distance."""
    # A stable sort: the published script used a partition, whose order depends on the processor.
    return np.argsort(((points - points[seed]) ** 2).sum(axis=1), kind="stable")[:count]


def _round_a_point(points: Cloud, count: int, generator: Draws) -> Int[np.ndarray, " n"]:
    return nearest(points, int(generator.choice(len(points), 1)[0]), count)


def _check_size(points: Cloud, least: int, purpose: str) -> None:
    if len(points) < least:
        raise ValueError(
            f"a cloud needs at least {least} points {purpose}; got {len(points)}: "
            "take a denser cloud or a lower severity"
        )
