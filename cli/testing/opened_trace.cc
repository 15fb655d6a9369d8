// SPDX-License-Identifier: Apache-2.0
#include "cli/testing/opened_trace.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "perfetto.pb.h"

namespace lockstep::cli {
namespace {

struct Track {
  std::string name, process;
  std::vector<std::size_t> open;  // slices
};

class Parser {
 public:
  explicit Parser(OpenedTrace& trace) : trace_(trace) {}

  void parse(const std::string& bytes) {
    perfetto::Trace trace;
    EXPECT_TRUE(trace.ParseFromString(bytes));
    std::multimap<std::uint64_t, const perfetto::TracePacket*> in_time;
    bool first = true;
    for (const perfetto::TracePacket& packet : trace.packet()) {
      EXPECT_EQ(packet.trusted_packet_sequence_id(), 1u);
      EXPECT_EQ(packet.sequence_flags(), first ? 1u : 2u);
      if (first) {
        EXPECT_EQ(packet.trace_packet_defaults().timestamp_clock_id(), 3u);
      }
      first = false;
      for (const auto& clock : packet.clock_snapshot().clocks())
        trace_.clocks[clock.clock_id()] = clock.timestamp();
      take(packet.interned_data());
      if (packet.has_track_descriptor()) take(packet.track_descriptor());
      if (!packet.has_track_event()) continue;
      check_interned(packet.track_event());
      in_time.emplace(packet.timestamp(), &packet);
    }
    for (const auto& [at, packet] : in_time) take(packet->track_event(), static_cast<std::int64_t>(at));
    for (const auto& [id, track] : tracks_) EXPECT_TRUE(track.open.empty()) << track.name;
  }

 private:
  void take(const perfetto::InternedData& data) {
    for (const auto& one : data.event_names()) names_[one.iid()] = one.name();
    for (const auto& one : data.event_categories()) categories_[one.iid()] = one.name();
    for (const auto& one : data.debug_annotation_names()) arguments_[one.iid()] = one.name();
    for (const auto& one : data.debug_annotation_string_values()) texts_[one.iid()] = one.str();
  }

  void take(const perfetto::TrackDescriptor& descriptor) {
    Track track{.name = descriptor.name()};
    if (descriptor.has_process()) {
      track.name = track.process = descriptor.process().process_name();
      trace_.pids[track.name] = descriptor.process().pid();
      processes_[descriptor.process().pid()] = track.name;
    }
    if (descriptor.has_thread()) {
      track.name = std::to_string(descriptor.thread().pid()) + "/" + descriptor.thread().thread_name();
      track.process = processes_[descriptor.thread().pid()];
    }
    EXPECT_TRUE(tracks_.emplace(descriptor.uuid(), track).second) << track.name;
  }

  // The names and texts that a packet refers to must have been defined before.
  void check_interned(const perfetto::TrackEvent& event) const {
    if (event.type() == perfetto::TrackEvent::TYPE_SLICE_END) return;
    EXPECT_TRUE(names_.contains(event.name_iid()));
    for (const std::uint64_t id : event.category_iids()) EXPECT_TRUE(categories_.contains(id));
    for (const auto& argument : event.debug_annotations()) {
      EXPECT_TRUE(arguments_.contains(argument.name_iid()));
      if (argument.has_string_value_iid()) {
        EXPECT_TRUE(texts_.contains(argument.string_value_iid()));
      }
    }
  }

  void take(const perfetto::TrackEvent& event, std::int64_t at) {
    ASSERT_TRUE(tracks_.contains(event.track_uuid()));
    Track& track = tracks_[event.track_uuid()];
    if (event.type() == perfetto::TrackEvent::TYPE_SLICE_END) {
      ASSERT_FALSE(track.open.empty()) << track.name;
      trace_.slices[track.open.back()].end = at;
      track.open.pop_back();
      return;
    }
    ASSERT_EQ(event.type(), perfetto::TrackEvent::TYPE_SLICE_BEGIN);
    TraceSlice slice{.process = track.process,
                     .track = track.name,
                     .name = names_[event.name_iid()],
                     .begin = at,
                     .depth = static_cast<int>(track.open.size())};
    for (const auto& argument : event.debug_annotations()) {
      std::string& value = slice.arguments[arguments_[argument.name_iid()]];
      if (argument.has_uint_value()) value = std::to_string(argument.uint_value());
      if (argument.has_double_value()) value = std::to_string(argument.double_value());
      if (argument.has_string_value_iid()) value = texts_[argument.string_value_iid()];
    }
    for (const std::uint64_t id : event.category_iids()) slice.categories.push_back(categories_[id]);
    slice.flows.assign(event.flow_ids().begin(), event.flow_ids().end());
    track.open.push_back(trace_.slices.size());
    trace_.slices.push_back(std::move(slice));
  }

  OpenedTrace& trace_;
  std::map<std::uint64_t, std::string> names_, categories_, arguments_, texts_;
  std::map<std::uint64_t, Track> tracks_;
  std::map<int, std::string> processes_;  // by pid
};

}  // namespace

bool TraceSlice::is(const std::string& category) const {
  return std::ranges::find(categories, category) != categories.end();
}

OpenedTrace::OpenedTrace(const std::string& bytes) { Parser(*this).parse(bytes); }

std::vector<TraceSlice> OpenedTrace::on(const std::string& track) const {
  std::vector<TraceSlice> found;
  for (const TraceSlice& slice : slices) {
    if (slice.track == track) found.push_back(slice);
  }
  return found;
}

}  // namespace lockstep::cli
