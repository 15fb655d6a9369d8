// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/step_folder.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <functional>
#include <random>

#include "lockstep/base/fingerprint.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/run_all.h"

namespace lockstep::checkpoint {
namespace {

constexpr std::string_view kStep = "step-", kAttempt = ".tmp-", kPart = "part-", kOf = "-of-",
                           kEnding = ".safetensors", kExpires = "-t";

const std::string kManifest = std::string("/") + kManifestName;
const std::string kRecord = kManifest + storage::Store::kRemoved;

bool are_digits(std::string_view text, std::size_t least, bool hex = false) {
  return text.size() >= least && std::ranges::all_of(text, [&](char c) {
           return (c >= '0' && c <= '9') || (hex && c >= 'a' && c <= 'f');
         });
}

bool is_part(std::string_view name) {
  if (!name.starts_with(kPart) || !name.ends_with(kEnding)) return false;
  name.remove_prefix(kPart.size());
  name.remove_suffix(kEnding.size());
  const std::size_t of = name.find(kOf);
  return of != name.npos && are_digits(name.substr(0, of), 5) && are_digits(name.substr(of + kOf.size()), 5);
}

/// Whether a folder of this name in that of a step is an attempt of an object store.
bool is_nonce(std::string_view name) {
  name = name.substr(0, name.rfind(kExpires));
  const std::size_t dash = name.rfind('-');
  return dash != name.npos && name.size() - dash - 1 == 16 && are_digits(name.substr(dash + 1), 16, true);
}

/// The start of the nonces of a job. What cannot stand in a name, or is too long, is told apart by a hash.
std::string nonce_prefix(const std::string& job_id) {
  constexpr std::size_t kLongest = 40;
  std::string name;
  for (char c : job_id.substr(0, kLongest)) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  if (name != job_id) name += fmt::format("_{:08x}", static_cast<std::uint32_t>(fingerprint(job_id)));
  return name + "-";
}

/// The parts that a save left in a folder, and, in an object store, in those of its attempts.
std::vector<std::string> parts_in(const storage::Store& store, const std::string& folder) {
  std::vector<std::string> names;
  for (const storage::Entry& entry : store.list(folder)) {
    if (!entry.is_folder && is_part(entry.name)) names.push_back(entry.name);
    if (!entry.is_folder || entry.is_link || !is_nonce(entry.name)) continue;
    if (store.has({folder + "/" + entry.name, entry.name + "/"})) continue;  // of a save that runs
    for (const storage::Entry& inner : store.list(folder + "/" + entry.name))
      if (!inner.is_folder && is_part(inner.name)) names.push_back(entry.name + "/" + inner.name);
  }
  return names;
}

std::vector<std::string> files_of(const Manifest& manifest) {
  std::vector<std::string> names;
  for (const FileInfo& file : manifest.files) names.push_back(file.name);
  return names;
}

/// The files that the manifest names; nullopt if it is damaged.
std::optional<std::vector<std::string>> named_files(const std::string& bytes, const std::string& url) {
  try {
    return files_of(parse_manifest(bytes, url));
  } catch (const CheckpointError&) {
    return std::nullopt;
  }
}

/// The steps among the entries of a run's folder for which this is true, ascending. It is called by several
/// threads, because each request to an object store takes a while.
std::vector<std::int64_t> steps_where(std::vector<storage::Entry> entries,
                                      const std::function<bool(const storage::Entry&)>& is_one) {
  std::erase_if(entries, [](const auto& entry) { return !entry.is_folder || !step_of_name(entry.name); });
  std::vector<char> found(entries.size());
  run_all(entries.size(), [&](std::size_t i) { found[i] = is_one(entries[i]); });
  std::vector<std::int64_t> steps;
  for (std::size_t i = 0; i < entries.size(); ++i)
    if (found[i]) steps.push_back(*step_of_name(entries[i].name));
  std::ranges::sort(steps);
  return steps;
}

}  // namespace

std::string step_name(std::int64_t step) { return fmt::format("{}{:08}", kStep, step); }

std::optional<std::int64_t> step_of_name(std::string_view name) {
  if (!name.starts_with(kStep)) return std::nullopt;
  const std::string_view digits = name.substr(kStep.size());
  std::int64_t step = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), step);
  if (error != std::errc() || end != digits.data() + digits.size() || step < 0 || step_name(step) != name)
    return std::nullopt;
  return step;
}

std::string part_name(int process, int processes) {
  return fmt::format("{}{:05}{}{:05}{}", kPart, process, kOf, processes, kEnding);
}

std::vector<std::int64_t> steps_with_folders(const storage::Store& store) {
  return steps_where(store.list(""), [](const storage::Entry&) { return true; });
}

std::vector<std::int64_t> published_steps(const storage::Store& store) {
  return steps_where(store.list(""),
                     [&](const storage::Entry& entry) { return store.exists(entry.name + kManifest); });
}

bool finish_removal(storage::Store& store, const std::string& folder) {
  const auto record = storage::read_if_there(store, folder + kRecord);
  if (!record) return false;
  const auto manifest = storage::read_if_there(store, folder + kManifest);
  const auto old = named_files(*record, store.url(folder + kRecord));
  if (!manifest || manifest == record) {
    store.remove(folder, kManifestName, old ? *old : parts_in(store, folder), record);
    return true;
  }
  // Saved again since then.
  std::vector<std::string> names{kRecord.substr(1)};
  if (const auto used = named_files(*manifest, store.url(folder + kManifest)); used && old) {
    for (const std::string& name : *old)
      if (std::ranges::find(*used, name) == used->end()) names.insert(names.begin(), name);
  }
  store.remove_files(folder, names);
  return true;
}

bool remove_checkpoint(storage::Store& store, const std::string& folder,
                       const std::optional<std::string>& nonce) {
  const bool half = finish_removal(store, folder);
  const auto manifest = storage::read_if_there(store, folder + kManifest);
  if (!manifest) return half;
  const std::string url = store.url(folder + kManifest);
  std::optional<std::vector<std::string>> names;
  if (nonce) {
    const Manifest found = parse_manifest(*manifest, url);
    if (found.nonce != *nonce) return half;
    names = files_of(found);
  } else {
    names = named_files(*manifest, url);
  }
  store.remove(folder, kManifestName, names ? *names : parts_in(store, folder), manifest);
  return true;
}

std::vector<std::int64_t> half_removed_steps(const storage::Store& store) {
  return steps_where(store.list(""), [&](const storage::Entry& entry) {
    return !entry.is_link && store.exists(entry.name + kRecord);
  });
}

std::vector<Leftover> leftovers(const storage::Store& store) {
  std::vector<Leftover> all;
  const std::vector<storage::Entry> entries = store.list("");
  for (const storage::Entry& entry : entries) {
    const std::size_t at = entry.name.find(kAttempt);
    if (entry.is_folder && !entry.is_link && at != std::string::npos &&
        step_of_name(entry.name.substr(0, at)))
      all.push_back({{entry.name, ""}, entry.name.substr(at + kAttempt.size())});
  }
  // In an object store, attempts are below the step's own name.
  const auto unpublished = steps_where(entries, [&](const storage::Entry& entry) {
    return !entry.is_link && !store.exists(entry.name + kManifest);
  });
  for (std::int64_t step : unpublished) {
    const std::string folder = step_name(step);
    for (const storage::Entry& inner : store.list(folder)) {
      if (inner.is_folder && !inner.is_link && is_nonce(inner.name))
        all.push_back({{folder + "/" + inner.name, inner.name + "/"}, inner.name});
    }
  }
  return all;
}

void remove_leftover(storage::Store& store, const Leftover& leftover) {
  const auto ended = store.end(leftover.attempt, kManifestName);
  if (!ended) return;
  std::vector<std::string> names;
  for (const storage::Entry& entry : store.list(ended->folder))
    if (!entry.is_folder && (entry.name == kManifestName || is_part(entry.name))) names.push_back(entry.name);
  store.discard(*ended, names);
}

std::string new_nonce(const std::string& job_id, std::optional<std::time_t> expires) {
  std::random_device random;
  return fmt::format("{}{:08x}{:08x}{}", nonce_prefix(job_id.empty() ? "job" : job_id), random(), random(),
                     expires ? fmt::format("{}{:x}", kExpires, static_cast<std::int64_t>(*expires)) : "");
}

bool is_of_job(const std::string& nonce, const std::string& job_id) {
  return !job_id.empty() && nonce.starts_with(nonce_prefix(job_id));
}

std::optional<std::time_t> expiry_of(const std::string& nonce) {
  const std::size_t at = nonce.rfind(kExpires);
  if (at == nonce.npos) return std::nullopt;
  const char* const end = nonce.data() + nonce.size();
  std::int64_t time = 0;
  const auto [stop, error] = std::from_chars(nonce.data() + at + kExpires.size(), end, time, 16);
  if (error != std::errc() || (stop != end && *stop != '.')) return std::nullopt;
  return static_cast<std::time_t>(time);
}

}  // namespace lockstep::checkpoint
