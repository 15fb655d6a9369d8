// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// Forgets everything that was traced and compiled: functions of jit and pmap, and operations outside of
/// them. They are traced and compiled again when needed. Programs that are running, and objects that a user
/// holds (`Compiled`, `Lowered`), stay valid. A process may call it at any time, independently of the other
/// processes of its job; the cache on disk is not affected. JAX's jax.clear_caches. Without it,
/// InitializeOptions::max_compiled_programs limits what is kept.
void clear_caches();

}  // namespace lockstep
