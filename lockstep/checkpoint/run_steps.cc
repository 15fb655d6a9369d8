// SPDX-License-Identifier: Apache-2.0
#include "lockstep/checkpoint/run_steps.h"

#include <algorithm>
#include <utility>

#include "lockstep/base/fail.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/run_all.h"
#include "lockstep/checkpoint/step_folder.h"

namespace lockstep::checkpoint {
namespace {

/// In runs with more steps, manifests that were read once are not read again. Another job may have removed
/// one, and saved the step anew; that is noticed where it counts, before a step is removed.
constexpr std::size_t kReadAgain = 100;

std::string manifest_of(std::int64_t step) { return step_name(step) + "/" + kManifestName; }

SavedStep read_step(const storage::Store& store, std::int64_t step) {
  const std::string name = manifest_of(step);
  const Manifest manifest = parse_manifest(storage::read_whole(*store.open(name)), store.url(name));
  return {step, manifest.order, manifest.metric, manifest.nonce};
}

}  // namespace

std::int64_t RunSteps::highest_order() const {
  std::int64_t highest = 0;
  for (const SavedStep& each : steps) highest = std::max(highest, each.order);
  return highest;
}

std::optional<std::int64_t> RunSteps::latest(const std::string& url) const {
  const auto last = std::ranges::max_element(steps, is_earlier);
  if (!damaged.empty() && (last == steps.end() || damaged.rbegin()->first > last->step)) {
    const auto& [step, why] = *damaged.rbegin();
    fail<CheckpointError>(
        "[checkpoint] {}: which step was saved last is not known, because step {} is damaged ({}); restore "
        "another one by its number, or remove this one with: lockstep ckpt rm {}/{}",
        url, step, why, url, step_name(step));
  }
  return last == steps.end() ? std::nullopt : std::optional(last->step);
}

RunSteps read_run(const storage::Store& store, const RunSteps& known) {
  const std::vector<std::int64_t> numbers = steps_with_folders(store);
  std::vector<std::optional<SavedStep>> found(numbers.size());
  std::vector<std::string> why(numbers.size());
  run_all(numbers.size(), [&](std::size_t i) {
    const auto before = numbers.size() > kReadAgain
                            ? std::ranges::find(known.steps, numbers[i], &SavedStep::step)
                            : known.steps.end();
    if (before != known.steps.end()) {
      if (store.exists(manifest_of(numbers[i]))) found[i] = *before;
      return;
    }
    try {
      found[i] = read_step(store, numbers[i]);
    } catch (const Error& error) {
      // Without a manifest it is not published, or has just been removed.
      if (store.exists(manifest_of(numbers[i]))) why[i] = error.what();
    }
  });
  RunSteps run;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (found[i]) run.steps.push_back(std::move(*found[i]));
    if (!why[i].empty()) run.damaged[numbers[i]] = std::move(why[i]);
  }
  return run;
}

std::vector<std::string> remove_superseded(storage::Store& store, const Keep& keep, std::int64_t saved,
                                           RunSteps& run) {
  std::vector<std::string> errors;
  for (std::int64_t step : to_remove(keep, run.steps, saved)) {
    try {
      const auto known = std::ranges::find(run.steps, step, &SavedStep::step);
      remove_checkpoint(store, step_name(step), known->nonce);
      run.steps.erase(known);
    } catch (const std::exception& error) {
      errors.push_back(error.what());
    }
  }
  return errors;
}

}  // namespace lockstep::checkpoint
