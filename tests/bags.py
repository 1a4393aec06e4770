"""ROS bags with clouds, written by the library that reads them."""

import numpy as np
import pytest


def message(points: np.ndarray, *, types, first: bool, big: bool = False):
    """A PointCloud2 with a colour between the coordinates and two bytes at the end of each row."""
    order = ">" if big else "<"
    record = np.dtype({"names": list("xyzc"), "formats": [f"{order}f4"] * 3 + ["u1"], "itemsize": 20})
    cells = np.zeros(len(points), record)
    for axis, column in zip("xyz", points.T, strict=True):
        cells[axis] = column
    data = b"".join(row.tobytes() + b"!!" for row in cells.reshape(2, -1))
    field = types["sensor_msgs/msg/PointField"]
    fields = [field(name=n, offset=4 * i, datatype=7, count=1) for i, n in enumerate("xyz")]
    stamp = types["builtin_interfaces/msg/Time"](sec=1, nanosec=0)
    header = types["std_msgs/msg/Header"](stamp=stamp, frame_id="lidar", **({"seq": 0} if first else {}))
    width = len(points) // 2
    return types["sensor_msgs/msg/PointCloud2"](
        header=header, height=2, width=width, fields=fields, is_bigendian=big, point_step=20,
        row_step=20 * width + 2, data=np.frombuffer(data, np.uint8), is_dense=False,
    )  # fmt: skip


def write_bag(path, stream, *, first: bool):
    pytest.importorskip("rosbags")
    from rosbags import rosbag1, rosbag2
    from rosbags.typesys import Stores, get_typestore

    store = get_typestore(Stores.ROS1_NOETIC if first else Stores.ROS2_HUMBLE)
    kind = "sensor_msgs/msg/PointCloud2"
    mcap = rosbag2.StoragePlugin.MCAP
    writer = rosbag1.Writer(path) if first else rosbag2.Writer(path, version=9, storage_plugin=mcap)
    serialize = store.serialize_ros1 if first else store.serialize_cdr
    with writer:
        lidar, other = (writer.add_connection(t, kind, typestore=store) for t in ("/points", "/rear"))
        for time_, cloud in enumerate(stream):
            found = message(cloud, types=store.types, first=first, big=bool(time_ % 2))
            writer.write(lidar, 1000 + time_, serialize(found, kind))
        writer.write(other, 2000, serialize(found, kind))
    return path if first else path / f"{path.name}.mcap"
