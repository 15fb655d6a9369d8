// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "lockstep/base/call_site.h"

namespace lockstep {

/// For its lifetime, what this thread traces has a name; made by named_scope.
class [[nodiscard]] NamedScope {
 public:
  explicit NamedScope(std::string_view name);
  ~NamedScope();
  NamedScope(const NamedScope&) = delete;
  NamedScope& operator=(const NamedScope&) = delete;

 private:
  const std::string* outer_;
};

/// jax.named_scope: while the result lives, the operations that this thread traces stand in a scope of this
/// name, within the scopes that are open, "encoder/attention". It changes no value. The names go with the
/// operations through derivatives, vmap and the partitioner. They are in the program's text and in that of
/// each device, in explain(), and as locations in the StableHLO, so that dumps and profiles of XLA have them
/// as op_name; for that they are as `shown` (lockstep/base/text.h) makes them. A jitted function has the
/// scopes that it opens itself, not those of its callers outside of any jit; nor has an operation outside of
/// jit one. Throws Error for an empty name. What the process does in that time is named by Phase
/// (lockstep/watch/phase.h).
///   auto scope = named_scope("attention");
inline NamedScope named_scope(std::string_view name) { return NamedScope(name); }

/// While this object exists, no scope is open that was opened before it.
class NamedScopeReset {
 public:
  NamedScopeReset();
  ~NamedScopeReset();
  NamedScopeReset(const NamedScopeReset&) = delete;
  NamedScopeReset& operator=(const NamedScopeReset&) = delete;

 private:
  const std::string* outer_;
};

/// The call site, within the scopes that are open; itself where none is, or where it has its own.
CallSite in_named_scope(const CallSite& site);

/// The scopes that a call site stands in, "encoder/attention"; empty for none.
std::string_view named_scope_of(const CallSite& site);

/// "train.cc:42", or "train.cc:42 in encoder/attention".
std::string place_of(const CallSite& site);

}  // namespace lockstep
