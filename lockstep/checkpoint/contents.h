// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "lockstep/checkpoint/saving.h"
#include "lockstep/tree/tree_type.h"

/// Converts a tree to its arrays and values by path, and back.
namespace lockstep::checkpoint {

Contents contents_of(tree::TreeRef tree);

/// Writes these contents, in the form of contents_of, to the tree. Throws CheckpointError if a number does
/// not fit.
void put_contents(tree::TreeRef tree, const Contents& contents);

}  // namespace lockstep::checkpoint
