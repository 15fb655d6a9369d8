#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""NumPy, JAX and PyTorch take Lockstep's arrays by DLPack, and Lockstep takes theirs, in one process.

    exchange.py LIBRARY                 NumPy and JAX
    exchange.py LIBRARY --torch PYTHON  PyTorch, with a Python that has it (it is too large for each run of the tests)

Exit status 77 where the package index cannot be reached.
"""
import ctypes
import gc
import os
import subprocess
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "jax"))
import jax_python  # noqa: E402

DTYPES = {"bool": "bool", "i8": "int8", "i16": "int16", "i32": "int32", "i64": "int64", "u8": "uint8", "u16": "uint16",
          "u32": "uint32", "u64": "uint64", "f16": "float16", "f32": "float32", "f64": "float64", "c64": "complex64",
          "c128": "complex128"}
CAPSULE = ctypes.pythonapi.PyCapsule_New
CAPSULE.restype, CAPSULE.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
POINTER = ctypes.pythonapi.PyCapsule_GetPointer
POINTER.restype, POINTER.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
RENAME = ctypes.pythonapi.PyCapsule_SetName
RENAME.argtypes = [ctypes.py_object, ctypes.c_char_p]


class Library:
    def __init__(self, path):
        self.functions = ctypes.CDLL(path)
        for name in ("make", "take", "take_unversioned", "give", "give_unversioned", "address", "doubled"):
            getattr(self.functions, name).restype = ctypes.c_void_p
        for name in ("error_text", "describe"):
            getattr(self.functions, name).restype = ctypes.c_char_p

    def call(self, name, *arguments):
        result = getattr(self.functions, name)(
            *(ctypes.c_void_p(a) if type(a) is int and a > 1 << 20 else a for a in arguments))
        if result is None:
            raise RuntimeError(self.functions.error_text().decode())
        return result


class Ours:
    """An array of Lockstep's, as Python's libraries want one."""

    def __init__(self, library, pointer):
        self.library, self.pointer = library, pointer

    def __dlpack_device__(self):
        return (1, 0)

    def __dlpack__(self, *, max_version=None, **_):
        if max_version is not None and max_version[0] >= 1:
            return CAPSULE(self.library.call("give", self.pointer), b"dltensor_versioned", None)
        return CAPSULE(self.library.call("give_unversioned", self.pointer), b"dltensor", None)

    def drop(self):
        self.library.functions.drop(ctypes.c_void_p(self.pointer))


NAMES = {}


def name_of(name):
    """The bytes of a capsule's name, which the capsule does not keep itself."""
    return NAMES.setdefault(name, ctypes.c_char_p(name))


def take(library, array, versioned=True, must_not_copy=False):
    """An array of another library, taken over by Lockstep."""
    capsule = array.__dlpack__(max_version=(1, 0)) if versioned else array.__dlpack__()
    kind = b"dltensor_versioned" if versioned else b"dltensor"
    pointer = POINTER(capsule, kind)
    RENAME(capsule, name_of(b"used_" + kind))
    if versioned:
        return Ours(library, library.call("take", pointer, must_not_copy))
    return Ours(library, library.call("take_unversioned", pointer))


def check(library):
    """In the virtual environment."""
    import numpy

    os.environ["JAX_PLATFORMS"] = "cpu"
    import jax

    jax.config.update("jax_enable_x64", True)
    for ours, numpys in DTYPES.items():
        x = Ours(library, library.call("make", ours.encode(), 16))
        seen = numpy.from_dlpack(x)
        expected = numpy.arange(64).astype(numpys).reshape(16, 4)
        assert seen.dtype == expected.dtype and (seen == expected).all(), (ours, seen)
        assert seen.ctypes.data == library.call("address", x.pointer) and not seen.flags.writeable, ours
        x.drop()  # NumPy keeps the memory
        gc.collect()
        other = Ours(library, library.call("make", ours.encode(), 16))
        assert (seen == expected).all(), ours

        back = take(library, seen, must_not_copy=True)
        del seen
        gc.collect()
        twice = numpy.from_dlpack(Ours(library, library.call("doubled", back.pointer)))
        assert (twice == expected + expected).all(), ours
        back.drop()

        theirs = jax.dlpack.from_dlpack(other)
        assert theirs.dtype == expected.dtype and (numpy.asarray(theirs) == expected).all(), ours
        from_jax = take(library, theirs, versioned=False)
        assert (numpy.from_dlpack(from_jax) == expected).all(), ours
        from_jax.drop()
        other.drop()

    # Elements of JAX that NumPy has no type for.
    for dtype in (jax.numpy.bfloat16, jax.numpy.float8_e4m3fn, jax.numpy.float8_e5m2):
        theirs = jax.numpy.arange(8, dtype=jax.numpy.float32).astype(dtype)
        back = jax.dlpack.from_dlpack(take(library, theirs, versioned=False))
        assert back.dtype == theirs.dtype and (back == theirs).all(), dtype

    # Strides of any kind, each copied once; the last is aligned and in place.
    whole = numpy.arange(24 * 32, dtype=numpy.float32).reshape(24, 32)
    for view in (whole.T, whole[::2, 1::3], whole[::-1], numpy.asfortranarray(whole), whole.reshape(2, 12, 32).swapaxes(0, 2),
                 numpy.broadcast_to(whole[0], (5, 32)), whole[3:3]):
        x = take(library, view)
        assert (numpy.from_dlpack(x) == view).all() and numpy.from_dlpack(x).shape == view.shape, view.strides
        x.drop()

    # The tensor's owner is kept as long as the array, and no longer.
    memory = numpy.zeros(64 + 16, numpy.float32)
    start = -memory.ctypes.data // 4 % 16
    part = memory[start:start + 64]
    count = sys.getrefcount(part)
    x = take(library, part, must_not_copy=True)
    assert sys.getrefcount(part) == count + 1
    assert library.call("address", x.pointer) == part.ctypes.data
    x.drop()
    for _ in range(1000):
        if sys.getrefcount(part) == count:
            break
        __import__("time").sleep(0.01)  # the plugin releases it on a thread of its own
    assert sys.getrefcount(part) == count

    try:
        take(library, memory[start + 1:start + 17], must_not_copy=True)
        raise AssertionError("a copy was made in silence")
    except RuntimeError as error:
        assert "begin 4 bytes behind a multiple of 64" in str(error), error
    print("NumPy, JAX and Lockstep agree")


def check_torch(library):
    """With a Python that has PyTorch."""
    import torch

    names = DTYPES | {"bf16": "bfloat16", "f8_e4m3fn": "float8_e4m3fn", "f8_e5m2": "float8_e5m2"}
    for ours, torchs in names.items():
        x = Ours(library, library.call("make", ours.encode(), 16))
        seen = torch.from_dlpack(x)
        expected = torch.arange(64).to(getattr(torch, torchs)).reshape(16, 4)
        raw = torch.uint8  # equality of all types, 8-bit floats too
        assert seen.dtype == expected.dtype and torch.equal(seen.contiguous().view(raw), expected.view(raw)), (ours, seen)
        assert seen.data_ptr() == library.call("address", x.pointer), ours
        x.drop()  # PyTorch keeps the memory
        gc.collect()
        other = Ours(library, library.call("make", ours.encode(), 16))
        assert torch.equal(seen.view(raw), expected.view(raw)), ours

        for versioned in (True, False):
            back = take(library, seen, versioned=versioned)
            again = torch.from_dlpack(back)
            assert torch.equal(again.view(raw), expected.view(raw)), (ours, versioned)
            back.drop()
        other.drop()

    whole = torch.arange(24 * 32, dtype=torch.float32).reshape(24, 32)
    views = (whole.T, whole[::2, 1::3], whole.reshape(2, 12, 32).swapaxes(0, 2), whole[0].expand(5, 32), whole[3:3],
             torch.tensor(3.0))
    for view in views:
        x = take(library, view)
        assert torch.equal(torch.from_dlpack(x), view), view.stride()
        twice = Ours(library, library.call("doubled", x.pointer))
        assert torch.equal(torch.from_dlpack(twice), view + view), view.stride()
        x.drop()

    try:
        take(library, torch.ones(3, requires_grad=True))
        raise AssertionError("a tensor with a gradient was taken")
    except BufferError:
        pass
    print("PyTorch and Lockstep agree")


def main():
    if sys.argv[1] == "--check":
        return check(Library(sys.argv[2]))
    if sys.argv[1] == "--check-torch":
        return check_torch(Library(sys.argv[2]))
    if "--torch" in sys.argv:
        return sys.exit(subprocess.run([sys.argv[3], __file__, "--check-torch", sys.argv[1]], check=False).returncode)
    try:
        python = jax_python.jax_python()
    except subprocess.CalledProcessError as error:
        print(f"JAX cannot be had here: {error}")
        return sys.exit(77)
    return sys.exit(subprocess.run([python, __file__, "--check", sys.argv[1]], check=False).returncode)


main()
