// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/perfetto_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <ostream>
#include <set>
#include <string_view>
#include <vector>

#include "lockstep/base/fingerprint.h"
#include "perfetto.pb.h"

namespace lockstep::cli {
namespace {

using perfetto::TrackEvent;
using watch::Kind;

constexpr std::uint32_t kRealtime = 1, kMonotonic = 3, kBoottime = 6;
constexpr std::uint32_t kNothingInterned = 1, kNeedsInterned = 2;  // flags of a sequence
constexpr std::size_t kFlushAt = 1 << 20;
constexpr std::uint64_t kTraceTrack = 1, kTracksOfAProcess = 256;
constexpr int kTidsOfEndedThreads = 1'000'000'000;  // above all that the kernel gives

std::uint64_t track_of(std::size_t process) { return (process + 1) * kTracksOfAProcess; }
std::uint64_t track_of(std::size_t process, int thread) {
  return track_of(process) + 1 + static_cast<unsigned>(thread);
}

/// The parts of "psum f32[4] over i at train.cc:3 in encoder (program step, call 2)", of which the place may
/// be missing.
struct CollectiveText {
  explicit CollectiveText(const std::string& text) : what(text.substr(0, text.find(" at "))) {
    if (what.size() == text.size()) return;
    const std::string place = text.substr(what.size() + 4, text.find(" (program ") - what.size() - 4);
    site = place.substr(0, place.find(" in "));
    if (site.size() < place.size()) named_scope = place.substr(site.size() + 4);
  }
  std::string what, site, named_scope;
};

/// Names that have numbers, and those that the file does not tell yet.
class Names {
 public:
  using Told = google::protobuf::RepeatedPtrField<perfetto::InternedName>;

  std::uint64_t id(std::string_view name, const std::function<Told*()>& told) {
    const auto known = ids_.find(name);
    if (known != ids_.end()) return known->second;
    const std::uint64_t id = ids_.size() + 1;
    ids_.emplace(name, id);
    perfetto::InternedName& one = *told()->Add();
    one.set_iid(id);
    one.set_name(std::string(name));
    return id;
  }

 private:
  std::map<std::string, std::uint64_t, std::less<>> ids_;
};

/// One packet after the other.
class Packets {
 public:
  explicit Packets(std::ostream& out) : out_(out) {
    packet_ = trace_.add_packet();
    packet_->set_sequence_flags(kNothingInterned);
    packet_->mutable_trace_packet_defaults()->set_timestamp_clock_id(kMonotonic);
  }
  ~Packets() { flush(); }
  Packets(const Packets&) = delete;
  Packets& operator=(const Packets&) = delete;

  /// The packet that is written by `end`.
  perfetto::TracePacket& now() { return *packet_; }
  void end() {
    packet_->set_trusted_packet_sequence_id(1);
    trace_.AppendToString(&buffer_);
    packet_->Clear();
    packet_->set_sequence_flags(kNeedsInterned);
    if (buffer_.size() > kFlushAt) flush();
  }
  std::uint64_t bytes() {
    flush();
    return bytes_;
  }

  TrackEvent& event(TrackEvent::Type type, std::uint64_t track, std::int64_t at) {
    packet_->set_timestamp(static_cast<std::uint64_t>(at));
    TrackEvent& event = *packet_->mutable_track_event();
    event.set_type(type);
    event.set_track_uuid(track);
    return event;
  }
  std::uint64_t name(std::string_view name) {
    return names_.id(name, [&] { return packet_->mutable_interned_data()->mutable_event_names(); });
  }
  std::uint64_t category(std::string_view name) {
    return categories_.id(name, [&] { return packet_->mutable_interned_data()->mutable_event_categories(); });
  }
  void add(TrackEvent& event, std::string_view name, std::string_view text) {
    if (text.empty()) return;
    const auto [known, is_new] = texts_.try_emplace(std::string(text), texts_.size() + 1);
    if (is_new) {
      perfetto::InternedString& told =
          *packet_->mutable_interned_data()->add_debug_annotation_string_values();
      told.set_iid(known->second);
      told.set_str(std::string(text));
    }
    argument(event, name).set_string_value_iid(known->second);
  }
  void add(TrackEvent& event, std::string_view name, std::uint64_t value) {
    if (value != 0) argument(event, name).set_uint_value(value);
  }
  perfetto::DebugAnnotation& argument(TrackEvent& event, std::string_view name) {
    perfetto::DebugAnnotation& one = *event.add_debug_annotations();
    one.set_name_iid(arguments_.id(
        name, [&] { return packet_->mutable_interned_data()->mutable_debug_annotation_names(); }));
    return one;
  }

 private:
  void flush() {
    out_.write(buffer_.data(), static_cast<std::streamsize>(buffer_.size()));
    bytes_ += buffer_.size();
    buffer_.clear();
  }

  std::ostream& out_;
  perfetto::Trace trace_;
  perfetto::TracePacket* packet_;
  std::string buffer_;
  std::uint64_t bytes_ = 0;
  Names names_, categories_, arguments_;
  std::map<std::string, std::uint64_t, std::less<>> texts_;
};

/// "compile step", "step", "barrier".
std::string name_of_event(Kind kind, const std::string& what) {
  switch (kind) {
    case Kind::kTrace:
    case Kind::kCompile:
    case Kind::kSave:
    case Kind::kRestore:
      return fmt::format("{} {}", watch::name_of(kind), what);
    case Kind::kPhase:
    case Kind::kIdle:
    case Kind::kLaunch:
    case Kind::kCollective:
    case Kind::kInitialize:
    case Kind::kShutdown:
      return what.empty() ? std::string(watch::name_of(kind)) : what;
    default:
      return std::string(watch::name_of(kind));
  }
}

class Writer {
 public:
  Writer(const TraceRecord& record, std::ostream& out) : record_(record), packets_(out) {}

  TraceSummary write() {
    write_clocks();
    name_tracks();
    for (std::size_t p = 0; p < record_.processes.size(); ++p) write_process(p);
    write_trace_itself();
    summary_.events = record_.events();
    summary_.lost = record_.lost();
    summary_.bytes = packets_.bytes();
    return summary_;
  }

 private:
  using Event = TraceRecord::Event;

  void write_clocks() {
    perfetto::ClockSnapshot& snapshot = *packets_.now().mutable_clock_snapshot();
    const auto clock = [&](std::uint32_t id, std::int64_t at) {
      perfetto::ClockSnapshot::Clock& one = *snapshot.add_clocks();
      one.set_clock_id(id);
      one.set_timestamp(static_cast<std::uint64_t>(at));
    };
    clock(kRealtime, record_.realtime_at_end);
    clock(kMonotonic, record_.end);
    clock(kBoottime, record_.boottime_at_end);
    snapshot.set_primary_trace_clock(kMonotonic);
    packets_.end();
  }

  // Perfetto takes those of one pid for one process, and hosts may have the same pids.
  bool pids_differ() const {
    std::set<int> pids;
    return std::ranges::all_of(record_.processes, [&](const TraceRecord::Process& process) {
      return process.pid != 0 && pids.insert(process.pid).second;
    });
  }

  void name_tracks() {
    const bool differ = pids_differ();
    perfetto::TrackDescriptor& trace = *packets_.now().mutable_track_descriptor();
    trace.set_uuid(kTraceTrack);
    trace.set_name("lockstep trace");
    packets_.end();
    for (std::size_t p = 0; p < record_.processes.size(); ++p) {
      const TraceRecord::Process& process = record_.processes[p];
      const int pid = differ ? process.pid : static_cast<int>(p) + 1;
      perfetto::TrackDescriptor& track = *packets_.now().mutable_track_descriptor();
      track.set_uuid(track_of(p));
      track.mutable_process()->set_pid(pid);
      track.mutable_process()->set_process_name(name_of_process(p));
      packets_.end();
      std::set<int> threads;
      for (const Event& event : process.events) threads.insert(event.thread);
      for (const int thread : threads) name_thread(p, pid, thread);
    }
  }

  std::string name_of_process(std::size_t p) const {
    const TraceRecord::Process& process = record_.processes[p];
    if (process.pid == 0) return fmt::format("process {} (not started)", p);
    return record_.several_hosts ? fmt::format("process {} (host {}, pid {})", p, process.host, process.pid)
                                 : fmt::format("process {} (pid {})", p, process.pid);
  }

  void name_thread(std::size_t p, int pid, int thread) {
    const TraceRecord::Process& process = record_.processes[p];
    const auto tid = process.tids.find(thread);
    perfetto::TrackDescriptor& track = *packets_.now().mutable_track_descriptor();
    track.set_uuid(track_of(p, thread));
    track.mutable_thread()->set_pid(pid);
    const bool known = tid != process.tids.end();
    const bool main = known && tid->second == process.pid;
    track.mutable_thread()->set_tid(main ? pid : known ? tid->second : kTidsOfEndedThreads + thread);
    track.mutable_thread()->set_thread_name(main    ? "main thread"
                                            : known ? fmt::format("thread {} (tid {})", thread, tid->second)
                                                    : fmt::format("thread {} (ended)", thread));
    packets_.end();
  }

  /// The times of an event by the launcher's clock.
  Event converted(std::size_t p, Event event) {
    const HostClock& clock = record_.clocks[record_.processes[p].clock];
    const std::int64_t error = std::max(clock.error_ns(event.since), clock.error_ns(event.until));
    if (error > summary_.clock_error_ns) summary_.clock_error_of = p;
    summary_.clock_error_ns = std::max(summary_.clock_error_ns, error);
    event.since = clock.to_launcher(event.since);
    event.until = std::max(event.since, clock.to_launcher(event.until));
    if (event.arrived != 0)
      event.arrived = std::clamp(clock.to_launcher(event.arrived), event.since, event.until);
    return event;
  }

  void write_process(std::size_t p) {
    std::map<int, std::vector<Event>> by_thread;
    launches_.clear();
    for (const Event& event : record_.processes[p].events) {
      const Event& at = by_thread[event.thread].emplace_back(converted(p, event));
      if (at.kind == static_cast<int>(Kind::kLaunch)) launches_.push_back(at);
    }
    std::ranges::sort(launches_, {}, &Event::since);
    for (auto& [thread, events] : by_thread) {
      std::ranges::stable_sort(events, [](const Event& a, const Event& b) {
        return a.since != b.since ? a.since < b.since : a.depth < b.depth;
      });
      write_thread(track_of(p, thread), events);
    }
  }

  // The launch that a collective is a part of, whichever thread it runs on; null where that cannot be told.
  const Event* launch_of(const Event& event) const {
    const auto holds = [&](const Event& launch) {
      return launch.since <= event.since && event.until <= launch.until;
    };
    auto after = std::ranges::upper_bound(launches_, event.since, {}, &Event::since);
    if (after == launches_.begin()) return nullptr;
    const auto found = std::prev(after);
    if (!holds(*found)) return nullptr;
    return found != launches_.begin() && holds(*std::prev(found)) ? nullptr : &*found;
  }

  void write_thread(std::uint64_t track, const std::vector<Event>& events) {
    std::vector<const Event*> open;
    const auto close = [&](std::int64_t latest) {
      packets_.event(TrackEvent::TYPE_SLICE_END, track, std::min(open.back()->until, latest));
      packets_.end();
      open.pop_back();
    };
    for (const Event& event : events) {
      while (!open.empty() && (open.back()->until <= event.since || open.back()->depth >= event.depth))
        close(event.since);
      if (event.kind == static_cast<int>(Kind::kCollective)) {
        write_collective(track, event);
      } else {
        begin(track, event, name_of_event(static_cast<Kind>(event.kind), record_.text(event.what)), "");
        open.push_back(&event);
      }
    }
    while (!open.empty()) close(open.back()->until);
  }

  void write_collective(std::uint64_t track, const Event& event) {
    const std::string what = CollectiveText(record_.text(event.what)).what;
    const auto slice = [&](std::int64_t since, std::int64_t until, const char* part) {
      Event one = event;
      one.since = since;
      begin(track, one, *part == 0 ? what : fmt::format("{}: {}", part, what), part);
      packets_.event(TrackEvent::TYPE_SLICE_END, track, until);
      packets_.end();
    };
    if (event.arrived == 0) return slice(event.since, event.until, event.finished ? "" : "wait");
    slice(event.since, event.arrived, "wait");
    slice(event.arrived, event.until, "transfer");
  }

  void begin(std::uint64_t track, const Event& event, const std::string& name, std::string_view part) {
    const Kind kind = static_cast<Kind>(event.kind);
    TrackEvent& begin = packets_.event(TrackEvent::TYPE_SLICE_BEGIN, track, event.since);
    begin.set_name_iid(packets_.name(name));
    begin.add_category_iids(packets_.category(watch::name_of(kind)));
    if (!part.empty()) begin.add_category_iids(packets_.category(part));
    const Event* const launch = kind == Kind::kLaunch       ? &event
                                : kind == Kind::kCollective ? launch_of(event)
                                                            : nullptr;
    if (launch != nullptr) {
      packets_.add(begin, "launch", launch->number);
      if (launch->mesh != 0) packets_.add(begin, "mesh", name_of_mesh(launch->mesh));
    }
    std::string site = record_.text(event.site != 0 || launch == nullptr ? event.site : launch->site);
    if (kind == Kind::kCollective) {
      const CollectiveText own(record_.text(event.what));
      if (!own.site.empty()) site = own.site;
      if (!own.named_scope.empty()) packets_.add(begin, "named_scope", own.named_scope);
    }
    packets_.add(begin, "call_site", site);
    packets_.add(begin, "operation", event.operation);
    if (const std::string& what = record_.text(event.what); what != name) packets_.add(begin, "what", what);
    if (!event.finished) packets_.add(begin, "finished", "no");
    if (kind == Kind::kLaunch && event.number != 0) begin.add_flow_ids(combine(event.mesh, event.number));
    packets_.end();
  }

  // Shorter in the file than the number, which each use would repeat.
  const std::string& name_of_mesh(std::uint64_t mesh) {
    std::string& name = meshes_[mesh];
    if (name.empty()) name = fmt::format("{:016x}", mesh);
    return name;
  }

  void write_trace_itself() {
    TrackEvent& begin = packets_.event(TrackEvent::TYPE_SLICE_BEGIN, kTraceTrack, record_.begin);
    const std::uint64_t lost = record_.lost();
    begin.set_name_iid(packets_.name(fmt::format("trace of {} processes{}", record_.processes.size(),
                                                 lost == 0 ? "" : fmt::format(", {} events lost", lost))));
    begin.add_category_iids(packets_.category("lockstep"));
    packets_.argument(begin, "clock_error_us")
        .set_double_value(static_cast<double>(summary_.clock_error_ns) / 1000);
    packets_.argument(begin, "lost_events").set_uint_value(lost);
    for (std::size_t p = 0; p < record_.processes.size(); ++p)
      packets_.add(begin, fmt::format("lost_events_of_process_{}", p), record_.processes[p].lost);
    for (const std::string& remark : record_.remarks) packets_.add(begin, "remark", remark);
    packets_.end();
    packets_.event(TrackEvent::TYPE_SLICE_END, kTraceTrack, record_.end);
    packets_.end();
  }

  const TraceRecord& record_;
  Packets packets_;
  std::map<std::uint64_t, std::string> meshes_;
  std::vector<Event> launches_;  // of the process that is written, ascending
  TraceSummary summary_;
};

}  // namespace

TraceSummary write_perfetto(const TraceRecord& record, std::ostream& out) {
  return Writer(record, out).write();
}

}  // namespace lockstep::cli
