"""Meshes: .off, .obj, .stl and .glb / .gltf."""

import json
from pathlib import Path

import numpy as np
import trimesh

from purgegate.io.files import check_file
from purgegate.io.formats.contents import Contents, decode, must_be_likely, must_hold, table, triangles

VERTEX = 24  # bytes of a vertex in memory
STL_START = 84  # bytes before the triangles of a binary .stl: a comment and their number
STL_FACE = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])


def read_off(path: Path) -> Contents:
    """Read an .off file, also where the counts follow `OFF` without a space as in parts of ModelNet."""
    lines = [line.split("#")[0].strip() for line in decode(path.read_bytes()).splitlines()]
    lines = [line for line in lines if line]
    if not lines or "OFF" not in lines[0]:
        raise ValueError("it must start with `OFF`")
    counts = lines[0].split("OFF", 1)[1].split()
    body = lines[1:]
    if not counts and body:
        counts, body = body[0].split(), body[1:]
    if len(counts) < 2 or not all(count.isdecimal() for count in counts):
        raise ValueError(
            f"its numbers of vertices and faces must follow `OFF`; got {' '.join(counts)[:80]!r}"
        )
    vertices, faces = int(counts[0]), int(counts[1])
    must_hold("vertices and faces", declared=vertices + faces, held=len(body))
    points = table(body[:vertices])
    polygons = (_off_polygon(row.split()) for row in body[vertices : vertices + faces])
    return Contents(points, triangles(polygons), extra=len(body[0].split()) - 3)


def _off_polygon(words: list[str]) -> list[int]:
    must_hold("corners of a face", declared=int(words[0]), held=len(words) - 1)
    return [int(word) for word in words[1 : 1 + int(words[0])]]


def read_obj(path: Path) -> Contents:
    """Read the vertices and faces of an .obj file; materials and texture coordinates are left."""
    lines = decode(path.read_bytes()).replace("\\\n", " ").splitlines()
    rows: list[str] = []
    polygons: list[list[int]] = []
    for line in lines:
        kind, _, rest = line.strip().partition(" ")
        if kind == "v":
            rows.append(rest)
        elif kind == "f":
            corners = [int(word.split("/")[0]) for word in rest.split()]
            # Counted from 1, or backwards from the newest vertex.
            polygons.append([corner - 1 if corner > 0 else len(rows) + corner for corner in corners])
    points = table(rows)
    return Contents(points, triangles(polygons), extra=len(rows[0].split()) - 3)


def read_stl(path: Path) -> Contents:
    """Read an .stl file, binary or text."""
    data = path.read_bytes()
    if len(data) < STL_START:
        raise ValueError("it is too short for an .stl file")
    declared = int.from_bytes(data[STL_START - 4 : STL_START], "little")
    held = (len(data) - STL_START) // STL_FACE.itemsize
    if data.lstrip().startswith(b"solid") and declared != held:
        corners = _stl_text_corners(data)
    else:
        must_hold("triangles", declared=declared, held=held)
        corners = np.frombuffer(data, STL_FACE, declared, STL_START)["corners"].reshape(-1, 3)
    return Contents(corners, np.arange(len(corners)).reshape(-1, 3))


def _stl_text_corners(data: bytes) -> np.ndarray:
    lines = [line.split() for line in decode(data).splitlines() if line.strip()]
    rows = [" ".join(words[1:]) for words in lines if words[0] == "vertex"]
    if lines[-1][0] != "endsolid" or len(rows) % 3:
        raise ValueError("it must end with `endsolid` after whole triangles: it is truncated")
    return table(rows)


def read_gltf(path: Path) -> Contents:
    """Read every mesh of a .glb or .gltf scene, each in its place; a scene of points alone is a cloud."""
    _check_accessors(path)
    scene = trimesh.load_scene(path, process=False, skip_materials=True)
    placed = scene.dump()
    meshes = [part for part in placed if isinstance(part, trimesh.Trimesh)]
    clouds = [part for part in placed if isinstance(part, trimesh.PointCloud)]
    parts = meshes or clouds
    points = np.concatenate([np.empty((0, 3)), *(part.vertices for part in parts)])
    starts = np.cumsum([0, *(len(part.vertices) for part in parts)])
    faces = [mesh.faces + start for mesh, start in zip(meshes, starts, strict=False)]
    return Contents(points, np.concatenate([np.empty((0, 3), np.int64), *faces]))


def _check_accessors(path: Path) -> None:
    """Refuse arrays longer than the file and its buffers, which the format would fill with zeros."""
    data = path.read_bytes()
    text = data[20 : 20 + int.from_bytes(data[12:16], "little")] if data.startswith(b"glTF") else data
    try:
        tree = json.loads(text)
    except ValueError as error:
        raise ValueError(f"its description of the scene is not whole JSON: {error}") from error
    uris = [buffer["uri"] for buffer in tree.get("buffers", []) if "uri" in buffer]
    outside = [path.parent / uri for uri in uris if "base64," not in uri]
    for file in outside:
        check_file(file)
    room = len(data) + sum(file.stat().st_size for file in outside)
    counts = [accessor["count"] for accessor in tree.get("accessors", [])]
    for count in counts:
        must_hold("values", declared=count, held=room)
    # The same values may be named again and again, and the same mesh be put in many places.
    corners = [
        sum(counts[p["attributes"]["POSITION"]] for p in mesh["primitives"] if "POSITION" in p["attributes"])
        for mesh in tree.get("meshes", [])
    ]
    placed = sum(corners[node["mesh"]] for node in tree.get("nodes", []) if "mesh" in node)
    must_be_likely(declared=VERTEX * max(sum(counts), placed), packed=room)
