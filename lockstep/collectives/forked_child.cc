// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/forked_child.h"

#include <fcntl.h>
#include <pthread.h>
#include <unistd.h>

#include <mutex>
#include <set>

namespace lockstep::collectives {
namespace {

struct Kept {
  std::mutex mutex;
  std::set<int> descriptors;
};

Kept& kept() {
  static Kept& all = *new Kept;
  return all;
}

void give_up_all() {
  const int null = open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int descriptor : kept().descriptors) {
    if (null >= 0) {
      dup3(null, descriptor, O_CLOEXEC);
    } else {
      close(descriptor);
    }
  }
  if (null >= 0) close(null);
  kept().mutex.unlock();
}

}  // namespace

NotForChildren::NotForChildren(int descriptor) : descriptor_(descriptor) {
  [[maybe_unused]] static const int registered =
      pthread_atfork([] { kept().mutex.lock(); }, [] { kept().mutex.unlock(); }, give_up_all);
  std::lock_guard lock(kept().mutex);
  kept().descriptors.insert(descriptor_);
}

NotForChildren::~NotForChildren() {
  std::lock_guard lock(kept().mutex);
  kept().descriptors.erase(descriptor_);
}

}  // namespace lockstep::collectives
