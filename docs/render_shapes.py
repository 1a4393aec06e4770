"""Render the sheet of the embedded shapes: `python docs/render_shapes.py` writes docs/shapes.png.

It casts rays by embreex, which nothing else needs: `pip install embreex`.
"""

from io import BytesIO
from pathlib import Path

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
import trimesh
from jaxtyping import Bool, Float
from PIL import Image
from trimesh.ray.ray_pyembree import RayMeshIntersector

from purgegate.points.shapes import CLASSES, make_shapes
from purgegate.typing import Mesh

PIXELS, OVERSAMPLE, EXAMPLES, COLUMNS = 96, 3, 6, 2
AZIMUTH, ELEVATION = np.radians(-52), np.radians(24)
LIGHT = np.array([-0.45, -0.55, 0.85]) / np.linalg.norm([-0.45, -0.55, 0.85])


def camera() -> Float[np.ndarray, "3 3"]:
    """Right, up and backward directions of an orthographic view from the front, somewhat above."""
    back = np.array(
        [np.cos(ELEVATION) * np.cos(AZIMUTH), np.cos(ELEVATION) * np.sin(AZIMUTH), np.sin(ELEVATION)]
    )
    right = np.cross([0, 0, 1], back)
    right /= np.linalg.norm(right)
    return np.stack([right, np.cross(back, right), back])


def render(mesh: Mesh, pixels: int) -> Float[np.ndarray, "h w"]:
    """Grey picture of a mesh that fills the frame: Lambert shading of the first hit, darker at outlines."""
    right, up, back = camera()
    solid = trimesh.Trimesh(*mesh, process=False)
    flat = mesh[0] @ np.stack([right, up], axis=1)
    low, high = flat.min(axis=0), flat.max(axis=0)
    offset = np.linspace(-0.53, 0.53, pixels) * (high - low).max()
    x, y = np.meshgrid(offset + (low + high)[0] / 2, -offset + (low + high)[1] / 2)
    origins = x.reshape(-1, 1) * right + y.reshape(-1, 1) * up + 4 * back
    hit = RayMeshIntersector(solid).intersects_first(origins, np.broadcast_to(-back, origins.shape))
    hit = hit.reshape(pixels, pixels)
    normal = solid.face_normals[hit]
    shade = 0.3 + 0.55 * np.clip(normal @ LIGHT, 0, 1) + 0.15 * np.abs(normal @ back)
    return np.where(hit < 0, 1.0, shade * np.where(_edges(normal, hit >= 0), 0.55, 1))


def _edges(normal: Float[np.ndarray, "h w 3"], inside: Bool[np.ndarray, "h w"]) -> Bool[np.ndarray, "h w"]:
    """Pixels where the surface folds by more than 45 degrees, or ends."""
    edge = np.zeros(inside.shape, dtype=bool)
    for axis in (0, 1):
        other = np.roll(normal, 1, axis=axis)
        edge |= (np.sum(normal * other, axis=-1) < 0.7) | (inside != np.roll(inside, 1, axis=axis))
    return edge


def tile(mesh: Mesh) -> Float[np.ndarray, "h w"]:
    """Picture of a mesh, smoothed by averaging a finer one."""
    fine = render(mesh, PIXELS * OVERSAMPLE)
    return fine.reshape(PIXELS, OVERSAMPLE, PIXELS, OVERSAMPLE).mean(axis=(1, 3))


def main() -> None:
    """Draw six test objects of each class in two columns of labelled rows."""
    meshes = make_shapes("test", count=EXAMPLES).meshes
    rows = -(-len(CLASSES) // COLUMNS)
    figure, axes = plt.subplots(rows, COLUMNS, figsize=(13.4, rows * 1.08), dpi=100)
    for axis in axes.flat:
        axis.axis("off")
    for index, name in enumerate(CLASSES):
        axis = axes[index % rows, index // rows]
        strip = np.hstack([tile(meshes[example * len(CLASSES) + index]) for example in range(EXAMPLES)])
        axis.imshow(strip, cmap="gray", vmin=0, vmax=1)
        axis.text(-0.01, 0.5, name, transform=axis.transAxes, ha="right", va="center", fontsize=12)
    figure.subplots_adjust(left=0.075, right=0.998, top=0.998, bottom=0.002, wspace=0.13, hspace=0.02)
    buffer = BytesIO()
    figure.savefig(buffer)
    Image.open(buffer).convert("L").save(Path(__file__).with_name("shapes.png"), optimize=True)


if __name__ == "__main__":
    main()
