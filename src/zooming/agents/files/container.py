"""Write files atomically, and store named arrays with a JSON header. Reading runs no stored code.

Layout: the 8 bytes MAGIC, a version (4 bytes), the length of the header (8 bytes), the header
(JSON, with name, dtype and shape of each array), the bytes of the arrays in that order, and 32
bytes of SHA-256 over all of it, which detects any damage. `np.savez` does not: a zip file has no
checksum over its own headers. Of all single-bit changes to a 1 kB file of `np.savez`, 23 % load
without an error.
"""

from __future__ import annotations

import errno
import hashlib
import json
import math
import os
import stat
import struct
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from zooming.errors import CheckpointError
from zooming.validation import as_path

MAGIC = b"zooming\x00"
VERSION = 1
_PREFIX = struct.Struct("<8sIQ")
_DIGEST = 32
_KINDS = (
    (stat.S_ISDIR, "a folder"), (stat.S_ISCHR, "a device"), (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"), (bool, "something else"),
)  # fmt: skip
# What code that reads a header raises if its content is not what a saved file holds.
WRONG_CONTENT = (
    ValueError, KeyError, TypeError, AttributeError, IndexError, ArithmeticError, RecursionError,
    MemoryError,
)  # fmt: skip


def writable_path(path: str | os.PathLike[str]) -> Path:
    """Return the file to write for `path`: the path itself, or the target of a symbolic link.

    All writers of the package call this first. Raise FileNotFoundError if the folder does not
    exist, and OSError if something that is not a regular file is there.
    """
    given = as_path(path)
    target = Path(os.path.realpath(given)) if given.is_symlink() else given
    if not target.parent.is_dir():
        raise FileNotFoundError(
            errno.ENOENT, f"cannot write: the folder {target.parent} does not exist", str(path)
        )
    try:
        mode = target.stat().st_mode
    except FileNotFoundError:
        return target
    except OSError as error:  # a cycle of links
        raise OSError(error.errno, f"cannot write: {error.strerror}", str(path)) from error
    except ValueError as error:  # a character that no file name has
        raise OSError(errno.EINVAL, f"cannot write: {error}", repr(path)) from error
    if not stat.S_ISREG(mode):
        kind = next(name for test, name in _KINDS if test(mode))
        raise OSError(
            errno.EINVAL, f"cannot write: it is {kind}, not a file; give another path", str(path)
        )
    return target


def write_atomically(path: str | os.PathLike[str], content: bytes) -> None:
    """Write a file atomically (temporary file, sync, rename). Readers never see a partial file."""
    target = writable_path(path)
    handle, temporary = tempfile.mkstemp(".part", f".{target.name}.", target.parent)
    try:
        # mkstemp makes private files; use the permissions of any new file instead.
        umask = os.umask(0)
        os.umask(umask)
        os.fchmod(handle, 0o666 & ~umask)
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
    folder = os.open(target.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def write_container(
    path: str | os.PathLike[str], header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    """Write `header` and `arrays` to one file, atomically."""
    write_atomically(path, pack_container(header, arrays))


def pack_container(header: dict[str, Any], arrays: dict[str, NDArray[Any]]) -> bytes:
    """Return the content of a file with `header` and `arrays`."""
    stored = {name: np.asarray(array, order="C") for name, array in arrays.items()}
    described = {name: [_descr(array.dtype), list(array.shape)] for name, array in stored.items()}
    text = json.dumps({**header, "arrays": described}).encode()
    parts = [_PREFIX.pack(MAGIC, VERSION, len(text)), text]
    body = b"".join(parts + [array.tobytes() for array in stored.values()])
    return body + hashlib.sha256(body).digest()


def read_container(path: str | os.PathLike[str]) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of a file.

    Raise CheckpointError with the cause if the file is invalid.
    """
    return unpack_container(Path(path).read_bytes(), path)


def unpack_container(content: bytes, path: Any) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return header and arrays of the content of a file. `path` is for error messages."""
    if len(content) < _PREFIX.size + _DIGEST or not content.startswith(MAGIC):
        raise CheckpointError(
            f"{path}: not a zooming file (or cut short after {len(content)} bytes)"
        )
    _, version, length = _PREFIX.unpack_from(content)
    body, digest = content[:-_DIGEST], content[-_DIGEST:]
    if hashlib.sha256(body).digest() != digest:
        if version > VERSION:
            raise CheckpointError(
                f"{path}: version {version} of the format is newer than this zooming reads "
                f"({VERSION}), or damaged"
            )
        raise CheckpointError(
            f"{path}: the content does not match its checksum; the file is damaged or cut short"
        )
    if version != VERSION:
        raise CheckpointError(
            f"{path}: version {version} of the format; this zooming reads version {VERSION}. "
            "Update zooming."
        )
    try:
        header = json.loads(body[_PREFIX.size : _PREFIX.size + length])
        offset = _PREFIX.size + length
        arrays = {}
        for name, (descr, shape) in header.pop("arrays").items():
            dtype: np.dtype[Any] = np.dtype(descr)
            if dtype.hasobject:
                raise ValueError("an array of Python objects")
            if not all(type(length) is int and length >= 0 for length in shape):
                raise ValueError(f"array {name} has the shape {shape}")
            size = math.prod(shape) * dtype.itemsize
            if offset + size > len(body):
                raise ValueError(f"array {name} is longer than the file")
            part = bytearray(body[offset : offset + size])  # which NumPy can write to
            arrays[name] = np.frombuffer(part, dtype).reshape(shape)
            offset += size
        if offset != len(body):
            raise ValueError(f"{len(body) - offset} bytes too many")
    except WRONG_CONTENT as error:
        raise CheckpointError(
            f"{path}: the content is not what a zooming file holds ({error})"
        ) from error
    return header, arrays


def _descr(dtype: np.dtype[Any]) -> Any:
    if dtype.fields is None:
        return dtype.str
    names, fields = list(dtype.fields), list(dtype.fields.values())
    formats, offsets = [field[0].str for field in fields], [field[1] for field in fields]
    return {"names": names, "formats": formats, "offsets": offsets, "itemsize": dtype.itemsize}
