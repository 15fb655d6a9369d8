#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds the figures of a plan to JAX's for the same StableHLO and topology.

    jax_figures.py PLAN_STEP LIBTPU       exits with 77 where libtpu was not fetched, or JAX cannot be had
    jax_figures.py --jax TOPOLOGY TEXT IDS   under a Python with JAX: prints what JAX says, as JSON
"""

import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SKIPPED = 77
TOPOLOGIES = ["v5e:4x4", "v5p:2x2x4"]
HERE = Path(__file__).resolve().parent
QUIET = {"TPU_SKIP_MDS_QUERY": "1", "JAX_PLATFORMS": "cpu", "TPU_LOG_DIR": "disabled", "TPU_STDERR_LOG_LEVEL": "3",
         "TPU_WORKER_HOSTNAMES": "localhost", "TPU_WORKER_ID": "0", "TPU_ACCELERATOR_TYPE": "v5litepod-1"}


def figures_of_jax(topology, text, ids):
    # pylint: disable=import-outside-toplevel,import-error
    import numpy
    from jax._src import compiler
    from jax._src.interpreters import mlir
    from jax._src.lib import _jax
    from jax._src.lib.mlir import ir
    from jax.experimental import topologies
    devices = {device.id: device
               for device in topologies.get_topology_desc(platform="tpu", topology_name=topology).devices}
    order = [int(line) for line in Path(ids).read_text().split()]
    options = compiler.get_compile_options(num_replicas=len(order), num_partitions=1,
                                           device_assignment=numpy.array([[each] for each in order]))
    with mlir.make_ir_context():
        module = ir.Module.parse(Path(text).read_text())
    executable = devices[order[0]].client.compile(module, _jax.DeviceList(tuple(devices[each] for each in order)),
                                                  options)
    memory = executable.get_compiled_memory_stats()
    return {"cost": executable.cost_analysis(),
            "memory": {"arguments": memory.argument_size_in_bytes, "outputs": memory.output_size_in_bytes,
                       "aliased": memory.alias_size_in_bytes, "temporary": memory.temp_size_in_bytes,
                       "generated_code": memory.generated_code_size_in_bytes,
                       "peak": memory.peak_memory_in_bytes}}


def main():
    if sys.argv[1] == "--jax":
        print(json.dumps(figures_of_jax(*sys.argv[2:])))
        return 0
    program, libtpu = sys.argv[1:]
    if not os.path.exists(libtpu):
        print("libtpu was not fetched: scripts/setup --tpu")
        return SKIPPED
    sys.path.insert(0, str(HERE.parent / "jax"))
    import jax_python  # pylint: disable=import-outside-toplevel
    try:
        python = jax_python.jax_python()
    except subprocess.CalledProcessError as error:
        print(f"there is no JAX: {error}")
        return SKIPPED
    differences = 0
    for topology in TOPOLOGIES:
        with tempfile.TemporaryDirectory() as folder:
            text, ids, plan = (os.path.join(folder, name) for name in ("step.mlir", "ids", "plan.json"))
            subprocess.run([program, text, ids], check=True,
                           env={**os.environ, "LOCKSTEP_TOPOLOGY": topology, "LOCKSTEP_PLAN_FILE": plan})
            [ours] = json.loads(Path(plan).read_text())["computations"]
            done = subprocess.run([python, __file__, "--jax", topology, text, ids], check=True, capture_output=True,
                                  text=True, env={**os.environ, **QUIET, "TPU_LIBRARY_PATH": libtpu})
            theirs = json.loads(done.stdout.splitlines()[-1])
        for kind in ("memory", "cost"):
            for name, value in theirs[kind].items():
                if kind == "cost" and name not in ("flops", "bytes accessed", "optimal_seconds"):
                    continue
                same = ours[kind].get(name) == value
                differences += not same
                print(f"{topology} {name}: {ours[kind].get(name)}, JAX {value}" + ("" if same else "  DIFFERS"))
    return min(1, differences)


if __name__ == "__main__":
    sys.exit(main())
