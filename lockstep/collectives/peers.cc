#include "lockstep/collectives/peers.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <thread>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/log.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::chrono::milliseconds kPoll(50);
constexpr std::chrono::milliseconds kProbeAfter(500);

enum class MessageType : std::uint32_t { kHello, kSegment, kAsk, kWaits, kDivergence, kBye };

constexpr std::size_t kMaxText = 32 << 10;

struct Header {
  MessageType type;
  std::int32_t from;
  std::int32_t pid;
  cpu_set_t cpus;
};

struct Message {
  Header header;
  std::string text;  // Hello: the token of who is called. Segment: the key.
};

/// Where a process can be reached, as it stands in the store.
struct Address {
  std::string name, token, host, place;

  std::string encode() const { return name + " " + token + " " + host + " " + place; }
  static Address decode(const std::string& text) {
    Address address;
    std::istringstream(text) >> address.name >> address.token >> address.host >> address.place;
    return address;
  }
};

std::string random_hex() {
  unsigned char bytes[16];
  if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes) fail("the system gives no random bytes");
  std::string text;
  for (unsigned char byte : bytes) text += fmt::format("{:02x}", byte);
  return text;
}

std::string host_name() {
  char name[256] = "";
  gethostname(name, sizeof name - 1);
  return *name != 0 ? name : "unknown";
}

/// The kernel that runs now, and the network namespace: what must be the same for a connection.
std::string place() {
  std::string boot = "unknown";
  std::ifstream("/proc/sys/kernel/random/boot_id") >> boot;
  struct stat status {};
  const bool known = stat("/proc/self/ns/net", &status) == 0;
  return fmt::format("{}:{}", boot, known ? status.st_ino : 0);
}

std::pair<sockaddr_un, socklen_t> socket_address(const std::string& name) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // A leading zero byte: the name stands in no file system.
  std::memcpy(address.sun_path + 1, name.data(), std::min(name.size(), sizeof(address.sun_path) - 1));
  return {address, static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size())};
}

FileDescriptor open_socket() {
  FileDescriptor fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
  if (!fd) fail("cannot open a unix socket: {}", std::strerror(errno));
  return fd;
}

void send_message(int socket, const Message& message, int fd) {
  iovec parts[2] = {{const_cast<Header*>(&message.header), sizeof message.header},
                    {const_cast<char*>(message.text.data()), std::min(message.text.size(), kMaxText)}};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (fd >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof control;
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &fd, sizeof fd);
  }
  // A peer that is gone is noticed by the listening thread.
  while (sendmsg(socket, &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0 && errno == EINTR) {
  }
}

/// False where the connection has ended.
bool receive_message(int socket, Message& message, FileDescriptor& fd) {
  message.text.resize(kMaxText);
  iovec parts[2] = {{&message.header, sizeof message.header}, {message.text.data(), message.text.size()}};
  msghdr header{};
  header.msg_iov = parts;
  header.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  header.msg_control = control;
  header.msg_controllen = sizeof control;
  ssize_t got;
  while ((got = recvmsg(socket, &header, MSG_CMSG_CLOEXEC)) < 0 && errno == EINTR) {
  }
  if (cmsghdr* rights = got > 0 ? CMSG_FIRSTHDR(&header) : nullptr;
      rights && rights->cmsg_type == SCM_RIGHTS) {
    int received;
    std::memcpy(&received, CMSG_DATA(rights), sizeof received);
    fd = FileDescriptor(received);
  }
  if (got < static_cast<ssize_t>(sizeof message.header)) return false;
  message.text.resize(static_cast<std::size_t>(got) - sizeof message.header);
  return true;
}

bool same_user(int socket) {
  ucred credentials{};
  socklen_t size = sizeof credentials;
  return getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &credentials, &size) == 0 && credentials.uid == getuid();
}

void block_signals() {
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, nullptr);
}

}  // namespace

class Peers::Impl {
 public:
  Impl(const WorldOptions& options, PeerEvents events)
      : options_(options), events_(std::move(events)), peers_(options.process_count) {
    CPU_ZERO(&own_cpus_);
    sched_getaffinity(0, sizeof own_cpus_, &own_cpus_);
    if (options_.process_count == 1) return;
    own_ = {"lockstep-" + random_hex(), random_hex(), host_name(), place()};
    listening_ = open_socket();
    auto [address, size] = socket_address(own_.name);
    if (bind(listening_.get(), reinterpret_cast<sockaddr*>(&address), size) != 0 ||
        listen(listening_.get(), SOMAXCONN) != 0) {
      fail("cannot listen on a unix socket: {}", std::strerror(errno));
    }
    wake_ = FileDescriptor(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
    options_.store->set(store_key(options_.process_index), own_.encode(), /*allow_overwrite=*/true);
    listener_ = std::thread([this] { listen_to_peers(); });
    if (options_.process_index > 0) connector_ = std::thread([this] { connect_to_lower_peers(); });
  }

  ~Impl() {
    leave();
    stop_ = true;
    wake_listener();
    if (connector_.joinable()) connector_.join();
    if (listener_.joinable()) listener_.join();
  }

  void wait_connected(int process, const std::function<void()>& check) {
    const auto start = steady_clock::now();
    bool probed = false;
    std::unique_lock lock(mutex_);
    while (peers_[process].state == PeerState::kUnknown) {
      changed_.wait_for(lock, kPoll);
      lock.unlock();
      check();
      const auto waited = steady_clock::now() - start;
      // The higher process connects; where it does not, find out whether it could.
      if (!probed && waited > kProbeAfter && process > options_.process_index) {
        if (auto text = options_.store->try_get(store_key(process))) {
          probed = true;
          connect_to(process, Address::decode(*text));
        }
      }
      if (waited > options_.timeout) {
        fail<TimeoutError>(
            "process {} of {} waited {:.1f} s for {} to take part in a collective, but it has not come",
            options_.process_index, options_.process_count, std::chrono::duration<double>(waited).count(),
            describe(process));
      }
      lock.lock();
    }
    if (peers_[process].state == PeerState::kUnreachable) {
      fail(
          "process {} of {} (host {}) and process {} of {} (host {}) do not run on one host, or in network "
          "namespaces of "
          "their own, and collectives between hosts are not available in this version of Lockstep: start all "
          "processes on one host",
          options_.process_index, options_.process_count, own_.host, process, options_.process_count,
          peers_[process].host);
    }
    lock.unlock();
    throw_if_lost(process, fmt::format("process {} set up a communicator with it", options_.process_index));
  }

  void send(int process, const std::string& key, int fd) {
    Message message = own_message(MessageType::kSegment, key);
    std::lock_guard lock(mutex_);
    if (peers_[process].socket >= 0) send_message(peers_[process].socket, message, fd);
  }

  FileDescriptor receive(int process, const std::string& key, const std::function<void()>& check) {
    const auto start = steady_clock::now();
    std::unique_lock lock(mutex_);
    for (;;) {
      auto& received = peers_[process].received;
      if (auto it = received.find(key); it != received.end()) {
        FileDescriptor fd = std::move(it->second);
        received.erase(it);
        return fd;
      }
      changed_.wait_for(lock, kPoll);
      if (received.contains(key)) continue;
      lock.unlock();
      check();
      throw_if_lost(process,
                    fmt::format("process {} waited for it to set up a communicator", options_.process_index));
      if (steady_clock::now() - start > options_.timeout) {
        fail<TimeoutError>(
            "process {} of {} waited {} ms for {} to do its first collective over the same devices",
            options_.process_index, options_.process_count, options_.timeout.count(), describe(process));
      }
      lock.lock();
    }
  }

  PeerState state(int process) const {
    if (process == options_.process_index) return PeerState::kConnected;
    return peers_[process].state;
  }

  std::string describe(int process) const {
    const int pid = process == options_.process_index ? getpid() : peers_[process].pid.load();
    if (pid == 0) return fmt::format("process {} of {}", process, options_.process_count);
    return fmt::format("process {} of {} (pid {})", process, options_.process_count, pid);
  }

  void throw_if_lost(int process, const std::string& doing) const {
    if (process == options_.process_index) return;
    const PeerState state = peers_[process].state;
    if (state == PeerState::kDied) {
      fail<PeerFailure>("{} died while {}", describe(process), doing);
    } else if (state == PeerState::kLeft) {
      fail<PeerFailure>(
          "{} has left the job while {}: all processes must do the same collectives before they end",
          describe(process), doing);
    }
  }

  cpu_set_t cpus(int process) const {
    if (process == options_.process_index) return own_cpus_;
    std::lock_guard lock(mutex_);
    return peers_[process].cpus;
  }

  void ask_for_waits() {
    std::lock_guard lock(mutex_);
    send_to_all(own_message(MessageType::kAsk, ""));
  }

  std::vector<Wait> heard_waits(steady_clock::time_point since) const {
    std::lock_guard lock(mutex_);
    std::vector<Wait> waits;
    for (const Peer& peer : peers_) {
      if (peer.waits_heard >= since) waits.insert(waits.end(), peer.waits.begin(), peer.waits.end());
    }
    return waits;
  }

  void tell_divergence(const std::string& text) {
    std::lock_guard lock(mutex_);
    divergence_ = text;
    send_to_all(own_message(MessageType::kDivergence, text));
  }

  void leave() {
    std::lock_guard lock(mutex_);
    if (std::exchange(left_, true)) return;
    // Whoever waits for this process hears first why it leaves.
    if (!divergence_.empty()) send_to_all(own_message(MessageType::kDivergence, divergence_));
    send_to_all(own_message(MessageType::kBye, ""));
  }

 private:
  struct Peer {
    std::atomic<PeerState> state = PeerState::kUnknown;
    std::atomic<int> pid = 0;
    int socket = -1;  // One of connections_.
    cpu_set_t cpus{};
    std::string host = "unknown";
    std::map<std::string, FileDescriptor> received;
    std::vector<Wait> waits;
    steady_clock::time_point waits_heard{};
  };
  struct Connection {
    FileDescriptor fd;
    int process;  // -1 until it has said who it is.
  };

  std::string store_key(int process) const {
    return fmt::format("lockstep/collectives/{}/{}", options_.job_id, process);
  }

  Message own_message(MessageType type, const std::string& text) const {
    return {{type, options_.process_index, getpid(), own_cpus_}, text};
  }

  /// Under the mutex. A peer that stands still and whose queue is full is passed over.
  void send_to_all(const Message& message) {
    for (const Peer& peer : peers_) {
      if (peer.socket >= 0) send_message(peer.socket, message, -1);
    }
  }

  void wake_listener() {
    const std::uint64_t one = 1;
    if (wake_ && write(wake_.get(), &one, sizeof one) < 0) return;  // It is awake already.
  }

  void connect_to_lower_peers() {
    block_signals();
    for (int process = 0; process < options_.process_index && !stop_; ++process) {
      const auto start = steady_clock::now();
      std::optional<std::string> text;
      while (!text && !stop_ && steady_clock::now() - start < options_.timeout) {
        try {
          // Short, so that this thread ends soon after it is asked to.
          text = options_.store->get(store_key(process), std::chrono::milliseconds(250));
        } catch (const TimeoutError&) {
        } catch (const std::exception& error) {
          logging::debug("collectives: the address of process {} is not to be had: {}", process,
                         error.what());
          return;
        }
      }
      if (text && !stop_) connect_to(process, Address::decode(*text));
    }
  }

  void connect_to(int process, const Address& target) {
    bool gone = false;
    FileDescriptor fd = open_socket();
    auto [address, size] = socket_address(target.name);
    int result;
    while ((result = connect(fd.get(), reinterpret_cast<sockaddr*>(&address), size)) != 0 && errno == EINTR) {
    }
    {
      std::lock_guard lock(mutex_);
      Peer& peer = peers_[process];
      peer.host = target.host;
      if (result != 0 || !same_user(fd.get())) {
        // Refused in the same place: it was there, and is not any more.
        gone = target.place == own_.place && result != 0;
        if (peer.state == PeerState::kUnknown) peer.state = gone ? PeerState::kDied : PeerState::kUnreachable;
      } else {
        send_message(fd.get(), own_message(MessageType::kHello, target.token), -1);
        fresh_.push_back({std::move(fd), process});
      }
    }
    changed_.notify_all();
    wake_listener();
    if (gone) events_.on_loss(process, PeerState::kUnknown);
  }

  void listen_to_peers() {
    block_signals();
    std::vector<pollfd> polled;
    while (!stop_) {
      {
        std::lock_guard lock(mutex_);
        for (Connection& connection : fresh_) connections_.push_back(std::move(connection));
        fresh_.clear();
      }
      polled.assign({{listening_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}});
      for (const Connection& connection : connections_) polled.push_back({connection.fd.get(), POLLIN, 0});
      if (poll(polled.data(), polled.size(), -1) < 0) continue;
      if (polled[1].revents != 0) {
        std::uint64_t ignored;
        if (read(wake_.get(), &ignored, sizeof ignored) < 0) continue;
      }
      for (std::size_t i = connections_.size(); i-- > 0;) {
        if (polled[i + 2].revents != 0 && !hear(connections_[i]))
          connections_.erase(connections_.begin() + i);
      }
      if (polled[0].revents != 0) {
        FileDescriptor fd(accept4(listening_.get(), nullptr, nullptr, SOCK_CLOEXEC));
        if (fd && same_user(fd.get())) connections_.push_back({std::move(fd), -1});
      }
    }
  }

  /// Handles one message; false where the connection is to be dropped.
  bool hear(Connection& connection) {
    Message message;
    FileDescriptor fd;
    if (!receive_message(connection.fd.get(), message, fd)) {
      lose(connection, PeerState::kDied);
      return false;
    }
    if (connection.process < 0) {
      const bool known = message.header.type == MessageType::kHello && message.header.from >= 0 &&
                         message.header.from < options_.process_count &&
                         message.header.from != options_.process_index && own_.token == message.text;
      if (!known) return false;
      connection.process = message.header.from;
      send_message(connection.fd.get(), own_message(MessageType::kHello, ""), -1);
    }
    switch (message.header.type) {
      case MessageType::kHello:
        greet(connection, message.header);
        break;
      case MessageType::kSegment: {
        std::lock_guard lock(mutex_);
        if (fd) peers_[connection.process].received[message.text] = std::move(fd);
        break;
      }
      case MessageType::kAsk:
        send_message(connection.fd.get(), own_message(MessageType::kWaits, encode(events_.waits())), -1);
        break;
      case MessageType::kWaits: {
        std::lock_guard lock(mutex_);
        peers_[connection.process].waits = decode(message.text);
        peers_[connection.process].waits_heard = steady_clock::now();
        break;
      }
      case MessageType::kDivergence: {
        {
          std::lock_guard lock(mutex_);
          divergence_ = message.text;
        }
        events_.on_divergence(message.text);
        break;
      }
      case MessageType::kBye:
        lose(connection, PeerState::kLeft);
        break;
    }
    changed_.notify_all();
    return true;
  }

  void greet(const Connection& connection, const Header& header) {
    std::lock_guard lock(mutex_);
    Peer& peer = peers_[connection.process];
    peer.pid = header.pid;
    peer.cpus = header.cpus;
    if (peer.socket < 0) {
      peer.socket = connection.fd.get();
      if (left_) send_message(peer.socket, own_message(MessageType::kBye, ""), -1);
    }
    if (peer.state == PeerState::kUnknown || peer.state == PeerState::kUnreachable) {
      peer.state = PeerState::kConnected;
    }
  }

  void lose(const Connection& connection, PeerState how) {
    if (connection.process < 0) return;
    {
      std::lock_guard lock(mutex_);
      Peer& peer = peers_[connection.process];
      if (how == PeerState::kDied && peer.socket == connection.fd.get()) peer.socket = -1;
      if (peer.state == PeerState::kDied || peer.state == how) return;
      if (peer.state == PeerState::kLeft) {
        how = PeerState::kUnknown;
      } else {
        peer.state = how;
      }
    }
    changed_.notify_all();
    events_.on_loss(connection.process, how);
  }

  const WorldOptions options_;
  const PeerEvents events_;
  cpu_set_t own_cpus_;
  Address own_;
  FileDescriptor listening_, wake_;
  std::vector<Connection> connections_;  // Of the listening thread alone.
  std::atomic<bool> stop_ = false;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<Peer> peers_;
  std::vector<Connection> fresh_;  // To be taken over by the listening thread.
  bool left_ = false;
  std::string divergence_;  // What was told or heard; empty where the processes do not diverge.

  std::thread listener_, connector_;
};

Peers::Peers(const WorldOptions& options, PeerEvents events)
    : impl_(std::make_unique<Impl>(options, std::move(events))) {}
Peers::~Peers() = default;

void Peers::wait_connected(int process, const std::function<void()>& check) {
  impl_->wait_connected(process, check);
}
void Peers::send(int process, const std::string& key, int fd) { impl_->send(process, key, fd); }
FileDescriptor Peers::receive(int process, const std::string& key, const std::function<void()>& check) {
  return impl_->receive(process, key, check);
}
PeerState Peers::state(int process) const { return impl_->state(process); }
std::string Peers::describe(int process) const { return impl_->describe(process); }
void Peers::throw_if_lost(int process, const std::string& doing) const {
  impl_->throw_if_lost(process, doing);
}
cpu_set_t Peers::cpus(int process) const { return impl_->cpus(process); }
void Peers::ask_for_waits() { impl_->ask_for_waits(); }
std::vector<Wait> Peers::heard_waits(std::chrono::steady_clock::time_point since) const {
  return impl_->heard_waits(since);
}
void Peers::tell_divergence(const std::string& message) { impl_->tell_divergence(message); }
void Peers::leave() { impl_->leave(); }

}  // namespace lockstep::collectives
