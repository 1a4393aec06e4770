"""A small LZF packer, so that the tests can write packed .pcd files."""


def pack_lzf(data: bytes) -> bytes:
    """Pack greedily: the last place of every three bytes is tried as a reference."""
    out, literals, seen, place = bytearray(), bytearray(), {}, 0
    while place < len(data):
        back = place - seen.get(data[place : place + 3], place)
        seen[data[place : place + 3]] = place
        length = 0
        if 0 < back <= 8192 and place + 3 <= len(data):
            limit = min(264, len(data) - place)
            while length < limit and data[place + length] == data[place - back + length]:
                length += 1
        if length < 3:
            literals.append(data[place])
            place += 1
            continue
        _flush(out, literals)
        short, offset = length - 2, back - 1
        out.append(min(short, 7) << 5 | offset >> 8)
        if short >= 7:
            out.append(short - 7)
        out.append(offset & 255)
        place += length
    _flush(out, literals)
    return bytes(out)


def _flush(out: bytearray, literals: bytearray) -> None:
    for start in range(0, len(literals), 32):
        run = literals[start : start + 32]
        out.append(len(run) - 1)
        out += run
    literals.clear()
