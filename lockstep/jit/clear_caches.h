#pragma once

namespace lockstep {

/// Forgets all that was traced and compiled: functions of jit and pmap, and operations outside of them. What
/// is needed again is traced and compiled again; what runs in another thread, and what a user holds
/// (`Compiled`, `Lowered`), goes on. A process may call it when it likes, whatever the others of its job do;
/// the cache on disk stays. JAX's jax.clear_caches. InitializeOptions::max_compiled_programs bounds what is
/// kept without it.
void clear_caches();

}  // namespace lockstep
