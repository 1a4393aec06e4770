"""Clouds of ROS bags, 1 and 2: PointCloud2 messages as arrays, with no ROS installed."""

from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jaxtyping import Float

from purgegate.io.clouds import reading
from purgegate.io.formats.contents import must_hold

ENDINGS = (".bag", ".mcap", ".db3")
KIND = "sensor_msgs/msg/PointCloud2"
NUMBERS = {1: "i1", 2: "u1", 3: "i2", 4: "u2", 5: "i4", 6: "u4", 7: "f4", 8: "f8"}  # PointField's own


class Message(NamedTuple):
    """A cloud of a bag, with its topic and time."""

    name: str
    points: Float[np.ndarray, "N 3"]


def is_bag(path: Path) -> bool:
    """Whether a path is a ROS bag: a file by its ending, or a folder of ROS 2."""
    return path.suffix.lower() in ENDINGS or (path / "metadata.yaml").is_file()


def read_bag(path: Path, topic: str | None = None) -> Iterator[Message]:
    """Clouds of a topic in the order of their times; without a topic, of the only one that has clouds."""
    try:
        reader_of = import_module("rosbags.highlevel").AnyReader
    except ImportError as error:
        raise ValueError(f"{path} is a ROS bag: install `purgegate[ros]` to read it") from error
    if path.is_dir():
        yield from _messages(reader_of, path, topic)
        return
    with reading(path):
        yield from _messages(reader_of, path, topic)


def _messages(reader_of: Any, path: Path, topic: str | None) -> Iterator[Message]:
    with reader_of([path]) as reader:
        clouds = [each for each in reader.connections if each.msgtype == KIND]
        topics = sorted({each.topic for each in clouds})
        if topic is None and len(topics) == 1:
            topic = topics[0]
        if topic not in topics:
            asked = "which is not said" if topic is None else f"not {topic}"
            raise ValueError(
                f"clouds lie in its topics {', '.join(topics) or '(none)'}, {asked}: give --topic"
            )
        wanted = [each for each in clouds if each.topic == topic]
        for connection, time, data in reader.messages(wanted):
            yield Message(f"{topic}@{time}", points_of(reader.deserialize(data, connection.msgtype)))


def points_of(message: Any) -> Float[np.ndarray, "N 3"]:
    """The points of a PointCloud2 message; those that the sensor did not see, which are NaN, are left out."""
    order = ">" if message.is_bigendian else "<"
    fields = {field.name: field for field in message.fields}
    if not {"x", "y", "z"} <= fields.keys():
        raise ValueError(f"a cloud needs the fields x, y and z; it has {', '.join(fields)}")
    if any(fields[axis].datatype not in NUMBERS for axis in "xyz"):
        raise ValueError("the fields x, y and z must be numbers of a known kind")
    step, row, width, height = message.point_step, message.row_step, message.width, message.height
    record = np.dtype(
        {
            "names": list("xyz"),
            "formats": [order + NUMBERS[fields[axis].datatype] for axis in "xyz"],
            "offsets": [fields[axis].offset for axis in "xyz"],
            "itemsize": step,
        }
    )
    data = np.ascontiguousarray(message.data, dtype=np.uint8)
    must_hold("bytes", declared=height * row, held=data.size)
    must_hold("bytes a row", declared=width * step, held=row)
    rows = data[: height * row].reshape(height, row)[:, : width * step]
    cells = np.ascontiguousarray(rows).reshape(-1).view(record)
    points = np.stack([cells[axis].astype(np.float64) for axis in "xyz"], axis=1)
    return points[np.isfinite(points).all(axis=1)]
