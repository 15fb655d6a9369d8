#pragma once

#include "lockstep/cluster/detect.h"

namespace lockstep::cluster {

/// A child of `lockstep run` (LOCKSTEP_LAUNCHER=1), which gives every process its whole place and its job's
/// identity.
std::optional<Place> launcher_place(const Environment& environment);

/// What the user set by hand: coordinator address, number of processes, process id, each by its LOCKSTEP_ or
/// JAX_ name.
std::optional<Place> explicit_place(const Environment& environment);

/// No sign of any cluster: one process, alone. Always answers.
std::optional<Place> single_place(const Environment& environment);

}  // namespace lockstep::cluster
