#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes model.pt beside this file as torch.save of torch 2 does, without torch: a zip file of stored entries whose
bytes begin at multiples of 64, with a pickle of protocol 2 that names the storages."""

import collections
import io
import pathlib
import pickle
import struct
import sys
import types
import zipfile


def module(name, **contents):
    made = types.ModuleType(name)
    for key, value in contents.items():
        value.__module__ = name
        value.__qualname__ = key
        setattr(made, key, value)
    sys.modules[name] = made
    return made


def rebuild_tensor_v2(*arguments): ...
def rebuild_parameter(*arguments): ...


storage_types = {name: type(name, (), {}) for name in ("FloatStorage", "BFloat16Storage", "LongStorage", "BoolStorage")}
torch = module("torch", **storage_types)
utils = module("torch._utils", _rebuild_tensor_v2=rebuild_tensor_v2, _rebuild_parameter=rebuild_parameter)
torch._utils = utils


class Storage:
    def __init__(self, kind, data, count):
        self.kind, self.data, self.count = kind, data, count


class Tensor:
    def __init__(self, storage, offset, shape, strides):
        self.arguments = (storage, offset, shape, strides, False, collections.OrderedDict())

    def __reduce__(self):
        return rebuild_tensor_v2, self.arguments


class Parameter:
    def __init__(self, tensor):
        self.tensor = tensor

    def __reduce__(self):
        return rebuild_parameter, (self.tensor, True, collections.OrderedDict())


class Pickler(pickle.Pickler):
    def __init__(self, file):
        super().__init__(file, protocol=2)
        self.storages = []

    def persistent_id(self, value):
        if not isinstance(value, Storage):
            return None
        if value not in self.storages:
            self.storages.append(value)
        key = str(self.storages.index(value))
        return "storage", storage_types[value.kind], key, "cpu", value.count


def save(path, value):
    pickled = io.BytesIO()
    pickler = Pickler(pickled)
    pickler.dump(value)
    folder = pathlib.Path(path).stem
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as file:
        def write(name, data):
            entry = zipfile.ZipInfo(f"{folder}/{name}", (1980, 1, 1, 0, 0, 0))
            begin = file.fp.tell() + 30 + len(entry.filename) + 4
            padding = -begin % 64
            entry.extra = b"FB" + struct.pack("<H", padding) + b"Z" * padding
            file.writestr(entry, data)

        write("data.pkl", pickled.getvalue())
        write("byteorder", b"little")
        for key, storage in enumerate(pickler.storages):
            write(f"data/{key}", storage.data)
        write("version", b"3\n")


def numbers(kind, count, form):
    return Storage(kind, struct.pack(f"<{count}{form}", *range(count)), count)


if __name__ == "__main__":
    weight = numbers("FloatStorage", 12, "f")
    halves = Storage("BFloat16Storage", b"".join(struct.pack("<f", i)[2:] for i in range(6)), 6)
    state = collections.OrderedDict()
    state["embed.weight"] = Parameter(Tensor(weight, 0, (4, 3), (3, 1)))
    state["head.weight"] = Parameter(Tensor(weight, 0, (4, 3), (3, 1)))  # tied
    state["turned"] = Tensor(weight, 0, (3, 4), (1, 3))
    state["rows"] = Tensor(weight, 3, (2, 3), (3, 1))
    state["halves"] = Tensor(halves, 0, (6,), (1,))
    state["count"] = Tensor(numbers("LongStorage", 1, "q"), 0, (), ())
    state["mask"] = Tensor(Storage("BoolStorage", b"\0\1", 2), 0, (2,), (1,))
    state._metadata = collections.OrderedDict({"": {"version": 1}})
    folder = pathlib.Path(__file__).parent
    save(folder / "model.pt", {"state": state, "epoch": 3, "rate": 0.5, "name": "small", "done": None,
                               "history": [1, -70000]})
