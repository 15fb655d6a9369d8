// SPDX-License-Identifier: Apache-2.0
#include "cli/trace/chunk.h"

#include <cstdint>

#include "chunk.pb.h"
#include "lockstep/base/fail.h"

namespace lockstep::cli {
namespace {

std::uint64_t after(std::int64_t since, std::int64_t at) {
  return at < since ? 0 : static_cast<std::uint64_t>(at - since);
}

/// Wraps around: the numbers may be forged.
std::int64_t sum(std::int64_t a, std::uint64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + b);
}

}  // namespace

std::string ChunkWriter::write(const TraceChunk& chunk) {
  trace::Chunk message;
  message.set_process(chunk.process);
  message.set_pid(chunk.pid);
  message.set_lost(chunk.lost);
  const auto id_of = [&](const std::string& text) -> std::uint32_t {
    if (text.empty()) return 0;
    const auto [it, is_new] = ids_.try_emplace(text, static_cast<std::uint32_t>(ids_.size() + 1));
    if (is_new) {
      trace::Text& told = *message.add_texts();
      told.set_id(it->second);
      told.set_text(text);
    }
    return it->second;
  };
  std::int64_t before = 0;
  for (const watch::EventReport& event : chunk.events) {
    trace::Event& told = *message.add_events();
    told.set_kind(static_cast<std::uint32_t>(event.kind));
    told.set_what(id_of(event.what));
    told.set_site(id_of(event.site));
    told.set_since(event.since_ns - before);
    before = event.since_ns;
    if (event.arrived_ns != 0) told.set_arrived(after(event.since_ns, event.arrived_ns) + 1);
    told.set_duration(after(event.since_ns, event.until_ns));
    told.set_number(event.number);
    told.set_operation(event.operation);
    told.set_mesh(event.mesh);
    told.set_depth(static_cast<std::uint32_t>(event.depth));
    told.set_thread(static_cast<std::uint32_t>(event.thread));
    told.set_tid(event.tid);
    told.set_unfinished(!event.finished);
  }
  return message.SerializeAsString();
}

TraceChunk ChunkReader::read(std::string_view bytes) {
  trace::Chunk message;
  if (!message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size())))
    fail("a chunk of a trace of {} bytes cannot be read", bytes.size());
  for (const trace::Text& text : message.texts()) texts_[text.id()] = text.text();
  const auto text_of = [&](std::uint32_t id) -> std::string {
    if (id == 0) return "";
    const auto text = texts_.find(id);
    if (text == texts_.end()) fail("a chunk of a trace refers to text {}, which was not sent before", id);
    return text->second;
  };
  TraceChunk chunk{.process = message.process(), .pid = message.pid(), .lost = message.lost()};
  std::int64_t before = 0;
  for (const trace::Event& told : message.events()) {
    watch::EventReport event{.kind = static_cast<watch::Kind>(told.kind()),
                             .what = text_of(told.what()),
                             .site = text_of(told.site()),
                             .since_ns = sum(before, static_cast<std::uint64_t>(told.since())),
                             .number = told.number(),
                             .operation = told.operation(),
                             .mesh = told.mesh(),
                             .depth = static_cast<int>(told.depth()),
                             .thread = static_cast<int>(told.thread()),
                             .tid = told.tid(),
                             .finished = !told.unfinished()};
    before = event.since_ns;
    event.until_ns = sum(event.since_ns, told.duration());
    if (told.arrived() != 0) event.arrived_ns = sum(event.since_ns, told.arrived() - 1);
    chunk.events.push_back(std::move(event));
  }
  return chunk;
}

}  // namespace lockstep::cli
