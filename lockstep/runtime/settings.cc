#include <charconv>

#include "lockstep/base/fail.h"
#include "lockstep/cluster/detect.h"
#include "lockstep/runtime/runtime.h"

namespace lockstep::runtime {
namespace {

/// The number in a variable. Throws InitializationError, naming the variable, where it is not a number within
/// bounds.
std::optional<int> number(const Environment& environment, const std::string& variable, int lowest) {
  std::optional<std::string> text = environment.get(variable);
  if (!text || text->empty()) return std::nullopt;
  int value = 0;
  auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
  if (error != std::errc() || end != text->data() + text->size() || value < lowest) {
    fail<InitializationError>("[initialize] {} is '{}': expected a whole number, at least {}", variable,
                              *text, lowest);
  }
  return value;
}

std::chrono::seconds timeout(const std::optional<std::chrono::seconds>& given, const Environment& environment,
                             const std::string& variable, std::chrono::seconds otherwise) {
  if (given) return *given;
  if (auto seconds = number(environment, variable, 1)) return std::chrono::seconds(*seconds);
  return otherwise;
}

/// Arguments that say a place: all of them, over what the environment says.
cluster::Place place_of(const InitializeOptions& options, const Environment& environment) {
  std::string forced =
      options.cluster_detection_method.value_or(environment.get("LOCKSTEP_CLUSTER").value_or(""));
  cluster::Place place;
  if (options.coordinator_address && options.num_processes && options.process_id) {
    place.cluster = "arguments";
    place.why = "arguments of initialize()";
  } else {
    place = cluster::detect(environment, forced);
    if (place.cluster == "single" &&
        (options.coordinator_address || options.process_id || options.num_processes.value_or(1) > 1)) {
      std::string given, missing;
      auto list = [&](bool present, std::string_view argument) {
        std::string& to = present ? given : missing;
        to += (to.empty() ? "" : ", ") + std::string(argument);
      };
      list(options.coordinator_address.has_value(), "coordinator_address");
      list(options.num_processes.has_value(), "num_processes");
      list(options.process_id.has_value(), "process_id");
      fail<InitializationError>(
          "[initialize] got {} but not {}, and nothing in the environment says the rest; give all three, or "
          "start the "
          "program with `lockstep run`",
          given, missing);
    }
  }
  if (options.coordinator_address) place.coordinator_address = *options.coordinator_address;
  if (options.num_processes) place.num_processes = *options.num_processes;
  if (options.process_id) place.process_id = *options.process_id;
  if (options.local_device_ids) place.local_device_ids = options.local_device_ids;
  return place;
}

}  // namespace

Settings resolve(const InitializeOptions& options, const Environment& environment) {
  Settings settings;
  settings.place = place_of(options, environment);
  const cluster::Place& place = settings.place;
  if (place.num_processes < 1) {
    fail<InitializationError>("[initialize] num_processes is {}: expected at least 1", place.num_processes);
  }
  if (place.process_id < 0 || place.process_id >= place.num_processes) {
    fail<InitializationError>("[initialize] process_id is {}: with {} processes it must be 0 to {}",
                              place.process_id, place.num_processes, place.num_processes - 1);
  }
  settings.num_cpu_devices =
      options.num_cpu_devices.value_or(number(environment, "LOCKSTEP_NUM_CPU_DEVICES", 1).value_or(1));
  if (settings.num_cpu_devices < 1) {
    fail<InitializationError>("[initialize] num_cpu_devices is {}: expected at least 1",
                              settings.num_cpu_devices);
  }
  settings.initialization_timeout =
      timeout(options.initialization_timeout, environment, "LOCKSTEP_INITIALIZATION_TIMEOUT",
              settings.initialization_timeout);
  settings.heartbeat_timeout = timeout(options.heartbeat_timeout, environment, "LOCKSTEP_HEARTBEAT_TIMEOUT",
                                       settings.heartbeat_timeout);
  settings.shutdown_timeout =
      timeout(options.shutdown_timeout, environment, "LOCKSTEP_SHUTDOWN_TIMEOUT", settings.shutdown_timeout);
  if (place.cluster != "launcher" && place.process_id == 0 && !place.coordinator_address.empty()) {
    std::string bind = options.coordinator_bind_address.value_or(
        environment.get("LOCKSTEP_COORDINATOR_BIND_ADDRESS")
            .value_or(environment.get("JAX_COORDINATOR_BIND_ADDRESS").value_or("")));
    if (bind.empty()) {
      auto colon = place.coordinator_address.rfind(':');
      if (colon == std::string::npos) {
        fail<InitializationError>("[initialize] coordinator_address is '{}': expected host:port",
                                  place.coordinator_address);
      }
      std::string host = place.coordinator_address.substr(0, colon);
      // A coordinator on loopback is for this host only; anything else listens on every interface, as JAX's
      // does.
      bool loopback = host == "localhost" || host.starts_with("127.") || host == "[::1]";
      bind = (loopback ? host : "[::]") + place.coordinator_address.substr(colon);
    }
    settings.coordinator_bind_address = bind;
  }
  return settings;
}

}  // namespace lockstep::runtime
