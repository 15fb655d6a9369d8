// SPDX-License-Identifier: Apache-2.0
#include "lockstep/testing/isolation.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "lockstep/base/fail.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::testing {
namespace {

std::string problem(const char* what) { return fmt::format("cannot {}: {}", what, std::strerror(errno)); }

bool bring_loopback_up() {
  const int socket = ::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
  if (socket < 0) return false;
  ifreq request{};
  std::strcpy(request.ifr_name, "lo");
  request.ifr_flags = IFF_UP | IFF_RUNNING;
  const bool done = ioctl(socket, SIOCSIFFLAGS, &request) == 0;
  close(socket);
  return done;
}

std::string try_to_isolate() {
  if (unshare(CLONE_NEWNET | CLONE_NEWNS) != 0) return problem("make namespaces");
  if (!bring_loopback_up()) return problem("bring up the loopback");
  if (mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr) != 0) return problem("keep mounts private");
  if (mount("lockstep-test", "/dev/shm", "tmpfs", 0, nullptr) != 0) return problem("mount on /dev/shm");
  static const TemporaryFolder temporary;
  setenv("TMPDIR", temporary.path().c_str(), /*overwrite=*/1);
  return "";
}

}  // namespace

std::string isolate() {
  static const std::string reason = try_to_isolate();
  return reason;
}

void fill_shared_memory(std::size_t bytes) {
  if (std::string reason = isolate(); !reason.empty()) fail("[testing] {}", reason);
  const std::string size = fmt::format("size={}", bytes);
  if (mount("lockstep-test", "/dev/shm", "tmpfs", 0, size.c_str()) != 0)
    fail("[testing] {}", problem("mount on /dev/shm"));
  const int file = open("/dev/shm/filled", O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return;  // Not even a name fits.
  const std::string page(4096, 'x');
  while (::write(file, page.data(), page.size()) > 0) {
  }
  close(file);
}

}  // namespace lockstep::testing
