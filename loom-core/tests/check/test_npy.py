"""`.npy` files: agreement with NumPy's own reader and writer, and files that must be refused."""

from __future__ import annotations

import io
import math
import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loom.check.compare import expect_bitwise
from loom.check.errors import CheckError
from loom.check.generate import fill, iota
from loom.check.host_tensor import HostTensor
from loom.check.npy import input_path, output_path, read_npy, write_npy
from loom.evaluate.numeric.formats import BF16, F32, F64, FORMATS, I1, I8, I32, I64, OFFSET, ScalarFormat

EVERY_ELEMENT = sorted(FORMATS)


def saved(array: np.ndarray, version: tuple[int, int] | None = None) -> bytes:
    buffer = io.BytesIO()
    np.lib.format.write_array(buffer, array, version=version)
    return buffer.getvalue()


def with_header(header: str | bytes, data: bytes = b"", version: int = 1) -> bytes:
    encoded = header.encode() if isinstance(header, str) else header
    width = 2 if version == 1 else 4
    return b"\x93NUMPY" + bytes((version, 0)) + len(encoded).to_bytes(width, "little") + encoded + data


def read_bytes(directory: Path, data: bytes, element: ScalarFormat, shape: Sequence[int]) -> HostTensor:
    path = directory / "value.npy"
    path.write_bytes(data)
    return read_npy(path, element, shape)


@pytest.mark.parametrize("name", EVERY_ELEMENT)
@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (2, 0, 3), (1,) * 15])
def test_round_trip(tmp_path: Path, name: str, shape: tuple[int, ...]) -> None:
    """Every element type and kind of shape survives, bit for bit."""
    element = FORMATS[name]
    size = math.prod(shape) * element.dtype.itemsize
    raw = np.random.default_rng(1).integers(0, 2 if element is I1 else 128, size, dtype=np.uint8)
    tensor = HostTensor(element, raw.view(element.dtype).reshape(shape))
    path = tmp_path / "out" / "deep" / "value.npy"
    write_npy(path, tensor)
    assert expect_bitwise(read_npy(path, element, shape), tensor).passed
    assert [entry.name for entry in path.parent.iterdir()] == ["value.npy"]


@pytest.mark.parametrize("shape", [(), (0,), (5,), (2, 3), (7, 1, 4)])
def test_written_bytes_are_those_of_numpy(tmp_path: Path, shape: tuple[int, ...]) -> None:
    """The same header layout and padding as `numpy.save`."""
    for element in (I1, I8, I32, I64, F32, F64):
        tensor = HostTensor(element, np.ones(shape, dtype=element.dtype))
        write_npy(tmp_path / "value.npy", tensor)
        assert (tmp_path / "value.npy").read_bytes() == saved(tensor.array)


def test_numpy_reads_brain_floats_as_bits(tmp_path: Path) -> None:
    """`bf16` is raw unsigned 16-bit integers, `offset` unsigned 64-bit ones."""
    write_npy(tmp_path / "b.npy", fill(BF16, [2], 1.0))
    assert np.load(tmp_path / "b.npy").tolist() == [0x3F80, 0x3F80]
    write_npy(tmp_path / "o.npy", fill(OFFSET, [1], 2**63 - 1))
    assert np.load(tmp_path / "o.npy").dtype == np.uint64


@pytest.mark.parametrize("version", [(1, 0), (2, 0), (3, 0)])
def test_every_version_is_read(tmp_path: Path, version: tuple[int, int]) -> None:
    """They differ in the header's length field and encoding only."""
    array = np.arange(6, dtype=np.int32).reshape(2, 3)
    assert read_bytes(tmp_path, saved(array, version), I32, [2, 3]).array.tolist() == array.tolist()


def test_entries_come_in_any_order_and_spacing(tmp_path: Path) -> None:
    """The format only asks for a dictionary of three entries."""
    header = """{ "shape" : ( 2 , ) ,'fortran_order':False,"descr":'<i4'}   \n"""
    data = np.array([3, 4], dtype="<i4").tobytes()
    assert read_bytes(tmp_path, with_header(header, data), I32, [2]).array.tolist() == [3, 4]


def test_read_values_are_writable(tmp_path: Path) -> None:
    """A device may write to a tensor that came from a file."""
    tensor = read_bytes(tmp_path, saved(np.zeros(3, dtype=np.int32)), I32, [3])
    tensor.array[1] = 5
    assert tensor.array.tolist() == [0, 5, 0]


ROW = "{'descr': '<i4', 'fortran_order': False, 'shape': (2,), }"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "not a .npy file"),
        (b"\x93NUMPX\x01\x00" + bytes(80), "not a .npy file"),
        (b"PK\x03\x04" + bytes(80), "not a .npy file"),
        (with_header(ROW, version=4), r"version 4\.0 is unknown"),
        (b"\x93NUMPY\x01\x00\x76", "truncated in its header"),
        (with_header(ROW)[:-1], "truncated in its header"),
        (with_header(ROW), "truncated: 0 of 8 bytes of data"),
        (with_header(ROW, bytes(7)), "truncated: 7 of 8 bytes of data"),
        (with_header(ROW, bytes(9)), "data after the 8 bytes"),
        (with_header(ROW + " " * 20000, bytes(8)), "longer than 10000"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff" + bytes(64), "longer than 10000"),
        (with_header("\xff".encode("latin-1"), version=3), "not UTF-8"),
        (with_header(ROW.replace("<i4", ">i4"), bytes(8)), "big-endian"),
        (with_header(ROW.replace("<i4", "<i8"), bytes(16)), "its type is '<i8', but i32 needs '<i4'"),
        (with_header(ROW.replace("<i4", "<u4"), bytes(8)), "its type is '<u4'"),
        (with_header(ROW.replace("<i4", "|O"), bytes(8)), "its type is '|O'"),
        (with_header(ROW.replace("'<i4'", "[('a', '<i4')]"), bytes(8)), "structured or object"),
        (with_header(ROW.replace("False", "True"), bytes(8)), "Fortran order"),
        (with_header(ROW.replace("False", "0"), bytes(8)), "not that of a plain array"),
        (with_header(ROW.replace("(2,)", "(2, 1)"), bytes(8)), r"its rank is 2 .*expected \[2\]"),
        (with_header(ROW.replace("(2,)", "(3,)"), bytes(12)), r"its shape is \[3\], expected \[2\]"),
        (with_header(ROW.replace("(2,)", "(2)"), bytes(8)), "not a tuple"),
        (with_header(ROW.replace("(2,)", "(2,,)"), bytes(8)), "malformed"),
        (with_header(ROW.replace("(2,)", "(-2,)"), bytes(8)), "not that of a plain array"),
        (with_header(ROW.replace("(2,)", f"({'9' * 4000},)"), bytes(8)), "malformed"),
        (with_header(ROW.replace("(2,)", f"({'1, ' * 16})"), bytes(8)), "rank 16 exceeds 15"),
        (with_header(ROW.replace("(2,)", f"({2**62},)"), bytes(8)), "its shape is"),
        (with_header(ROW[:-1] + "'extra': 1}", bytes(8)), "not that of a plain array"),
        (with_header(ROW[:-1] + "'descr': '<i4'}", bytes(8)), "not that of a plain array"),
        (with_header("{'descr': '<i4', 'shape': (2,)}", bytes(8)), "not that of a plain array"),
        (with_header(ROW + "; import os", bytes(8)), "not that of a plain array"),
        (with_header("{" * 9000, bytes(8)), "not that of a plain array"),
        (with_header("", bytes(8)), "not that of a plain array"),
    ],
)
def test_refused_files(tmp_path: Path, data: bytes, message: str) -> None:
    """Each is one clear error that names the file."""
    with pytest.raises(CheckError, match=message) as caught:
        read_bytes(tmp_path, data, I32, [2])
    assert str(caught.value).startswith(f"cannot read {tmp_path / 'value.npy'}: ")


def test_every_truncation_is_refused(tmp_path: Path) -> None:
    """A prefix of a file is never a tensor."""
    whole = saved(np.arange(4, dtype=np.int32))
    assert read_bytes(tmp_path, whole, I32, [4]).array.tolist() == [0, 1, 2, 3]
    for length in range(len(whole)):
        with pytest.raises(CheckError):
            read_bytes(tmp_path, whole[:length], I32, [4])


@given(position=st.integers(0, 143), byte=st.integers(0, 255))
@settings(max_examples=300)
def test_damage_never_crashes(tmp_path_factory: pytest.TempPathFactory, position: int, byte: int) -> None:
    """A changed byte gives a tensor of the declared type or the one error."""
    data = bytearray(saved(np.arange(4, dtype=np.int32)))
    data[position] = byte
    try:
        tensor = read_bytes(tmp_path_factory.getbasetemp(), bytes(data), I32, [4])
    except CheckError:
        return
    assert tensor.shape == (4,)
    assert tensor.array.dtype == np.int32


def test_values_outside_their_type_are_refused(tmp_path: Path) -> None:
    """A boolean byte of 2 and a byte distance above 2^63 - 1."""
    header = "{'descr': '|b1', 'fortran_order': False, 'shape': (3,), }"
    with pytest.raises(CheckError, match="neither 0 nor 1"):
        read_bytes(tmp_path, with_header(header, b"\x00\x01\x02"), I1, [3])
    with pytest.raises(CheckError, match="byte distance in it exceeds"):
        read_bytes(tmp_path, saved(np.array([2**63], dtype=np.uint64)), OFFSET, [1])


def test_what_is_not_a_file_is_refused(tmp_path: Path) -> None:
    """A missing file, a directory, and a pipe (which could block for ever)."""
    with pytest.raises(CheckError, match="No such file"):
        read_npy(tmp_path / "none.npy", I32, [2])
    with pytest.raises(CheckError, match="directory"):
        read_npy(tmp_path, I32, [2])
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckError, match="not a regular file"):
        read_npy(tmp_path / "pipe", I32, [2])


def test_writing_replaces_and_cleans_up(tmp_path: Path) -> None:
    """An old file is replaced; a failed write leaves neither a file nor a temporary one."""
    path = tmp_path / "value.npy"
    path.write_bytes(b"old")
    write_npy(path, iota(I32, [2], 0, 1))
    assert np.load(path).tolist() == [0, 1]
    (tmp_path / "taken.npy").mkdir()
    (tmp_path / "taken.npy" / "content").touch()
    with pytest.raises(CheckError, match="cannot write"):
        write_npy(tmp_path / "taken.npy", iota(I32, [2], 0, 1))
    (tmp_path / "file").touch()
    with pytest.raises(CheckError, match="cannot write"):
        write_npy(tmp_path / "file" / "below.npy", iota(I32, [2], 0, 1))
    assert sorted(entry.name for entry in tmp_path.iterdir()) == ["file", "taken.npy", "value.npy"]


def test_input_paths_start_at_the_module(tmp_path: Path) -> None:
    """Relative ones; absolute ones are taken as they are."""
    assert input_path(tmp_path, "data/x.npy") == tmp_path / "data/x.npy"
    assert input_path(tmp_path, "../x.npy") == tmp_path / "../x.npy"
    assert input_path(tmp_path, "/abs/x.npy") == Path("/abs/x.npy")
    for path in ("", "a\0b"):
        with pytest.raises(CheckError, match="not a file path"):
            input_path(tmp_path, path)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "/etc/x.npy",
        "a//b.npy",
        "a/",
        "./x.npy",
        "a/./b.npy",
        "../x.npy",
        "a/../../b",
        "a\\b",
        "C:x",
        "a\0b",
    ],
)
def test_output_paths_stay_below_their_directory(tmp_path: Path, path: str) -> None:
    """No component that leads elsewhere, on any system."""
    with pytest.raises(CheckError, match="output path"):
        output_path(tmp_path, path)


def test_output_paths_do_not_follow_links_out(tmp_path: Path) -> None:
    """A link inside the output directory cannot redirect a write; one that stays inside may."""
    inside, outside = tmp_path / "out", tmp_path / "elsewhere"
    (inside / "real").mkdir(parents=True)
    outside.mkdir()
    (inside / "link").symlink_to(outside)
    (inside / "alias").symlink_to(inside / "real")
    with pytest.raises(CheckError, match="leads out"):
        output_path(inside, "link/x.npy")
    assert output_path(inside, "alias/x.npy") == inside.resolve() / "alias/x.npy"
    assert output_path(inside, "new/x.npy") == inside.resolve() / "new/x.npy"
