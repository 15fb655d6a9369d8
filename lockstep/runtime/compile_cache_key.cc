// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/compile_cache_key.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <system_error>
#include <thread>

#include "lockstep/base/digest.h"
#include "lockstep/base/environment.h"
#include "lockstep/base/fail.h"
#include "lockstep/pjrt/compile_options.h"

namespace lockstep::runtime {
namespace {

// Fields of /proc/cpuinfo, on x86 and on ARM.
constexpr std::array kFeatureFields = {
    "vendor_id", "cpu family",      "model",    "model name",       "stepping",   "flags",
    "Features",  "CPU implementer", "CPU part", "CPU architecture", "CPU variant"};

std::string plugin_identity(const pjrt::Client& client) {
  const pjrt::Plugin& plugin = *client.plugin();
  const auto [major, minor] = plugin.api_version();
  std::string text = fmt::format("platform {} {}\napi {}.{}\n", client.platform_name(),
                                 client.platform_version(), major, minor);
  for (const auto& [name, value] : plugin.attributes()) text += fmt::format("attribute {} {}\n", name, value);
  return text;
}

std::string own_processor() {
  std::ifstream file("/proc/cpuinfo");
  std::string line, first;
  while (std::getline(file, line) && !line.empty()) first += line + "\n";
  return processor_features(first);
}

/// The part of the key that stays the same while the process lives.
std::string surroundings(const pjrt::Client& client) {
  std::string text =
      plugin_identity(client) + fmt::format("file {}\n", file_identity(client.plugin()->path()));
  std::set<std::string> kinds;
  for (const pjrt::Device* device : client.addressable_devices()) kinds.insert(device->kind());
  for (const std::string& kind : kinds) text += fmt::format("device {}\n", kind);
  const Environment& environment = Environment::process();
  // Loops are divided for the threads of the pool when they are compiled.
  text += fmt::format("threads {} of {}\nflags {}\n", environment.get("NPROC").value_or("all"),
                      std::thread::hardware_concurrency(), environment.get("XLA_FLAGS").value_or(""));
  return text + own_processor();
}

}  // namespace

std::string machine_identity(const pjrt::Client& client) {
  std::error_code unreadable;
  // Not the time of its last change: an installation on another host has another.
  return fmt::format("{}size {}\nprocessors {}\n{}", plugin_identity(client),
                     std::filesystem::file_size(client.plugin()->path(), unreadable),
                     sysconf(_SC_NPROCESSORS_ONLN), own_processor());
}

CodeIdentity code_identity(const pjrt::Plugin& plugin, const std::string& platform) {
  const auto [major, minor] = plugin.api_version();
  CodeIdentity identity{
      .platform = platform, .plugin = fmt::format("api {}.{}\n", major, minor), .machine = ""};
  for (const auto& [name, value] : plugin.attributes())
    identity.plugin += fmt::format("attribute {} {}\n", name, value);
  std::error_code unreadable;
  identity.plugin += fmt::format("size {}\n", std::filesystem::file_size(plugin.path(), unreadable));
  // The compilers of other platforms do not compile for this machine's processor.
  if (platform == "cpu")
    identity.machine = fmt::format("processors {}\n{}", sysconf(_SC_NPROCESSORS_ONLN), own_processor());
  return identity;
}

std::string compile_cache_key(const pjrt::Client& client, const pjrt::CompileOptions& options,
                              std::string_view stablehlo) {
  static const std::string around = surroundings(client);
  return fmt::format("{}options {}\nprogram {} of {} bytes\n", around,
                     digest(pjrt::serialize(options, client.platform_name())), digest(stablehlo),
                     stablehlo.size());
}

std::string processor_features(std::string_view cpuinfo) {
  std::istringstream lines{std::string(cpuinfo)};
  std::string line, features;
  while (std::getline(lines, line) && !line.empty()) {
    const std::size_t colon = line.find(':');
    const std::string name = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
    if (colon != line.npos && std::ranges::find(kFeatureFields, name) != kFeatureFields.end())
      features += fmt::format("{} {}\n", name, line.substr(std::min(colon + 2, line.size())));
  }
  return features;
}

std::string file_identity(const std::string& path) {
  constexpr std::int64_t kPages = 256, kPage = 4096;
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status;
  if (file < 0) return "";
  std::string identity;
  if (fstat(file, &status) == 0) {
    std::string pages(kPages * kPage, '\0');
    const std::int64_t stride = std::max(kPage, status.st_size / kPages / kPage * kPage);
    for (std::int64_t i = 0; i < kPages; ++i) {
      if (pread(file, pages.data() + i * kPage, kPage, i * stride) < 0) break;
    }
    identity = fmt::format("{} bytes of {}.{:09} {}", status.st_size, status.st_mtim.tv_sec,
                           status.st_mtim.tv_nsec, digest(pages));
  }
  close(file);
  return identity;
}

}  // namespace lockstep::runtime
