# SPDX-License-Identifier: Apache-2.0
"""One JAX process of a job whose coordinator is Lockstep's: uses all that JAX's client offers, and computes.

jax_process.py COORDINATOR NUM_PROCESSES PROCESS_ID
"""

import os
import socket
import sys

os.environ["JAX_PLATFORMS"] = "cpu"

import jax
import jax.numpy as jnp
import numpy as np
from jax._src import distributed
from jax.experimental import multihost_utils
from jax.sharding import Mesh, NamedSharding, PartitionSpec

coordinator, num_processes, process = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
everybody = list(range(num_processes))
SECOND = 1000  # milliseconds


def raises(what, action):
    try:
        action()
    except Exception as error:
        assert what in str(error), f"expected {what}, got {error}"
        return
    raise AssertionError(f"expected {what}, but nothing was raised")


# Process 0 starts a service of JAX's too, wherever it is told; nobody joins that one.
with socket.socket() as unused:
    unused.bind(("127.0.0.1", 0))
    bind_address = f"127.0.0.1:{unused.getsockname()[1]}"
jax.config.update("jax_cpu_collectives_implementation", "gloo")
jax.distributed.initialize(coordinator_address=coordinator, num_processes=num_processes, process_id=process,
                           coordinator_bind_address=bind_address)
client = distributed.global_state.client

# Keys.
client.key_value_set(f"k/{process}", f"value {process}")
client.key_value_set_bytes(f"bytes/{process}", bytes([0, 255, process]))
for other in everybody:
    assert client.blocking_key_value_get(f"k/{other}", 60 * SECOND) == f"value {other}"
    assert client.blocking_key_value_get_bytes(f"bytes/{other}", 60 * SECOND) == bytes([0, 255, other])
assert sorted(client.key_value_dir_get("k")) == [(f"k/{i}", f"value {i}") for i in everybody]
assert client.key_value_try_get("k/0") == "value 0"
raises("NOT_FOUND", lambda: client.key_value_try_get("no such key"))
raises("ALREADY_EXISTS", lambda: client.key_value_set("k/0", "again"))
client.wait_at_barrier("after the keys", 60 * SECOND)
client.key_value_set(f"k/{process}", "again", allow_overwrite=True)
assert client.key_value_try_get(f"k/{process}") == "again"
client.key_value_increment("sum", process + 1)
client.wait_at_barrier("added", 60 * SECOND)
assert client.key_value_increment("sum", 0) == sum(range(num_processes + 1))
client.wait_at_barrier("summed", 60 * SECOND)
if process == 0:
    client.key_value_delete("k")
client.wait_at_barrier("deleted", 60 * SECOND)
assert client.key_value_dir_get("k") == []
raises("DEADLINE_EXCEEDED", lambda: client.blocking_key_value_get("never set", SECOND // 2))

# Barriers: of some, used again, and late.
for _ in range(3):
    client.wait_at_barrier("again", 60 * SECOND)
if process < 2:
    client.wait_at_barrier("of two", 60 * SECOND, [0, 1])
if process == 0:
    raises("DEADLINE_EXCEEDED", lambda: client.wait_at_barrier("late", SECOND // 2))
    client.key_value_set("it was late", "yes")
else:
    client.blocking_key_value_get("it was late", 60 * SECOND)
    raises("DEADLINE_EXCEEDED", lambda: client.wait_at_barrier("late", 60 * SECOND))
client.wait_at_barrier("all have heard", 60 * SECOND)
client.wait_at_barrier("late", 60 * SECOND)
assert sorted(client.get_live_nodes(everybody)) == everybody

# A computation of all, whose processes find each other by the keys.
devices = jax.devices()
assert len(devices) == num_processes and jax.process_count() == num_processes
mesh = Mesh(np.array(devices), "i")
sharded = NamedSharding(mesh, PartitionSpec("i"))
x = jax.make_array_from_process_local_data(sharded, np.array([process + 1.0], dtype=np.float32))
psum = jax.jit(jax.shard_map(lambda v: jax.lax.psum(v, "i"), mesh=mesh, in_specs=PartitionSpec("i"),
                             out_specs=PartitionSpec()))
assert float(psum(x).addressable_data(0)[0]) == sum(range(num_processes + 1))
gathered = multihost_utils.process_allgather(jnp.array([process]))
assert gathered.ravel().tolist() == everybody
assert client.key_value_dir_get_bytes("cpu:gloo"), "the rendezvous was elsewhere"
multihost_utils.sync_global_devices("done")

jax.distributed.shutdown()
print(f"process {process} of {num_processes} has left", flush=True)
