// SPDX-License-Identifier: Apache-2.0
#include "lockstep/base/named_scope.h"

#include <mutex>
#include <set>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/base/text.h"

namespace lockstep {
namespace {

thread_local const std::string* open_scopes = nullptr;

/// The scopes of this name within others. All that were ever opened are kept: as many as a program's source
/// has.
const std::string* scopes_of(const std::string* outer, std::string_view name) {
  static std::mutex mutex;
  static auto& all = *new std::set<std::string>;
  const std::lock_guard lock(mutex);
  return &*all.insert(outer == nullptr ? shown(name) : fmt::format("{}/{}", *outer, shown(name))).first;
}

}  // namespace

NamedScope::NamedScope(std::string_view name) : outer_(open_scopes) {
  if (name.empty()) fail("[named_scope] expected a name, got an empty one");
  open_scopes = scopes_of(outer_, name);
}

NamedScope::~NamedScope() { open_scopes = outer_; }

NamedScopeReset::NamedScopeReset() : outer_(std::exchange(open_scopes, nullptr)) {}

NamedScopeReset::~NamedScopeReset() { open_scopes = outer_; }

CallSite in_named_scope(const CallSite& site) {
  CallSite within = site;
  if (within.named_scope == nullptr) within.named_scope = open_scopes;
  return within;
}

std::string_view named_scope_of(const CallSite& site) {
  return site.named_scope == nullptr ? std::string_view() : std::string_view(*site.named_scope);
}

std::string place_of(const CallSite& site) {
  const std::string_view scopes = named_scope_of(site);
  return scopes.empty() ? site.to_string() : fmt::format("{} in {}", site.to_string(), scopes);
}

}  // namespace lockstep
