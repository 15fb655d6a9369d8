// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <string_view>

#include "lockstep/base/environment.h"
#include "lockstep/storage/object_store.h"
#include "lockstep/storage/test_fake_s3.h"
#include "lockstep/storage/test_http_server.h"

namespace lockstep::storage {

inline std::span<const std::byte> bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

/// This number of pseudo-random bytes, the same in each run.
inline std::string random_text(std::size_t bytes, unsigned seed = 1) {
  std::mt19937_64 random(seed);
  std::string text(bytes, '\0');
  for (std::size_t i = 0; i < bytes; ++i) text[i] = static_cast<char>(random());
  return text;
}

inline std::string read_range(const Reader& reader, std::uint64_t offset, std::size_t bytes) {
  std::string text(bytes, '\0');
  reader.read(offset, std::as_writable_bytes(std::span(text)));
  return text;
}

inline void write_file(Store& store, const std::string& name, std::string_view text, std::size_t step = 777) {
  auto writer = store.create(name);
  while (!text.empty()) {
    writer->write(bytes_of(text.substr(0, step)));
    text.remove_prefix(std::min(step, text.size()));
  }
  writer->finish();
}

/// The fake S3 with a server, an environment for it, and options that make tests fast: parts and ranges of a
/// thousand bytes, waits of milliseconds.
struct FakeBucket {
  FakeS3 s3;
  TestHttpServer server{[this](const TestRequest& request) { return s3(request); }};
  MapEnvironment environment{{{"AWS_ENDPOINT_URL_S3", server.url()},
                              {"AWS_ACCESS_KEY_ID", "AKIDTHEFAKEONE1234"},
                              {"AWS_SECRET_ACCESS_KEY", "a-secret-that-nobody-tells"}}};

  S3Options options(int tries = 6) const {
    S3Options options;
    options.environment = &environment;
    options.retries = {.tries = tries,
                       .first_wait = std::chrono::milliseconds(1),
                       .longest_wait = std::chrono::milliseconds(4)};
    options.stall_timeout = std::chrono::seconds(1);
    options.part_bytes = 1000;
    options.range_bytes = 1000;
    options.connections = 4;
    options.bytes_under_way = 3000;
    return options;
  }
  std::unique_ptr<Store> open(const std::string& url = "s3://bucket/run") const {
    return open_object_store(url, options());
  }
};

}  // namespace lockstep::storage
