// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace lockstep {

/// While this object exists, jitted functions run operation by operation on this thread, as with JAX's
/// jax.disable_jit(): a jitted function is called with the arrays themselves, so it may read and print them,
/// and scan, while_loop, cond and switch_ are C++ loops and branches. Functions of grad, vmap, remat,
/// shard_map and similar are still traced, and the traced program is computed operation by operation
/// (lockstep/array/evaluate.h). Functions of pmap and lowered programs are compiled as always. Scopes nest;
/// the innermost one takes precedence over outer ones and the setting disable_jit.
///
/// Results are those of jit, except for rounding. Donated memory stays with the arguments. In a job of
/// several processes all of them must use it.
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

/// Whether a call outside of traces on this thread runs operation by operation, by the innermost DisableJit
/// or the setting.
bool jit_is_disabled();

}  // namespace internal

}  // namespace lockstep
