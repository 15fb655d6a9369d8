// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace lockstep {

/// A file in memory, with close-on-exec, of `bytes` zeros that take no memory until they are written; `flags`
/// as for memfd_create. -1 with errno if it cannot be made: EFBIG if `ulimit -f` forbids it, without the
/// signal (SIGXFSZ) by which the kernel would end the process.
int make_memory_file(const char* name, std::size_t bytes, unsigned flags = 0);

/// Whether the system counts memory strictly (vm.overcommit_memory is 2). Writing to a file in memory then
/// ends the process (SIGBUS) where there is no memory left, so its pages are taken before.
bool counts_memory_strictly();

/// The same, and if `reserve`, the file has its memory at once: ENOSPC or ENOMEM if there is none.
int make_reserved_memory_file(const char* name, std::size_t bytes, unsigned flags = 0,
                              bool reserve = counts_memory_strictly());

}  // namespace lockstep
