// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/step_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>

#include "lockstep/checkpoint/manifest.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kStep = "step-", kAttempt = ".tmp-", kPart = "part-", kEnding = ".safetensors";
constexpr const char* kRemovedName = "manifest.json.removed";

bool is_of_a_save(const std::string& name) {
  return name == kManifestName || (name.starts_with(kPart) && name.ends_with(kEnding));
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kStep, step); }

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step_name(step) != name)
    return std::nullopt;
  return step;
}

std::vector<std::int64_t> published_steps(const storage::Store& store) {
  std::vector<std::int64_t> steps;
  for (const storage::Entry& entry : store.list("")) {
    const auto step = step_of_name(entry.name);
    if (entry.is_folder && step && store.exists(entry.name + "/" + kManifestName)) steps.push_back(*step);
  }
  std::ranges::sort(steps);
  return steps;
}

void remove_checkpoint(storage::Store& store, const std::string& folder) {
  // The names of its files outlive the manifest, so that a removal that is interrupted is gone on with.
  const std::string name = folder + "/" + kManifestName, kept = folder + "/" + kRemovedName;
  const std::string& source = store.exists(name) ? name : kept;
  const std::string bytes = storage::read_whole(*store.open(source));
  const Manifest manifest = parse_manifest(bytes, store.url(source));
  if (!store.exists(kept)) {
    auto writer = store.create(kept);
    writer->write(std::as_bytes(std::span(bytes)));
    writer->finish();
  }
  std::vector<std::string> names;
  for (const FileInfo& file : manifest.files) names.push_back(file.name);
  names.push_back(kRemovedName);
  store.remove(folder, kManifestName, names);
}

std::vector<std::int64_t> half_removed_steps(const storage::Store& store) {
  std::vector<std::int64_t> steps;
  for (const storage::Entry& entry : store.list("")) {
    const auto step = step_of_name(entry.name);
    if (entry.is_folder && step && store.exists(entry.name + "/" + kRemovedName)) steps.push_back(*step);
  }
  return steps;
}

std::vector<Leftover> leftovers(const storage::Store& store) {
  std::vector<Leftover> all;
  for (const storage::Entry& entry : store.list("")) {
    if (!entry.is_folder) continue;
    if (const std::size_t at = entry.name.find(kAttempt); at != std::string::npos) {
      if (step_of_name(entry.name.substr(0, at)))
        all.push_back({{entry.name, ""}, entry.name.substr(at + kAttempt.size())});
    } else if (step_of_name(entry.name) && !store.exists(entry.name + "/" + kManifestName)) {
      // Of an object store, attempts are below the step's own name.
      for (const storage::Entry& inner : store.list(entry.name))
        if (inner.is_folder) all.push_back({{entry.name + "/" + inner.name, inner.name + "/"}, inner.name});
    }
  }
  return all;
}

void remove_leftover(storage::Store& store, const Leftover& leftover) {
  std::vector<std::string> names;
  for (const storage::Entry& entry : store.list(leftover.attempt.folder))
    if (!entry.is_folder && is_of_a_save(entry.name)) names.push_back(entry.name);
  store.discard(leftover.attempt, names);
}

}  // namespace lockstep::checkpoint
