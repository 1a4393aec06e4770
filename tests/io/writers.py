"""Clouds and a pyramid in every format, for the tests to read back."""

import struct
from collections.abc import Callable
from pathlib import Path

import h5py
import laspy
import numpy as np
import trimesh

from tests.io.lzf import pack_lzf

CLOUD = np.random.default_rng(0).normal(size=(50, 3)).astype(np.float32)
CORNERS = np.array([[0, 0, 0], [2, 0, 0], [2, 1, 0], [0, 1, 0], [1, 0.5, 1]], np.float32)
PYRAMID = np.array([[0, 1, 4], [1, 2, 4], [2, 3, 4], [3, 0, 4], [0, 2, 1], [0, 3, 2]])

Writer = Callable[[Path, np.ndarray], None]


def write_h5(path: Path, cloud: np.ndarray) -> None:
    with h5py.File(path, "w") as file:
        file["data"] = cloud


def write_las(path: Path, cloud: np.ndarray) -> None:
    header = laspy.LasHeader(version="1.4", point_format=6)
    header.offsets, header.scales = cloud.min(axis=0).astype(float), [1e-7] * 3
    las = laspy.LasData(header)
    las.x, las.y, las.z = cloud.T.astype(float)
    with path.open("wb") as file:
        las.write(file, do_compress=path.suffix == ".laz")


def write_text(separator: str, header: str = "") -> Writer:
    def write(path: Path, cloud: np.ndarray) -> None:
        rows = (separator.join(repr(float(value)) for value in point) for point in cloud)
        path.write_text(header + "\n".join(rows) + "\n")

    return write


def write_ply(kind: str, value: str = "float", dtype: str = "<f4") -> Writer:
    def write(path: Path, cloud: np.ndarray) -> None:
        axes = "".join(f"property {value} {axis}\n" for axis in "xyz")
        header = f"ply\nformat {kind} 1.0\ncomment a\nelement vertex {len(cloud)}\n{axes}end_header\n"
        rows = "\n".join(" ".join(map(repr, point)) for point in cloud.astype(float).tolist())
        path.write_bytes(
            header.encode() + (rows.encode() if kind == "ascii" else cloud.astype(dtype).tobytes())
        )

    return write


def write_pcd(storage: str) -> Writer:
    """Put a one-byte field before the coordinates, so that they are not aligned."""

    def write(path: Path, cloud: np.ndarray) -> None:
        header = "# .PCD v.7\nVERSION .7\nFIELDS ring x y z\nSIZE 1 4 4 4\nTYPE U F F F\nCOUNT 1 1 1 1\n"
        header += (
            f"WIDTH {len(cloud)}\nHEIGHT 1\nVIEWPOINT 0 0 0 1 0 0 0\nPOINTS {len(cloud)}\nDATA {storage}\n"
        )
        rows = np.zeros(len(cloud), [("ring", "u1"), ("xyz", "<f4", 3)])
        rows["xyz"] = cloud
        fields = bytes(len(cloud)) + cloud.T.tobytes()
        packed = pack_lzf(fields)
        body = {
            "ascii": "".join(f"7 {x!r} {y!r} {z!r}\n" for x, y, z in cloud.astype(float).tolist()).encode(),
            "binary": rows.tobytes(),
            "binary_compressed": struct.pack("<II", len(packed), len(fields)) + packed,
        }
        path.write_bytes(header.encode() + body[storage])

    return write


def write_vertices(prefix: str, header: str = "") -> Writer:
    def write(path: Path, cloud: np.ndarray) -> None:
        rows = "".join(f"{prefix}{x!r} {y!r} {z!r}\n" for x, y, z in cloud.astype(float).tolist())
        path.write_text(header + rows)

    return write


def write_glb(path: Path, cloud: np.ndarray) -> None:
    trimesh.Scene([trimesh.PointCloud(cloud)]).export(path)


WRITERS: list[tuple[str, Writer]] = [
    ("a.npy", np.save),
    ("double.npy", lambda path, cloud: np.save(path, cloud.astype(float))),
    ("columns_first.npy", lambda path, cloud: np.save(path, np.asfortranarray(cloud))),
    ("one_of_one.npy", lambda path, cloud: np.save(path, cloud[None])),
    ("a.npz", lambda path, cloud: np.savez(path, points=cloud)),
    (
        "packed.npz",
        lambda path, cloud: np.savez_compressed(path, other=np.ones(2), xyz=np.asfortranarray(cloud)),
    ),
    ("unnamed.npz", lambda path, cloud: np.savez(path, cloud)),
    ("a.h5", write_h5),
    ("a.hdf5", write_h5),
    ("text.ply", write_ply("ascii")),
    ("little.ply", write_ply("binary_little_endian")),
    ("big.ply", write_ply("binary_big_endian", "float32", ">f4")),
    ("double.ply", write_ply("binary_little_endian", "double", "<f8")),
    ("trimesh.ply", lambda path, cloud: trimesh.PointCloud(cloud).export(path)),
    ("text.pcd", write_pcd("ascii")),
    ("binary.pcd", write_pcd("binary")),
    ("packed.pcd", write_pcd("binary_compressed")),
    ("points.off", write_vertices("", f"OFF\n{len(CLOUD)} 0 0\n")),
    ("points.obj", write_vertices("v ")),
    ("points.glb", write_glb),
    ("spaces.xyz", write_text(" ")),
    ("UPPER.XYZ", write_text("  ")),
    ("tabs.txt", write_text("\t", "# made by hand\n\n")),
    ("cloud_compare.txt", write_text(" ", "//X Y Z\n")),
    ("count_first.txt", write_text(" ", f"{len(CLOUD)}\n")),
    ("commas.csv", write_text(",", "x,y,z\n")),
    ("spaced_commas.csv", write_text(", ")),
    ("semicolons.csv", write_text(";", '"X";"Y";"Z"\n')),
    ("byte_order_mark.csv", write_text(",", "\ufeffx,y,z\n")),
    ("a.las", write_las),
    ("a.laz", write_las),
]


def write_pyramid(path: Path) -> None:
    trimesh.Trimesh(CORNERS, PYRAMID, process=False).export(path)


def write_quads(path: Path) -> None:
    """Write the base as one square among the triangles, which parts the faces into runs of unequal length."""
    header = "ply\nformat binary_little_endian 1.0\nelement vertex 5\nproperty float x\nproperty float y\n"
    header += "property float z\nelement face 5\nproperty uchar flag\n"
    header += "property list uchar int vertex_index\nend_header\n"
    faces = [[0, 1, 4], [1, 2, 4], [3, 2, 1, 0], [2, 3, 4], [3, 0, 4]]
    rows = b"".join(struct.pack(f"<BB{len(face)}i", 9, len(face), *face) for face in faces)
    path.write_bytes(header.encode() + CORNERS.tobytes() + rows)


def write_glued_off(path: Path) -> None:
    rows = [" ".join(map(str, point)) for point in CORNERS.tolist()]
    rows += ["4 3 2 1 0 255 0 0", *(f"3 {a} {b} {c}" for a, b, c in PYRAMID[:4])]
    path.write_text("OFF5 5 0\n" + "\n".join(rows) + "\n")


def write_loose_obj(path: Path) -> None:
    rows = [f"v {x} {y} {z} 1 0 0" for x, y, z in CORNERS.tolist()]
    rows += ["vn 0 0 1", "usemtl none", "f 4/1/1 3/1/1 \\", " 2/1/1 1/1/1", "f 1//1 2//1 5//1", "f -4 -3 -1"]
    path.write_text("mtllib missing.mtl\n" + "\n".join([*rows, "f 3 4 5", "f 4 1 5"]) + "\n")


MESHES = {
    ".off": [write_pyramid, write_glued_off],
    ".obj": [write_pyramid, write_loose_obj],
    ".stl": [
        write_pyramid,
        lambda path: trimesh.Trimesh(CORNERS, PYRAMID).export(path, file_type="stl_ascii"),
    ],
    ".glb": [write_pyramid],
    ".gltf": [lambda path: trimesh.Scene([trimesh.Trimesh(CORNERS, PYRAMID)]).export(path)],
    ".ply": [write_pyramid, write_quads],
}
