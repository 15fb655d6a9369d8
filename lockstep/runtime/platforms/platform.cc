// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/platforms/platform.h"

#include <array>
#include <charconv>

#include "lockstep/base/fail.h"

namespace lockstep::runtime {

std::vector<int> Platform::used_devices(const Settings& settings, int shown) const {
  return chosen_devices(settings.place, /*one_each=*/false, shown);
}

pjrt::CompileOptions Platform::compile_options(const ir::LoweredProgram& program,
                                               const CompilerOptions& asked) const {
  pjrt::CompileOptions options = own_compile_options(program);
  for (const auto& [name, value] : asked) options.xla_options.insert_or_assign(name, value);
  return options;
}

std::span<const Platform* const> platforms() {
  static const std::array<const Platform*, 3> all = {&tpu_platform(), &cuda_platform(), &cpu_platform()};
  return all;
}

const Platform& platform_named(std::string_view name) {
  for (const Platform* platform : platforms())
    if (platform->name() == name) return *platform;
  fail<InitializationError>("[initialize] there is no platform '{}': expected cpu, cuda or tpu", name);
}

const Platform& platform_describing(const std::string& topology) {
  std::string known;
  for (const Platform* platform : platforms()) {
    if (platform->describes(topology)) return *platform;
    known += fmt::format("\n  {}: {}", platform->title(), platform->known_topologies());
  }
  fail<InitializationError>(
      "[initialize] the topology '{}' is not known. Known ones, which may also have other sizes:{}", topology,
      known);
}

std::vector<std::int64_t> sizes_in(std::string_view text) {
  std::vector<std::int64_t> sizes;
  while (true) {
    const std::string_view part = text.substr(0, text.find('x'));
    std::int64_t size = 0;
    const auto read = std::from_chars(part.data(), part.data() + part.size(), size);
    if (read.ec != std::errc() || read.ptr != part.data() + part.size() || size < 1) return {};
    sizes.push_back(size);
    if (part.size() == text.size()) return sizes;
    text.remove_prefix(part.size() + 1);
  }
}

}  // namespace lockstep::runtime
