#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes device_meshes.json: the orders in which JAX's mesh_utils puts the chips of described TPU slices.

    device_meshes.py > tests/plan/device_meshes.json      with a Python that has jax 0.10.2 and libtpu 0.0.42.1
"""

import itertools
import json
import os

os.environ.update(TPU_SKIP_MDS_QUERY="1", JAX_PLATFORMS="cpu", TPU_LOG_DIR="disabled", TPU_STDERR_LOG_LEVEL="3",
                  TPU_WORKER_HOSTNAMES="localhost", TPU_WORKER_ID="0", TPU_ACCELERATOR_TYPE="v5litepod-1")

import jax  # noqa: E402  pylint: disable=wrong-import-position
from jax.experimental import mesh_utils, topologies  # noqa: E402  pylint: disable=wrong-import-position

TOPOLOGIES = [("v2:2x2", {}), ("v3:4x4", {}), ("v4:2x2x1", {"chip_config_name": "megacore"}),
              ("v4:2x2x4", {"chip_config_name": "megacore"}), ("v4:4x4x4", {"chip_config_name": "megacore"}),
              ("v5e:2x2", {}), ("v5e:2x4", {}), ("v5e:4x4", {}), ("v5e:8x8", {}), ("v5p:2x2x1", {}),
              ("v5p:2x2x2", {}), ("v5p:2x2x4", {}), ("v5p:4x4x4", {}), ("v6e:2x2", {}), ("v6e:2x4", {}),
              ("v6e:4x4", {}), ("v6e:4x8", {}), ("TPU7x:2x2x1", {}), ("TPU7x:2x2x4", {})]
HYBRID = [("v5e:2x4", 2), ("v5e:4x4", 2), ("v6e:2x2", 4)]


def shapes(size, rank):
    """All shapes of this rank, with few ones in them."""
    divisors = [d for d in range(1, size + 1) if size % d == 0]
    for shape in itertools.product(divisors, repeat=rank - 1):
        product = 1
        for one in shape:
            product *= one
        if size % product == 0:
            yield (*shape, size // product)


def order(devices, make):
    """The places in `devices` of those that `make` gives; None where JAX makes no such mesh."""
    place = {id(device): i for i, device in enumerate(devices)}
    try:
        return [place[id(device)] for device in make().flat]
    except (NotImplementedError, ValueError, AssertionError):
        return None


def describe(device):
    return [list(device.coords), device.core_on_chip, device.process_index, getattr(device, "slice_index", None) or 0]


def main():
    written = {"jax": jax.__version__, "create_device_mesh": [], "create_hybrid_device_mesh": []}
    for name, options in TOPOLOGIES:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=name, **options).devices
        cases = []
        for rank in (1, 2, 3):
            for shape in shapes(len(devices), rank):
                if rank == 3 and (1 in shape or len(devices) > 32):
                    continue
                for split in (False, True):
                    found = order(devices, lambda: mesh_utils.create_device_mesh(
                        shape, devices, allow_split_physical_axes=split))  # pylint: disable=cell-var-from-loop
                    if not split or found != cases[-1]["order"]:
                        cases.append({"shape": shape, "split": split, "order": found})
        written["create_device_mesh"].append({"topology": name, "kind": devices[0].device_kind,
                                              "devices": [describe(device) for device in devices], "cases": cases})
    for name, slices in HYBRID:
        devices = topologies.get_topology_desc(platform="tpu", topology_name=name, num_slices=slices).devices
        cases = []
        for shape in shapes(len(devices) // slices, 2):
            for outer in shapes(slices, 2):
                cases.append({"shape": shape, "outer": outer,
                              "order": order(devices, lambda: mesh_utils.create_hybrid_device_mesh(
                                  shape, outer, devices,  # pylint: disable=cell-var-from-loop
                                  allow_split_physical_axes=True))})
        written["create_hybrid_device_mesh"].append({"topology": f"{slices}*{name}", "kind": devices[0].device_kind,
                                                     "devices": [describe(device) for device in devices],
                                                     "cases": cases})
    text = json.dumps(written)
    print(text.replace('{"topology"', '\n{"topology"').replace('{"shape"', '\n  {"shape"'))


if __name__ == "__main__":
    main()
