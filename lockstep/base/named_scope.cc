#include "lockstep/base/named_scope.h"

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "lockstep/base/fail.h"

namespace lockstep {
namespace {

thread_local const std::string* open_scopes = nullptr;

/// The scopes that were ever opened, and the call sites within them: a call site remembers its scopes by a
/// copy of its file's name of its own. They are as many as a program's source has, and stay.
class Scopes {
 public:
  static Scopes& get() {
    static auto& all = *new Scopes;
    return all;
  }

  const std::string* open(const std::string* outer, std::string_view name) {
    std::string all = outer == nullptr ? std::string(name) : fmt::format("{}/{}", *outer, name);
    const std::lock_guard lock(mutex_);
    std::unique_ptr<const std::string>& known = names_[all];
    if (!known) known = std::make_unique<const std::string>(std::move(all));
    used_ = true;
    return known.get();
  }

  const char* file_within(const char* file, const std::string* scopes) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<const std::string>& copy = files_[{file, scopes}];
    if (!copy) {
      copy = std::make_unique<const std::string>(file);
      scopes_of_file_.emplace(copy->c_str(), scopes);
    }
    return copy->c_str();
  }

  const std::string* of_file(const char* file) {
    if (!used_) return nullptr;
    const std::lock_guard lock(mutex_);
    const auto found = scopes_of_file_.find(file);
    return found == scopes_of_file_.end() ? nullptr : found->second;
  }

 private:
  std::atomic<bool> used_ = false;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<const std::string>> names_;
  std::map<std::pair<const char*, const std::string*>, std::unique_ptr<const std::string>> files_;
  std::unordered_map<const char*, const std::string*> scopes_of_file_;
};

}  // namespace

NamedScope::NamedScope(std::string_view name) : outer_(open_scopes) {
  if (name.empty()) fail("[named_scope] expected a name, got an empty one");
  open_scopes = Scopes::get().open(outer_, name);
}

NamedScope::~NamedScope() { open_scopes = outer_; }

NamedScopeReset::NamedScopeReset() : outer_(std::exchange(open_scopes, nullptr)) {}

NamedScopeReset::~NamedScopeReset() { open_scopes = outer_; }

CallSite in_named_scope(const CallSite& site) {
  if (open_scopes == nullptr || Scopes::get().of_file(site.file) != nullptr) return site;
  CallSite within = site;
  within.file = Scopes::get().file_within(site.file, open_scopes);
  return within;
}

std::string_view named_scope_of(const CallSite& site) {
  const std::string* scopes = Scopes::get().of_file(site.file);
  return scopes == nullptr ? std::string_view() : std::string_view(*scopes);
}

std::string place_of(const CallSite& site) {
  const std::string_view scopes = named_scope_of(site);
  return scopes.empty() ? site.to_string() : fmt::format("{} in {}", site.to_string(), scopes);
}

}  // namespace lockstep
