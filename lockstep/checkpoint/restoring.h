// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "lockstep/array/array.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/plan.h"
#include "lockstep/checkpoint/restore_options.h"
#include "lockstep/checkpoint/saving.h"

namespace lockstep::checkpoint {

/// Another view of what a checkpoint has.
using View = std::function<std::shared_ptr<const Source>(std::shared_ptr<const Source> opened)>;

/// Fills the contents of a tree from the checkpoint, or a view of it: each array with its sharding, and each
/// value. Every process of the job calls it. Throws as restore() does, on all of them.
RestoreReport restore_contents(const Job& job, const std::string& url, Contents& contents,
                               const RestoreOptions& options, const View& view = {});

}  // namespace lockstep::checkpoint
