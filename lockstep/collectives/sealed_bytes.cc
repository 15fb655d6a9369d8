// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/sealed_bytes.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <cerrno>

#include "lockstep/base/fail.h"
#include "lockstep/base/limits.h"
#include "lockstep/base/memory_file.h"

namespace lockstep::collectives {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

}  // namespace

std::shared_ptr<const SealedBytes> SealedBytes::copy_of(std::string_view bytes) {
  Writer writer(bytes.size());
  writer.append(bytes);
  return writer.seal();
}

std::shared_ptr<const SealedBytes> SealedBytes::open(FileDescriptor memory) {
  const int seals = fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals)
    fail("the memory that a peer handed over is not sealed: are all processes built from the same version?");
  return std::shared_ptr<const SealedBytes>(new SealedBytes(std::move(memory)));
}

SealedBytes::SealedBytes(FileDescriptor memory) : memory_(std::move(memory)) {
  struct stat status {};
  if (fstat(memory_.get(), &status) != 0)
    fail("cannot get the size of shared memory: {}", describe_error(errno));
  size_ = static_cast<std::size_t>(status.st_size);
  if (size_ == 0) return;
  void* mapped = mmap(nullptr, size_, PROT_READ, MAP_PRIVATE, memory_.get(), 0);
  if (mapped == MAP_FAILED) fail("cannot map {} bytes of shared memory: {}", size_, describe_error(errno));
  data_ = static_cast<const char*>(mapped);
}

SealedBytes::~SealedBytes() {
  if (data_ != nullptr) munmap(const_cast<char*>(data_), size_);
}

SealedBytes::Writer::Writer(std::size_t size)
    : memory_(make_memory_file("lockstep-bytes", size, MFD_ALLOW_SEALING)), size_(size) {
  if (!memory_)
    fail("cannot make {} bytes of memory to share between processes: {}", size, describe_error(errno));
}

void SealedBytes::Writer::append(std::string_view bytes) {
  if (bytes.size() > size_ - written_)
    fail("got {} bytes more than the {} that were announced", bytes.size() - (size_ - written_), size_);
  while (!bytes.empty()) {
    const ssize_t count = pwrite(memory_.get(), bytes.data(), bytes.size(), static_cast<off_t>(written_));
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) fail("cannot write to shared memory: {}", describe_error(errno));
    written_ += static_cast<std::size_t>(count);
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

std::shared_ptr<const SealedBytes> SealedBytes::Writer::seal() {
  if (fcntl(memory_.get(), F_ADD_SEALS, kSeals | F_SEAL_SEAL) != 0)
    fail("cannot seal shared memory: {}", describe_error(errno));
  return std::shared_ptr<const SealedBytes>(new SealedBytes(std::move(memory_)));
}

}  // namespace lockstep::collectives
