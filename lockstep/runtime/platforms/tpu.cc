// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/platforms/tpu.h"

#include <cstdlib>
#include <optional>

#include "lockstep/base/fail.h"
#include "lockstep/cluster/tpu_chips.h"
#include "lockstep/runtime/platforms/platform.h"

namespace lockstep::runtime {

std::map<std::string, std::string> tpu_environment(const Environment& environment,
                                                   const cluster::System& system, bool described) {
  std::map<std::string, std::string> changes;
  const auto set = [&](const char* name, const char* value) {
    if (!environment.get(name)) changes[name] = value;
  };
  set("GRPC_VERBOSITY", "ERROR");
  if (described || cluster::count_tpu_chips(system) == 0) {
    changes["TPU_SKIP_MDS_QUERY"] = "1";
    set("ALLOW_MULTIPLE_LIBTPU_LOAD", "1");
    set("TPU_LOG_DIR", "disabled");
    set("TPU_STDERR_LOG_LEVEL", "3");
    set("TPU_ACCELERATOR_TYPE", "v5litepod-1");
    set("TPU_WORKER_ID", "0");
    set("TPU_WORKER_HOSTNAMES", "localhost");
    return changes;
  }
  constexpr std::string_view kBarrier = "--xla_tpu_use_enhanced_launch_barrier";
  const std::string arguments = environment.get("LIBTPU_INIT_ARGS").value_or("");
  if (arguments.find(kBarrier) == std::string::npos) {
    changes["LIBTPU_INIT_ARGS"] =
        fmt::format("{}{}{}=true", arguments, arguments.empty() ? "" : " ", kBarrier);
  }
  return changes;
}

namespace {

/// A generation, by libtpu's name for it in a topology.
struct Generation {
  const char* name;
  std::int64_t memory_gib;  ///< of each device, by Cloud TPU's documentation
  double peak_flops;        ///< the same, in bf16
  const char* example;
};

constexpr std::int64_t kGib = 1 << 30;

constexpr Generation kGenerations[] = {
    {"v2", 8, 22.5e12, "v2:4x4"},
    {"v3", 16, 61.5e12, "v3:4x4"},
    {"v4", 32, 275e12, "v4:2x2x4"},
    {"v5e", 16, 197e12, "v5e:4x4"},
    {"v5p", 95, 459e12, "v5p:2x2x4"},
    {"v6e", 32, 918e12, "v6e:4x4"},
    {"TPU7x", 96, 1153.5e12, "TPU7x:2x2x4"},
};

/// "2*v5e:4x4" is two slices of v5e:4x4.
struct Name {
  std::int64_t slices = 1;
  std::string generation, slice;  ///< "v5e", "v5e:4x4"
};

std::optional<Name> parse(std::string_view text) {
  Name name;
  if (const std::size_t star = text.find('*'); star != std::string_view::npos) {
    const std::vector<std::int64_t> count = sizes_in(text.substr(0, star));
    if (count.size() != 1) return std::nullopt;
    name.slices = count.front();
    text.remove_prefix(star + 1);
  }
  name.generation = text.substr(0, text.find(':'));
  name.slice = text;
  return name;
}

const Generation* find(std::string_view generation) {
  for (const Generation& each : kGenerations)
    if (each.name == generation) return &each;
  return nullptr;
}

class Tpu : public Platform {
 public:
  const char* name() const override { return "tpu"; }
  const char* title() const override { return "TPU"; }
  const char* device_title() const override { return "a TPU"; }
  const char* setup() const override { return "scripts/setup --tpu"; }

  bool is_seen(const Environment&, const cluster::System& system) const override {
    return cluster::count_tpu_chips(system) > 0;
  }

  bool owns(const pjrt::Plugin& plugin) const override {
    return plugin.path().substr(plugin.path().rfind('/') + 1).starts_with("libtpu");
  }

  std::string given_path(const Environment& environment) const override {
    return environment.get("TPU_LIBRARY_PATH").value_or("");
  }

  void set_environment(const Settings&, const Environment& environment, const cluster::System& system,
                       bool described) const override {
    for (const auto& [name, value] : tpu_environment(environment, system, described))
      setenv(name.c_str(), value.c_str(), /*overwrite=*/1);
  }

  pjrt::ClientOptions client_options(const Settings&, const Environment&,
                                     const cluster::System&) const override {
    return {};
  }

  bool describes(std::string_view topology) const override {
    const auto name = parse(topology);
    return name && find(name->generation) != nullptr;
  }

  DescribedDevices describe(const std::string& topology,
                            const std::shared_ptr<pjrt::Plugin>& plugin) const override {
    const std::optional<Name> name = parse(topology);
    const Generation* generation = name ? find(name->generation) : nullptr;
    if (generation == nullptr) {
      fail<InitializationError>("[initialize] the topology '{}': expected one like {}", topology,
                                known_topologies());
    }
    pjrt::ClientOptions options;
    if (name->slices > 1) options["num_slices"] = name->slices;
    // The two cores of a chip are one device, as on the virtual machines of Cloud TPU.
    if (name->generation == "v4") options["chip_config_name"] = std::string("megacore");
    DescribedDevices described;
    try {
      described.topology = pjrt::Topology::create(plugin, name->slice, options);
    } catch (const PjrtError& refused) {
      fail<InitializationError>("[initialize] the topology '{}' is unknown to libtpu ({}); it knows {}",
                                topology, refused.what(), known_by(plugin));
    }
    described.devices = described.topology->devices();
    described.memory_bytes = generation->memory_gib * kGib;
    described.peak_flops = generation->peak_flops;
    return described;
  }

  std::string known_topologies() const override {
    std::string all;
    for (const Generation& generation : kGenerations)
      all += fmt::format("{}{}", all.empty() ? "" : ", ", generation.example);
    return all + ", 2*v5e:4x4 (slices of chips)";
  }

 private:
  /// The examples that this plugin describes.
  static std::string known_by(const std::shared_ptr<pjrt::Plugin>& plugin) {
    std::string all;
    for (const Generation& generation : kGenerations) {
      try {
        pjrt::Topology::create(plugin, generation.example, {});
        all += fmt::format("{}{}", all.empty() ? "" : ", ", generation.example);
      } catch (const PjrtError&) {
      }
    }
    return all + " and other sizes of these";
  }
};

}  // namespace

const Platform& tpu_platform() {
  static const Tpu& platform = *new Tpu;
  return platform;
}

}  // namespace lockstep::runtime
