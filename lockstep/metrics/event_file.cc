// SPDX-License-Identifier: Apache-2.0
#include "lockstep/metrics/event_file.h"

#include <fmt/format.h>
#include <unistd.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "lockstep/base/host_name.h"
#include "lockstep/data/crc32c.h"
#include "tensorboard.pb.h"

namespace lockstep::metrics {
namespace {

template <class T>
std::string bytes_of(T number) {
  static_assert(std::endian::native == std::endian::little);
  std::string bytes(sizeof number, '\0');
  std::memcpy(bytes.data(), &number, sizeof number);
  return bytes;
}

/// As a record of a TFRecord file: its length, that one's checksum, itself, its own checksum.
std::string framed(const Event& event) {
  const std::string data = event.SerializeAsString();
  const std::string length = bytes_of<std::uint64_t>(data.size());
  return length + bytes_of(data::internal::masked_crc32c(length)) + data +
         bytes_of(data::internal::masked_crc32c(data));
}

}  // namespace

std::string event_file_name(double time) {
  const auto seconds = static_cast<std::int64_t>(time);
  const auto micros = static_cast<std::int64_t>((time - static_cast<double>(seconds)) * 1e6);
  return fmt::format("events.out.tfevents.{:010}.{:06}.{}.{}", seconds, micros, host_name(), getpid());
}

std::string first_event(double time) {
  Event event;
  event.set_wall_time(time);
  event.set_file_version("brain.Event:2");
  return framed(event);
}

std::string restart_event(double time, std::int64_t step) {
  Event event;
  event.set_wall_time(time);
  event.set_step(step);
  event.mutable_session_log()->set_status(SessionLog::START);
  return framed(event);
}

std::string event_of(const Entry& entry) {
  Event event;
  event.set_wall_time(entry.time);
  event.set_step(entry.step);
  Summary& summary = *event.mutable_summary();
  for (const auto& [name, number] : entry.values) {
    Summary::Value& value = *summary.add_value();
    value.set_tag(name);
    value.set_simple_value(static_cast<float>(number));
  }
  return framed(event);
}

std::string line_of(const Entry& entry, int process, int attempt) {
  using Json = nlohmann::ordered_json;
  Json values = Json::object();
  for (const auto& [name, number] : entry.values) {
    if (std::isfinite(number))
      values[name] = number;
    else
      values[name] = std::isnan(number) ? "NaN" : number > 0 ? "Infinity" : "-Infinity";
  }
  const Json line = {{"time", entry.time},
                     {"process", process},
                     {"attempt", attempt},
                     {"step", entry.step},
                     {"values", std::move(values)}};
  return line.dump() + "\n";
}

}  // namespace lockstep::metrics
