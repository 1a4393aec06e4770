"""What is written in any format comes back as the same points."""

import logging
import pickle
from pathlib import Path

import numpy as np
import pytest
import trimesh

from purgegate.io.clouds import SAMPLES, read_cloud, read_mesh
from purgegate.io.formats import READERS
from purgegate.io.formats.pcd import unpack_lzf
from tests.io.lzf import pack_lzf
from tests.io.writers import (
    CLOUD,
    CORNERS,
    MESHES,
    PYRAMID,
    WRITERS,
    Writer,
    write_las,
    write_pyramid,
    write_text,
)


@pytest.mark.parametrize(("name", "write"), WRITERS, ids=[name for name, _ in WRITERS])
def test_a_cloud_comes_back_from_every_format(name: str, write: Writer, tmp_path: Path) -> None:
    write(tmp_path / name, CLOUD)
    points = read_cloud(tmp_path / name)
    assert points.dtype == np.float32
    np.testing.assert_allclose(points, CLOUD, rtol=0, atol=1e-6 if "las" in name or "laz" in name else 0)


def test_every_ending_is_tried() -> None:
    endings = {Path(name).suffix.lower() for name, _ in WRITERS} | set(MESHES)
    assert endings == set(READERS)


MESH_CASES = [(ending, write) for ending, writers in MESHES.items() for write in writers]


@pytest.fixture(params=MESH_CASES, ids=lambda case: f"{case[0][1:]}-{case[1].__name__}")
def pyramid(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    ending, write = request.param
    path = tmp_path / f"pyramid{ending}"
    write(path)
    return path


def test_a_mesh_keeps_its_surface_and_its_volume(pyramid: Path) -> None:
    mesh = trimesh.Trimesh(*read_mesh(pyramid))
    wanted = trimesh.Trimesh(CORNERS, PYRAMID)
    assert mesh.area == pytest.approx(wanted.area, rel=1e-6)
    assert abs(mesh.volume) == pytest.approx(2 / 3, rel=1e-6)


def test_a_mesh_is_sampled_on_its_surface(pyramid: Path) -> None:
    points = read_cloud(pyramid)
    assert points.shape == (SAMPLES, 3)
    _, distance, _ = trimesh.proximity.closest_point_naive(trimesh.Trimesh(CORNERS, PYRAMID), points[:100])
    assert distance.max() < 1e-6
    assert np.mean(points[:, 2] < 1e-6) == pytest.approx(2 / trimesh.Trimesh(CORNERS, PYRAMID).area, abs=0.03)


def test_sampling_follows_the_generator(tmp_path: Path) -> None:
    write_pyramid(tmp_path / "a.off")
    seeded = [
        read_cloud(tmp_path / "a.off", samples=7, generator=np.random.default_rng(seed)) for seed in (1, 1, 2)
    ]
    assert seeded[0].shape == (7, 3)
    assert np.array_equal(seeded[0], seeded[1])
    assert not np.array_equal(seeded[0], seeded[2])
    assert np.array_equal(read_cloud(tmp_path / "a.off"), read_cloud(tmp_path / "a.off"))


def test_the_parts_of_a_scene_stand_in_their_places(tmp_path: Path) -> None:
    scene = trimesh.Scene()
    for shift in (0, 10):
        placed = trimesh.transformations.translation_matrix((shift, 0, 0))
        scene.add_geometry(trimesh.creation.box(), transform=placed)
    scene.export(tmp_path / "two.glb")
    vertices, faces = read_mesh(tmp_path / "two.glb")
    assert (vertices[:, 0].min(), vertices[:, 0].max()) == (-0.5, 10.5)
    assert trimesh.Trimesh(vertices, faces).area == pytest.approx(12)


def test_points_without_faces_are_no_mesh(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", CLOUD)
    with pytest.raises(ValueError, match="holds points and no faces"):
        read_mesh(tmp_path / "a.npy")


def test_a_missing_file_and_a_folder_say_so(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"gone\.xyz is missing"):
        read_cloud(tmp_path / "gone.xyz")
    (tmp_path / "folder.xyz").mkdir()
    with pytest.raises(IsADirectoryError, match=r"folder\.xyz"):
        read_cloud(tmp_path / "folder.xyz")


def test_extra_columns_are_dropped_with_a_note(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    np.savetxt(tmp_path / "normals.txt", np.hstack([CLOUD, CLOUD]), delimiter=",")
    with caplog.at_level(logging.INFO, logger="purgegate"):
        points = read_cloud(tmp_path / "normals.txt")
    np.testing.assert_allclose(points, CLOUD)
    assert "3 other columns are dropped" in caplog.text


def test_named_columns_are_found_wherever_they_stand(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("class,z,y,x\ncar,3,2,1\npole,6,5,4\n")
    assert read_cloud(tmp_path / "a.csv").tolist() == [[1, 2, 3], [4, 5, 6]]


def test_decimal_commas_are_read(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("1,5;2;3\n4;5,25;6\n")
    assert read_cloud(tmp_path / "a.csv").tolist() == [[1.5, 2, 3], [4, 5.25, 6]]


@pytest.mark.parametrize("ending", [".las", ".laz", ".xyz", ".npy"])
def test_a_cloud_far_from_the_origin_keeps_its_precision(
    ending: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    far = CLOUD + np.array([500_000.0, 5_400_000.0, 300.0])
    path = tmp_path / f"far{ending}"
    {".xyz": write_text(" "), ".npy": np.save}.get(ending, write_las)(path, far)
    with caplog.at_level(logging.INFO, logger="purgegate"):
        points = read_cloud(path)
    assert "to the origin" in caplog.text
    np.testing.assert_allclose(points - points[0], CLOUD - CLOUD[0], atol=1e-6)


def test_a_cloud_near_the_origin_stays_in_its_place(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", CLOUD.astype(float) + 50)
    np.testing.assert_allclose(read_cloud(tmp_path / "a.npy"), CLOUD + 50, rtol=1e-6)
    np.save(tmp_path / "one.npy", np.full((1, 3), 5e6))
    assert read_cloud(tmp_path / "one.npy").tolist() == [[5e6] * 3]


def test_invalid_points_are_counted_or_left_out(tmp_path: Path) -> None:
    np.save(tmp_path / "a.npy", np.vstack([CLOUD, [[np.nan, 0, 0], [0, np.inf, 0]]]))
    with pytest.raises(ValueError, match=r"2 of 52 points have NaN.*drop_invalid=True"):
        read_cloud(tmp_path / "a.npy")
    assert np.array_equal(read_cloud(tmp_path / "a.npy", drop_invalid=True), CLOUD)


def test_invalid_vertices_take_their_triangles_with_them(tmp_path: Path) -> None:
    (tmp_path / "a.obj").write_text("v nan 0 0\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 2 3 4\n")
    points = read_cloud(tmp_path / "a.obj", drop_invalid=True)
    assert points.shape == (SAMPLES, 3)
    assert points.min() >= 0
    assert (points[:, 2] == 0).all()


def test_a_pickle_is_never_run(tmp_path: Path) -> None:
    class Bomb:
        def __reduce__(self) -> tuple:
            return Path.touch, (tmp_path / "boom",)

    np.save(tmp_path / "a.npy", np.array([[Bomb(), 0, 0]]), allow_pickle=True)
    (tmp_path / "b.npy").write_bytes(pickle.dumps(Bomb()))
    for name in ("a.npy", "b.npy"):
        with pytest.raises(ValueError, match=name):
            read_cloud(tmp_path / name)
    assert not (tmp_path / "boom").exists()


def test_lzf_undoes_runs_references_and_overlaps() -> None:
    assert unpack_lzf(b"\x02abc\x20\x02", 6) == b"abcabc"
    assert unpack_lzf(b"\x00a\xe0\x01\x00", 11) == b"a" * 11
    noise = np.random.default_rng(0).integers(0, 4, 20_000).astype(np.uint8).tobytes() + bytes(5_000)
    packed = pack_lzf(noise)
    assert len(packed) < len(noise) * 0.6
    assert unpack_lzf(packed, len(noise)) == noise


def test_released_binary_ply_files_hold_the_released_points(shared: Path) -> None:
    for name in ("plane_clean", "plane_background", "plane_lidar"):
        file = shared / "golden" / "released" / f"{name}.ply"
        points = read_cloud(file)
        assert points.shape == (1024, 3)
        np.testing.assert_allclose(points, trimesh.load(file).vertices.astype(np.float32))


def test_real_laser_scans_are_read(shared: Path) -> None:
    counts = {file.name: len(read_cloud(file)) for file in (shared / "data" / "xyz").glob("*.xyz")}
    assert counts == {"005.xyz": 3384, "120.xyz": 156, "210.xyz": 823, "305.xyz": 103, "410.xyz": 2889}


def test_points_that_lie_across_are_refused(tmp_path: Path) -> None:
    np.save(tmp_path / "across.npy", np.zeros((3, 100)))
    with pytest.raises(ValueError, match=r"got \(3, 100\): transpose it"):
        read_cloud(tmp_path / "across.npy")
    np.save(tmp_path / "three.npy", np.eye(3, 6))
    assert read_cloud(tmp_path / "three.npy").shape == (3, 3)


def test_a_mark_for_no_return_counts_as_invalid(tmp_path: Path) -> None:
    np.save(tmp_path / "scan.npy", np.array([[0, 0, 0], [1e30, 0, 0]], dtype=np.float32))
    with pytest.raises(ValueError, match="1 of 2 points have NaN, infinite or far too large"):
        read_cloud(tmp_path / "scan.npy")
    assert len(read_cloud(tmp_path / "scan.npy", drop_invalid=True)) == 1
