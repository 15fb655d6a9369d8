// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/lane.h"

#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"
#include "lockstep/coordination/tls/tls.h"

namespace lockstep::collectives {
namespace {

constexpr int kRound = 2;  ///< Milliseconds.
constexpr int kIdleRounds = 50;
constexpr std::chrono::milliseconds kNoteSoon(50), kNote(1000);  ///< Between two notes of the links.

void signal(const FileDescriptor& event) {
  const std::uint64_t one = 1;
  if (write(event.get(), &one, sizeof one) < 0) return;  // It is signalled already.
}

}  // namespace

std::unique_lock<std::mutex> Lane::lock() {
  ++wanted;
  std::unique_lock taken(mutex);
  --wanted;
  return taken;
}

void Lane::note_link(int process, int endpoint) {
  const auto unanswered = mailbox->unanswered(endpoint);
  if (!unanswered) return;
  unconfirmed |= *unanswered != Confirmations::TimePoint();
  links.try_emplace(endpoint, process).first->second.note(*unanswered);
}

bool Lane::note_links(const std::vector<int>& device_process, std::chrono::milliseconds interval) {
  const auto now = std::chrono::steady_clock::now();
  if (now < links_noted + interval) return false;
  links_noted = now;
  unconfirmed = false;
  for (const auto& [device, endpoint] : endpoints)
    note_link(device_process[static_cast<std::size_t>(device)], endpoint);
  return true;
}

Lanes::Lanes(const WorldOptions& options, std::map<int, std::unique_ptr<Lane>> lanes, OnError on_error)
    : device_process_(options.device_process),
      who_(fmt::format("process {} of {}", options.process_index, options.process_count)),
      on_error_(std::move(on_error)),
      lanes_(std::move(lanes)) {
  if (!lanes_.empty()) start();
}

Lanes::Lanes(const WorldOptions& options, OnError on_error) : Lanes(options, {}, std::move(on_error)) {
  if (!spans_hosts(options) || !options.carries_data) return;
  network_ = Network::open({.interface = options.interface,
                            .coordinator = options.coordinator_address,
                            .network = options.network,
                            .connections = options.data_connections,
                            .unexpected_messages_mib = options.unexpected_messages_mib,
                            .secret = options.job_secret,
                            .tls = options.encrypt ? tls_between_hosts(options) : nullptr});
  logging::debug("collectives: other hosts are reached by {}", network_->description());
  for (std::size_t device = 0; device < options.device_process.size(); ++device) {
    if (options.device_process[device] != options.process_index) continue;
    auto lane = std::make_unique<Lane>();
    lane->mailbox = network_->open_mailbox();
    lanes_[static_cast<int>(device)] = std::move(lane);
  }
  start();
}

void Lanes::start() {
  changed_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  thread_ = std::thread([this] {
    try {
      see_to_lanes();
    } catch (const std::exception& error) {
      // Made before it is passed on: this thread keeps no reference to it when another one reads it.
      auto cause = std::make_exception_ptr(Error(fmt::format(
          "{} can no longer exchange data with the processes of other hosts: {}", who_, error.what())));
      on_error_(std::move(cause));
    }
  });
}

Lanes::~Lanes() {
  if (!thread_.joinable()) return;
  stop_ = true;
  signal(changed_);
  thread_.join();
}

void Lanes::leave(Lane& lane, std::unique_lock<std::mutex>& lock, bool busy) {
  lane.state = busy ? Lane::kLeftBusy : Lane::kLeft;
  lane.used = true;
  lock.unlock();
  if (busy || asleep_.exchange(false)) signal(changed_);
}

/// Makes progress on a lane without a driver, and adds the descriptors to poll; returns whether it was used
/// recently.
bool Lanes::see_to(Lane& lane, bool all, std::vector<pollfd>& polled, bool& unconfirmed) {
  // A waiting driver keeps its lane locked, possibly for data that another lane, which this thread serves,
  // has to send.
  if (lane.wanted != 0) return false;
  std::unique_lock lock(lane.mutex, std::try_to_lock);
  if (!lock) return false;
  const bool used = std::exchange(lane.used, false);
  if (lane.state == Lane::kDriven) return used;
  do {
    while (lane.mailbox->progress() && lane.wanted == 0) {
    }
  } while (!lane.mailbox->arm() && lane.wanted == 0);
  // Others may wait for what this process has sent before it went on.
  if (!used) lane.note_links(device_process_, all ? kNoteSoon : kNote);
  unconfirmed |= lane.unconfirmed;
  if (all || lane.state == Lane::kLeftBusy) polled.push_back({lane.mailbox->descriptor(), POLLIN, 0});
  return used;
}

/// While lanes are in use it looks at those that are left now and then, so that an operation need not wake
/// it; it sleeps until they have something when nothing has been used for a while.
void Lanes::see_to_lanes() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
  std::vector<pollfd> polled;
  for (int idle = 0; !stop_;) {
    const bool sleeps = idle > kIdleRounds;
    asleep_ = sleeps;
    polled.assign({{changed_.get(), POLLIN, 0}});
    bool used = false, unconfirmed = false;
    for (auto& [device, lane] : lanes_) used |= see_to(*lane, sleeps, polled, unconfirmed);
    idle = used ? 0 : idle + 1;
    if (sleeps && used) continue;
    poll(polled.data(), polled.size(), !sleeps ? kRound : unconfirmed ? static_cast<int>(kNote.count()) : -1);
    std::uint64_t ignored;
    if (polled[0].revents != 0 && read(changed_.get(), &ignored, sizeof ignored) > 0) idle = 0;
  }
}

std::map<int, std::string> Lanes::addresses() const {
  std::map<int, std::string> addresses;
  for (const auto& [device, lane] : lanes_) addresses[device] = lane->mailbox->address();
  return addresses;
}

void Lanes::wake() {
  for (auto& [device, lane] : lanes_) lane->mailbox->wake();
}

bool spans_hosts(const WorldOptions& options) {
  const auto& hosts = options.process_host;
  return std::adjacent_find(hosts.begin(), hosts.end(), std::not_equal_to<>()) != hosts.end();
}

std::shared_ptr<const coordination::Tls> tls_between_hosts(const WorldOptions& options) {
  if (options.tls.given()) return coordination::Tls::load(options.tls);
  if (!options.encrypt) return nullptr;
  if (!options.job_secret.empty()) return coordination::Tls::from_secret(options.job_secret);
  fail<InitializationError>(
      "process {} of {} must encrypt what it sends to other hosts (LOCKSTEP_DATA_TLS), but the job has "
      "neither a secret nor certificates: set LOCKSTEP_JOB_SECRET to the same for all processes, such as the "
      "output of openssl rand -hex 16, or LOCKSTEP_TLS_CERTIFICATE, LOCKSTEP_TLS_KEY and "
      "LOCKSTEP_TLS_AUTHORITY",
      options.process_index, options.process_count);
}

bool is_remote(const WorldOptions& options, int process) {
  const auto& hosts = options.process_host;
  return !hosts.empty() && hosts[process] != hosts[options.process_index];
}

}  // namespace lockstep::collectives
