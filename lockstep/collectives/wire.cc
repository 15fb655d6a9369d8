// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/wire.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <set>

#include "lockstep/base/fail.h"
#include "lockstep/base/fingerprint.h"
#include "lockstep/base/text.h"
#include "lockstep/collectives/futex.h"
#include "lockstep/collectives/patience.h"
#include "lockstep/collectives/segment.h"
#include "lockstep/watch/recorder.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kSleep(50);       ///< Between two looks for failures.
constexpr std::chrono::seconds kTextTimeout(2);       ///< For the other side's text after a divergence.
constexpr std::chrono::seconds kReasonTimeout(3);     ///< For the reason why a connection broke.
constexpr std::chrono::milliseconds kLastWords(300);  ///< For messages from a peer that cannot send more.
constexpr std::chrono::seconds kAbandonTimeout(1);
constexpr std::chrono::milliseconds kNoteLinks(500);
constexpr std::chrono::microseconds kLongestSpin(200);
constexpr std::chrono::microseconds kShortestSpin(10);

// Kinds of messages, the highest bits of a tag.
constexpr unsigned kData = 0, kLeader = 1, kText = 2, kGreeting = 3;

}  // namespace

std::vector<int> hosts_to_tell(int host, int hosts) {
  std::set<int> found;
  for (int distance = 1; distance < hosts; distance *= 2)
    found.insert({(host + distance) % hosts, (host - distance + hosts) % hosts});
  return {found.begin(), found.end()};
}

Wire::Wire(Job& job, const std::vector<Member>& members, const HostLayout& layout, int rank)
    : job_(job),
      members_(members),
      layout_(layout),
      rank_(rank),
      host_(layout.host_of[rank]),
      group_(group_number(members)),
      operation_(job.waits().count_of(members[rank].device, group_)),
      begun_(watch::begun_place(group_, members[rank].device)),
      lane_(job.lanes().of(members[rank].device)),
      told_hosts_(hosts_to_tell(host_, layout.host_count())),
      secrets_(members.size()),
      told_(layout.host_count()),
      hearing_(layout.host_count()),
      heard_(layout.host_count(), true) {
  secrets_[rank] = fingerprint(job.peers().token(members[rank].process)) | 1;
}

/// 2 bits of kind, 18 of the sender's device, 24 of group and job, 12 of operation, 8 of step. Messages of
/// another job or attempt do not match.
std::uint64_t Wire::tag(int from, int to, unsigned kind, unsigned step) const {
  const std::uint64_t group = (kind == kGreeting ? 0 : group_) ^ secrets_[to];
  const std::uint64_t operation = kind == kGreeting ? 0 : operation_->load(std::memory_order_relaxed);
  return std::uint64_t{kind} << 62 | (std::uint64_t(members_[from].device) & 0x3ffff) << 44 |
         (group & 0xffffff) << 20 | (operation & 0xfff) << 8 | (step & 0xff);
}

std::string Wire::doing() const {
  return fmt::format("process {} waited for it in {}", members_[rank_].process, call().text);
}

void Wire::begin(const Call& call, const void* data, std::size_t bytes) {
  call_ = &call;
  lock_ = lane_.lock();
  lane_.state = Lane::kDriven;
  flights_.clear();
  forgotten_ = 0;
  if (!is_leader()) return;

  std::vector<int> leaders;
  for (int host : told_hosts_) leaders.push_back(layout_.leader(host));
  connect(leaders);
  const Header header{call.signature, job_.algorithms().fingerprint(), bytes};
  telling_.resize(sizeof header + bytes);
  std::memcpy(telling_.data(), &header, sizeof header);
  if (bytes != 0) std::memcpy(telling_.data() + sizeof header, data, bytes);
  for (int leader : leaders) {
    const int host = layout_.host_of[leader];
    told_[host].resize(sizeof header + kSmallBytes);
    hearing_[host] = start(leader, lane_.mailbox->receive(endpoint(leader), tag(leader, rank_, kLeader, 0),
                                                          told_[host].data(), told_[host].size()));
    heard_[host] = false;
  }
  for (int leader : leaders) {
    start(leader, lane_.mailbox->send(endpoint(leader), tag(rank_, leader, kLeader, 0), telling_.data(),
                                      telling_.size()));
  }
}

/// Both sides send a greeting, and a second one when theirs has left: a side that has received both knows
/// that neither side needs the other for the connection any more.
void Wire::connect(const std::vector<int>& ranks) {
  greetings_.clear();
  for (int rank : ranks) {
    if (secrets_[rank] != 0) continue;
    const Member& member = members_[rank];
    LongWait wait(
        job_, members_[rank_].device, operation(call()),
        [&] { return describe_member(members_, rank_, job_.options().process_count); },
        [&] { return call().text; }, &members_);
    try {
      job_.peers().wait_connected(member.process, [&] {
        job_.check();
        wait.look({member.device});
      });
    } catch (const PeerFailure&) {
      job_.check_peer(member.process, doing());
      throw;
    }
    const std::string token = job_.peers().token(member.process);
    secrets_[rank] = fingerprint(token) | 1;
    if (lane_.endpoints.contains(member.device)) continue;
    greetings_.push_back({rank, -1, token, std::string(token.size(), ' ')});
  }
  if (greetings_.empty()) return;
  for (unsigned round = 0; round < 2; ++round) greet(round);
  for (const Greeting& greeting : greetings_)
    lane_.endpoints[members_[greeting.rank].device] = greeting.endpoint;
}

void Wire::greet(unsigned round) {
  std::vector<Ticket> heard, all;
  Mailbox& mailbox = *lane_.mailbox;
  for (Greeting& greeting : greetings_) {
    heard.push_back(
        start(greeting.rank, mailbox.receive(greeting.endpoint, tag(greeting.rank, rank_, kGreeting, round),
                                             greeting.in.data(), greeting.in.size())));
  }
  const auto say = [&](Greeting& greeting) {
    const Member& member = members_[greeting.rank];
    try {
      if (greeting.endpoint < 0) {
        greeting.endpoint = mailbox.connect(job_.peers().lane(member.process, member.device));
      }
    } catch (const Error& error) {
      broken(greeting.rank, error.what());
    }
    all.push_back(
        start(greeting.rank, mailbox.send(greeting.endpoint, tag(rank_, greeting.rank, kGreeting, round),
                                          greeting.out.data(), greeting.out.size())));
    all.push_back(start(greeting.rank, mailbox.flush(greeting.endpoint)));
  };
  // The lower rank begins the connection: two that begin at a time may wait for each other for ever.
  for (Greeting& greeting : greetings_) {
    if (round != 0 || rank_ < greeting.rank) say(greeting);
  }
  const std::string own = job_.peers().token(members_[rank_].process);
  for (std::size_t i = 0; i < greetings_.size(); ++i) {
    if (rank_ < greetings_[i].rank) continue;
    wait(heard[i]);
    if (round == 0) say(greetings_[i]);
  }
  wait(heard);
  wait(all);
  for (const Greeting& greeting : greetings_) {
    if (greeting.in == own) continue;
    fail<PeerFailure>(
        "the process that answers as {} on the network belongs to another job, or to another start of this "
        "one",
        job_.peers().describe(members_[greeting.rank].process));
  }
}

Wire::Ticket Wire::start(int rank, Transfer transfer) {
  forget_done();
  flights_.push_back({transfer, rank});
  return forgotten_ + flights_.size() - 1;
}

Wire::Flight* Wire::flight(Ticket ticket) {
  return ticket < forgotten_ ? nullptr : &flights_[ticket - forgotten_];
}

/// A large operation has thousands.
void Wire::forget_done() {
  while (!flights_.empty()) {
    Flight& first = flights_.front();
    // A failed transfer is reported to the one that waits for it.
    if (!first.done && (!lane_.mailbox->finished(first.transfer) || first.transfer.error != nullptr)) return;
    flights_.pop_front();
    ++forgotten_;
  }
}

Wire::Ticket Wire::send(int rank, int stage, const void* data, std::size_t bytes) {
  return start(rank, lane_.mailbox->send(endpoint(rank), tag(rank_, rank, kData, stage), data, bytes));
}

Wire::Ticket Wire::receive(int rank, int stage, void* data, std::size_t bytes) {
  return start(rank, lane_.mailbox->receive(endpoint(rank), tag(rank, rank_, kData, stage), data, bytes));
}

bool Wire::done(Flight& flight) {
  if (flight.done) return true;
  if (!lane_.mailbox->finished(flight.transfer)) return false;
  flight.done = true;
  if (flight.transfer.error != nullptr) broken(flight.rank, flight.transfer.error);
  return true;
}

bool Wire::finished(Ticket ticket) {
  Flight* now = flight(ticket);
  return now == nullptr || done(*now);
}

void Wire::wait(Ticket ticket) {
  const Flight* awaited = flight(ticket);
  if (awaited == nullptr) return;
  block([rank = awaited->rank] { return rank; }, [&] { return finished(ticket); });
}

void Wire::wait_until(const std::function<int()>& awaited, const std::function<bool()>& done) {
  block(awaited, done);
  watch::all_arrived();
}

void Wire::wait(const std::vector<Ticket>& tickets) {
  for (Ticket ticket : tickets) wait(ticket);
  watch::all_arrived();
}

template <class Awaited, class Done>
void Wire::block(Awaited awaited_rank, Done done) {
  if (done()) return;
  const auto end = steady_clock::now() + (waits_beside_a_program ? std::chrono::nanoseconds(0) : lane_.spin);
  do {
    for (int i = 0; i < 8; ++i) {
      lane_.mailbox->progress();
      if (done()) {
        lane_.spin = std::min<std::chrono::nanoseconds>(lane_.spin * 2, kLongestSpin);
        return;
      }
    }
    look_at_leaders();
  } while (steady_clock::now() < end);
  if (!waits_beside_a_program) lane_.spin = std::max<std::chrono::nanoseconds>(lane_.spin / 2, kShortestSpin);

  LongWait wait(
      job_, members_[rank_].device, operation(call()),
      [&] { return describe_member(members_, rank_, job_.options().process_count); },
      [&] { return call().text; }, &members_);
  using TimePoint = steady_clock::time_point;
  TimePoint next_look = steady_clock::now() + kSleep, lost_at;
  std::chrono::milliseconds limit = kSleep;
  for (;;) {
    if (!lane_.mailbox->progress()) lane_.mailbox->sleep(limit);
    while (lane_.mailbox->progress()) {
    }
    if (done()) return;
    look_at_leaders();
    job_.check();
    // Data that a peer sent before it left or died is still to be read, up to the end of its connection. That
    // may also end while the peer lives; then nothing announces messages that have not begun to arrive.
    const int rank = awaited_rank();
    const Member& awaited = members_[rank];
    const PeerState state = job_.peers().state(awaited.process);
    const bool is_gone = state == PeerState::kLeft || state == PeerState::kDied;
    const auto it = lane_.endpoints.find(awaited.device);
    const char* ended = it != lane_.endpoints.end() ? lane_.mailbox->broken(it->second) : nullptr;
    if (is_gone || ended != nullptr) {
      const auto now = steady_clock::now();
      if (lost_at == TimePoint()) lost_at = now;
      const bool is_over = now - lost_at > kLastWords;
      if (is_gone && (ended != nullptr || is_over)) job_.check_peer(awaited.process, doing());
      if (!is_gone && is_over) broken(rank, ended);
      limit = std::chrono::milliseconds(5);
    }
    if (steady_clock::now() < next_look) continue;
    wait.look({awaited.device});
    note_links();
    next_look = steady_clock::now() + kSleep;
  }
}

void Wire::note_links() {
  if (!lane_.note_links(job_.options().device_process, kNoteLinks)) return;
  for (const Greeting& greeting : greetings_) {
    const Member& member = members_[greeting.rank];
    if (greeting.endpoint >= 0 && !lane_.endpoints.contains(member.device))
      lane_.note_link(member.process, greeting.endpoint);
  }
}

void Wire::look_at_leaders() {
  if (!is_leader()) return;
  for (int host : told_hosts_) {
    if (heard_[host]) continue;
    Flight* hearing = flight(hearing_[host]);
    if (hearing != nullptr && (!done(*hearing) || hearing->transfer.error != nullptr)) continue;
    heard_[host] = true;
    Header header;
    std::memcpy(&header, told_[host].data(), sizeof header);
    if (header.algorithms != job_.algorithms().fingerprint()) differ_in_algorithms(host);
    if (header.signature != call().signature) diverged();
  }
}

const std::byte* Wire::wait_for_leader(int host) {
  block([&] { return layout_.leader(host); },
        [&] {
          look_at_leaders();
          return bool{heard_[host]};
        });
  return told_[host].data() + sizeof(Header);
}

Wire::Elsewhere::Elsewhere(Wire& wire) : wire_(wire), left_(wire.lock_.owns_lock()) {
  if (left_) wire_.job_.lanes().leave(wire_.lane_, wire_.lock_, !wire_.flights_.empty());
}

Wire::Elsewhere::~Elsewhere() {
  if (!left_) return;
  wire_.lock_ = wire_.lane_.lock();
  wire_.lane_.state = Lane::kDriven;
}

void Wire::end() {
  if (is_leader()) {
    for (int host : told_hosts_) wait_for_leader(host);
  }
  while (!flights_.empty()) {
    wait(forgotten_);
    forget_done();
  }
  job_.lanes().leave(lane_, lock_, /*busy=*/false);
}

void Wire::abandon() noexcept {
  if (!lock_.owns_lock()) return;
  const auto end = steady_clock::now() + kAbandonTimeout;
  for (Flight& flight : flights_) {
    if (flight.done || lane_.mailbox->finished(flight.transfer)) continue;
    lane_.mailbox->cancel(flight.transfer);
    if (auto it = lane_.endpoints.find(members_[flight.rank].device); it != lane_.endpoints.end()) {
      lane_.mailbox->disconnect(it->second);
    }
  }
  for (Flight& flight : flights_) {
    while (!flight.done && !lane_.mailbox->finished(flight.transfer) && steady_clock::now() < end) {
      lane_.mailbox->progress();
    }
  }
  job_.lanes().leave(lane_, lock_, /*busy=*/true);
}

void Wire::broken(int rank, const std::string& text) {
  const int process = members_[rank].process;
  const auto it = lane_.endpoints.find(members_[rank].device);
  const bool is_certain = it != lane_.endpoints.end() && lane_.mailbox->broken_by_data(it->second);
  // The listening thread may be about to hear why; for a reason that is certain the other side waits here.
  const auto end = steady_clock::now() + kReasonTimeout;
  for (;;) {
    look_at_leaders();
    job_.check();
    job_.check_peer(process, doing());
    if (is_certain || steady_clock::now() >= end) break;
    lane_.mailbox->progress();
    lane_.mailbox->sleep(std::chrono::milliseconds(5));
  }
  fail<PeerFailure>("the connection of process {} to {} broke in {}: {}", members_[rank_].process,
                    job_.peers().describe(process), call().text, text);
}

void Wire::differ_in_algorithms(int host) {
  const int of = job_.options().process_count;
  const std::string message =
      fmt::format("{} and {} have different LOCKSTEP_ALGORITHMS: all processes of a job must have the same",
                  describe_member(members_, std::min(rank_, layout_.leader(host)), of),
                  describe_member(members_, std::max(rank_, layout_.leader(host)), of));
  job_.abort(std::make_exception_ptr(DivergenceError(message)));
  throw DivergenceError(message);
}

void Wire::diverged() {
  // All report the same two: the first leader, and the first that differs from it.
  const auto give_up = steady_clock::now() + kTextTimeout;
  Mailbox& mailbox = *lane_.mailbox;
  const auto finish = [&](Flight* flight) {
    if (flight == nullptr) return true;
    while (!flight->done && !mailbox.finished(flight->transfer)) {
      if (steady_clock::now() > give_up) return false;
      job_.check();
      if (!mailbox.progress()) mailbox.sleep(std::chrono::milliseconds(5));
    }
    flight->done = true;
    return flight->transfer.error == nullptr;
  };
  const std::string& own_text = call().text;
  std::map<int, std::uint64_t> signatures{{host_, call().signature}};  // By host, as far as they are known.
  texts_.assign(layout_.host_count(), std::string(kTextBytes, '\0'));
  std::map<int, Ticket> hearing;
  for (int host : told_hosts_) {
    const int leader = layout_.leader(host);
    hearing[host] = start(leader, mailbox.receive(endpoint(leader), tag(leader, rank_, kText, 0),
                                                  texts_[host].data(), kTextBytes));
    start(leader, mailbox.send(endpoint(leader), tag(rank_, leader, kText, 0), own_text.data(),
                               first_bytes(own_text, kTextBytes).size()));
  }
  for (int host : told_hosts_) {
    if (finish(flight(hearing_[host])))
      std::memcpy(&signatures[host], told_[host].data(), sizeof signatures[host]);
  }
  const auto first = signatures.begin();
  const auto second =
      std::ranges::find_if(signatures, [&](const auto& known) { return known.second != first->second; });
  const auto text_of = [&](const auto& known) {
    const auto& [host, signature] = known;
    if (signature == call().signature) return own_text;
    if (!finish(flight(hearing[host]))) return std::string("another operation, which it did not name");
    return texts_[host].substr(0, texts_[host].find('\0'));
  };
  const std::string first_text = text_of(*first), second_text = text_of(*second);
  for (Flight& flight : flights_) {
    if (!flight.transfer.receives) finish(&flight);
  }
  const int of = job_.options().process_count;
  const std::string message = fmt::format(
      "{} is in {} but {} in {}{}: all processes must run the same programs, on the same shapes, in "
      "the same order",
      describe_member(members_, layout_.leader(first->first), of), first_text,
      describe_member(members_, layout_.leader(second->first), of), second_text,
      first_text == second_text ? " of a program that differs elsewhere" : "");
  // Members on one host agree, or they would have found out before.
  std::vector<std::pair<int, std::uint64_t>> by_process;
  for (const auto& [host, signature] : signatures)
    for (int rank : layout_.hosts[host]) by_process.emplace_back(members_[rank].process, signature);
  job_.diverge(by_process, message);
}

}  // namespace lockstep::collectives
