"""Files that no reader can make sense of: a name with its ending, and the bytes."""

import io
import json
import pickle
import struct
import zipfile

import h5py
import laspy
import numpy as np

PLY = "ply\nformat {} 1.0\nelement vertex {}\nproperty {} x\nproperty {} y\nproperty {} z\n"
PCD = "VERSION .7\nFIELDS {}\nSIZE 4 4 4\nTYPE F F F\nCOUNT 1 1 1\nWIDTH {}\nHEIGHT 1\nPOINTS {}\nDATA {}\n"
HUGE = 10**12


def ply(kind: str, count: int, body: bytes, *, rest: str = "", value: str = "float") -> bytes:
    return (PLY.format(kind, count, value, value, value) + rest + "end_header\n").encode() + body


def pcd(count: int, storage: str, body: bytes, *, fields: str = "x y z") -> bytes:
    return PCD.format(fields, count, count, storage).encode() + body


def npy(array: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, array, allow_pickle=True)
    return stream.getvalue()


def npy_header(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    header = {"descr": "<f4", "fortran_order": False, "shape": shape}
    np.lib.format.write_array_header_1_0(stream, header)
    return stream.getvalue()


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez(stream, **arrays)
    return stream.getvalue()


def npz_of(member: bytes) -> bytes:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("points.npy", member)
    return stream.getvalue()


def h5(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        for name, array in arrays.items():
            file[name] = array
    return stream.getvalue()


def h5_declared(shape: tuple[int, ...]) -> bytes:
    stream = io.BytesIO()
    with h5py.File(stream, "w") as file:
        file.create_dataset("data", shape=shape, dtype="f4", chunks=(1024, 3))
    return stream.getvalue()


def las(*, count: int = 2, records: int = 0, offset: int = 227, body: bytes = bytes(40)) -> bytes:
    header = bytearray(227)
    header[:4] = b"LASF"
    header[24:26] = bytes((1, 2))
    struct.pack_into("<HIIBHI", header, 94, 227, offset, records, 0, 20, count)
    struct.pack_into("<6d", header, 131, 1, 1, 1, 0, 0, 0)
    return bytes(header) + body


def laz() -> bytearray:
    """Pack two points."""
    stream = io.BytesIO()
    data = laspy.LasData(laspy.LasHeader(version="1.4", point_format=6))
    data.x = data.y = data.z = np.arange(2.0)
    data.write(stream, do_compress=True)
    return bytearray(stream.getvalue())


def laz_items() -> bytes:
    """Say that a packed point has no items, by whose size the unpacker divides."""
    packed = laz()
    place = packed.index(b"laszip encoded") + 84
    packed[place : place + 2] = bytes(2)
    return bytes(packed)


def laz_chunks() -> bytes:
    """Declare more chunks than memory has room for."""
    packed = laz()
    start = int.from_bytes(packed[96:100], "little")
    place = int.from_bytes(packed[start : start + 8], "little")
    packed[place + 4 : place + 8] = b"\xff" * 4
    return bytes(packed)


def glb(tree: dict) -> bytes:
    text = json.dumps(tree).encode()
    text += b" " * (-len(text) % 4)
    return b"glTF" + struct.pack("<IIII", 2, 20 + len(text), len(text), 0x4E4F534A) + text


SQUARE = np.zeros((4, 3), np.float32)
NAN = np.array([[0, 0, 0], [np.nan, 0, 0], [0, np.inf, 0]], np.float32)
TRIANGLE = "0 0 0\n1 0 0\n0 1 0\n"
FACES = "element face 1\nproperty list uchar int vertex_indices\n"
HUGE_SCENE = {
    "asset": {"version": "2.0"},
    "accessors": [{"componentType": 5126, "count": HUGE, "type": "VEC3"}],
    "meshes": [{"primitives": [{"attributes": {"POSITION": 0}}]}],
    "nodes": [{"mesh": 0}],
    "scenes": [{"nodes": [0]}],
}

MALFORMED: list[tuple[str, bytes]] = [
    ("empty.npy", b""),
    ("text.npy", b"1 2 3\n"),
    ("truncated.npy", npy(SQUARE)[:-7]),
    ("huge.npy", npy_header((HUGE, 3)) + bytes(36)),
    ("nan.npy", npy(NAN)),
    ("overflow.npy", npy(np.array([[1e300, 0, 0]]))),
    ("no_points.npy", npy(np.zeros((0, 3)))),
    ("flat.npy", npy(np.zeros((5, 2)))),
    ("one_axis.npy", npy(np.zeros(9))),
    ("transposed.npy", npy(np.zeros((3, 2)))),
    ("words.npy", npy(np.array([["a", "b", "c"]]))),
    ("objects.npy", npy(np.array([[{}, 1, 2]], dtype=object))),
    ("complex.npy", npy(np.zeros((4, 3), complex))),
    ("not_zip.npz", b"PK but no more"),
    ("truncated.npz", npz(points=SQUARE)[:-30]),
    ("no_arrays.npz", npz()),
    ("other_names.npz", npz(weights=np.ones(3), bias=np.ones(1))),
    ("huge.npz", npz_of(npy_header((HUGE, 3)) + bytes(36))),
    ("bomb.npz", npz_of(npy(SQUARE)).replace(struct.pack("<I", len(npy(SQUARE))), struct.pack("<I", 2**31))),
    ("label_count.npz", npz(points=np.zeros((2, 4, 3)), label=np.zeros(3, int), classes=np.array(["a"]))),
    ("label_range.npz", npz(points=np.zeros((2, 4, 3)), label=np.array([0, 7]), classes=np.array(["a"]))),
    ("nan_in_set.npz", npz(points=np.full((2, 4, 3), np.nan), label=np.zeros(2, int))),
    ("text.h5", b"this is not HDF5"),
    ("truncated.h5", h5(data=np.zeros((100, 3)))[:-2000]),
    ("huge.h5", h5_declared((10**9, 3))),
    ("no_arrays.hdf5", h5()),
    ("flat.h5", h5(data=np.zeros((5, 2)))),
    ("empty.ply", b""),
    ("no_end.ply", b"ply\nformat ascii 1.0\nelement vertex 3\n"),
    ("no_axes.ply", b"ply\nformat ascii 1.0\nelement vertex 1\nproperty float a\nend_header\n1\n"),
    ("format.ply", ply("binary_middle_endian", 1, bytes(12))),
    ("type.ply", ply("ascii", 1, b"0 0 0\n", value="quaternion")),
    ("count.ply", ply("ascii", -1, b"0 0 0\n")),
    ("truncated.ply", ply("binary_little_endian", 3, bytes(30))),
    ("huge.ply", ply("binary_little_endian", HUGE, bytes(36))),
    ("huge_text.ply", ply("ascii", HUGE, TRIANGLE.encode())),
    ("words.ply", ply("ascii", 2, b"0 0 0\n0 zero 0\n")),
    ("short_row.ply", ply("ascii", 2, b"0 0 0\n0 0\n")),
    ("nan.ply", ply("binary_little_endian", 3, NAN.tobytes())),
    ("no_points.ply", ply("ascii", 0, b"")),
    ("face_range.ply", ply("ascii", 3, (TRIANGLE + "3 0 1 9\n").encode(), rest=FACES)),
    ("face_short.ply", ply("ascii", 3, (TRIANGLE + "4 0 1 2\n").encode(), rest=FACES)),
    ("face_cut.ply", ply("binary_little_endian", 3, bytes(36) + b"\x03" + bytes(7), rest=FACES)),
    ("no_header.pcd", b"1 2 3\n"),
    ("storage.pcd", pcd(1, "binary_squeezed", bytes(12))),
    ("no_axes.pcd", pcd(1, "ascii", b"1 2 3\n", fields="a b c")),
    ("sizes.pcd", pcd(1, "ascii", b"1 2 3\n", fields="x y z w")),
    ("truncated.pcd", pcd(3, "binary", bytes(30))),
    ("huge.pcd", pcd(HUGE, "binary", bytes(36))),
    ("huge_text.pcd", pcd(HUGE, "ascii", b"1 2 3\n")),
    ("nan.pcd", pcd(2, "ascii", b"1 2 3\nnan nan nan\n")),
    ("no_points.pcd", pcd(0, "binary", b"")),
    ("packed_short.pcd", pcd(1, "binary_compressed", b"\x01")),
    ("packed_huge.pcd", pcd(2**28, "binary_compressed", struct.pack("<II", 2, 12 * 2**28) + b"\x00\x00")),
    ("packed_back.pcd", pcd(1, "binary_compressed", struct.pack("<II", 2, 12) + b"\x20\x09")),
    ("packed_cut.pcd", pcd(1, "binary_compressed", struct.pack("<II", 1, 12) + b"\xe0")),
    ("no_word.off", b"3 1 0\n" + TRIANGLE.encode() + b"3 0 1 2\n"),
    ("no_counts.off", b"OFF\n"),
    ("truncated.off", b"OFF\n3 1 0\n0 0 0\n1 0 0\n"),
    ("huge.off", f"OFF\n{HUGE} 0 0\n0 0 0\n".encode()),
    ("face_range.off", b"OFF\n3 1 0\n" + TRIANGLE.encode() + b"3 0 1 3\n"),
    ("face_short.off", b"OFF\n3 1 0\n" + TRIANGLE.encode() + b"3 0 1\n"),
    ("words.off", b"OFF\n3 1 0\n0 0 0\n1 zero 0\n0 1 0\n3 0 1 2\n"),
    ("no_area.off", b"OFF\n3 1 0\n0 0 0\n1 1 1\n2 2 2\n3 0 1 2\n"),
    ("empty.obj", b"# nothing\n"),
    ("words.obj", b"v 0 0 0\nv 1 zero 0\nv 0 1 0\nf 1 2 3\n"),
    ("no_numbers.obj", b"v\nv\n"),
    ("face_range.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n"),
    ("face_before.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf -1 -2 -9\n"),
    ("empty.stl", b""),
    ("truncated.stl", bytes(80) + struct.pack("<I", 2) + bytes(60)),
    ("huge.stl", bytes(80) + struct.pack("<I", 2**32 - 1) + bytes(50)),
    ("cut_text.stl", b"solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\n"),
    ("text.glb", b"hello"),
    ("cut.glb", glb(HUGE_SCENE)[:60]),
    ("huge.glb", glb(HUGE_SCENE)),
    ("no_scene.glb", glb({"asset": {"version": "2.0"}})),
    ("no_buffer.gltf", json.dumps({"buffers": [{"uri": "gone.bin", "byteLength": 36}]}).encode()),
    ("empty.xyz", b""),
    ("comments.xyz", b"# only\n// comments\n"),
    ("header_only.csv", b"x,y,z\n"),
    ("words.xyz", b"0 0 0\n1 one 1\n"),
    ("two_columns.xyz", b"0 0\n1 1\n"),
    ("short_row.txt", b"0 0 0\n1 1\n"),
    ("nan.csv", b"x,y,z\n0,0,0\nnan,0,inf\n"),
    ("binary.txt", bytes(range(256))),
    ("count.xyz", b"1000000000000\n0 0 0\n"),
    ("empty.las", b""),
    ("magic.las", b"LASX" + las()[4:]),
    ("cut_header.las", las()[:100]),
    ("truncated.las", las(count=3)),
    ("huge.las", las(count=2**31)),
    ("records.las", las(records=2**31)),
    ("offset.las", las(offset=2**31)),
    ("no_points.las", las(count=0, body=b"")),
    ("no_packing.laz", las(count=2, body=b"")),
    ("huge_chunks.laz", laz_chunks()),
    ("no_items.laz", laz_items()),
    ("unknown.docx", b"PK"),
    ("no_ending", b"1 2 3\n"),
    ("pickle.npy", pickle.dumps([1, 2, 3])),
]
