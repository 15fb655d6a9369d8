# SPDX-License-Identifier: Apache-2.0
"""JAX's own coordination service, alone: jax_service.py NUM_PROCESSES. Prints its address; ends with its input."""

import socket
import sys

from jax._src.lib import _jax

with socket.socket() as free:
    free.bind(("127.0.0.1", 0))
    address = f"127.0.0.1:{free.getsockname()[1]}"
service = _jax.get_distributed_runtime_service(address, int(sys.argv[1]), heartbeat_timeout=100, shutdown_timeout=60)
print(address, flush=True)
sys.stdin.read()
service.shutdown()
