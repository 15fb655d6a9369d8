#pragma once

#include "lockstep/checkpoint/saving.h"
#include "lockstep/tree/tree_type.h"

/// A tree as its arrays and values by path, and back.
namespace lockstep::checkpoint {

Contents contents_of(tree::TreeRef tree);

/// Puts these contents, which are as contents_of gives them, into the tree. Throws CheckpointError if a
/// number does not fit.
void put_contents(tree::TreeRef tree, const Contents& contents);

}  // namespace lockstep::checkpoint
