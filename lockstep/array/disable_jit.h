#pragma once

namespace lockstep {

/// For its lifetime, and on this thread, functions of jit run operation by operation, as JAX's
/// jax.disable_jit() does it: a jitted function is called with the arrays themselves, so that it may read and
/// print them, and scan, while_loop, cond and switch_ are loops and choices of C++. The functions of grad,
/// vmap, remat, shard_map and the like are traced all the same, and what was traced is computed operation by
/// operation (lockstep/array/evaluate.h). Functions of pmap, and what was lowered, are compiled as ever.
/// Scopes nest; the innermost counts, over the setting disable_jit.
///
/// Results are those of jit but for rounding. Memory that is donated stays with the arguments. Over several
/// processes all of them must do it.
class DisableJit {
 public:
  explicit DisableJit(bool disable = true);
  ~DisableJit();
  DisableJit(const DisableJit&) = delete;
  DisableJit& operator=(const DisableJit&) = delete;

 private:
  int before_;
};

namespace internal {

/// Whether a call outside of traces on this thread is to run operation by operation, by the innermost
/// DisableJit or the setting.
bool jit_is_disabled();

}  // namespace internal

}  // namespace lockstep
