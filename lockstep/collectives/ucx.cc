// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/ucx.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cstdlib>
#include <deque>
#include <vector>

#include "lockstep/base/fail.h"
#include "lockstep/base/file_descriptor.h"
#include "lockstep/collectives/interfaces.h"
#include "lockstep/collectives/networks.h"

namespace lockstep::collectives {
namespace {

using std::chrono::steady_clock;

constexpr std::uint64_t kWholeTag = ~std::uint64_t{0};

const char* text_of(ucs_status_t status) { return UcxLibrary::get().ucs_status_string(status); }

class UcxNetwork : public Network {
 public:
  UcxNetwork(const std::string& interface, const std::string& towards) : ucx(UcxLibrary::get()) {
    const std::vector<std::string> rdma = rdma_devices();
    const char* users_transports = std::getenv("UCX_TLS");
    const char* users_devices = std::getenv("UCX_NET_DEVICES");
    const std::string transports = users_transports != nullptr ? users_transports
                                   : rdma.empty()              ? "tcp"
                                                               : "ib,tcp";
    std::string devices = interface;
    if (devices.empty() && users_devices == nullptr) devices = interface_to_others(towards);
    // A given interface is for TCP. RDMA stays as it is.
    if (!devices.empty()) {
      for (const std::string& device : rdma) devices += "," + device;
    }

    ucp_config_t* config = nullptr;
    check(ucx.ucp_config_read(nullptr, nullptr, &config), "read its configuration");
    const auto set = [&](const char* name, const std::string& value) {
      if (std::getenv((std::string("UCX_") + name).c_str()) == nullptr) {
        ucx.ucp_config_modify(config, name, value.c_str());
      }
    };
    set("TLS", transports);
    if (!devices.empty()) ucx.ucp_config_modify(config, "NET_DEVICES", devices.c_str());
    set("TCP_CONN_NB", "y");     // To connect must not stop the thread.
    set("TCP_KEEPIDLE", "inf");  // The job's heartbeats find out who is silent.
    // Over TCP nothing is gained by asking first, and 64 MiB take a quarter longer.
    if (rdma.empty()) set("RNDV_THRESH", "inf");
    set("WARN_UNUSED_ENV_VARS", "n");
    ucp_params_t params{};
    params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_MT_WORKERS_SHARED | UCP_PARAM_FIELD_NAME;
    params.features = UCP_FEATURE_TAG | UCP_FEATURE_WAKEUP;
    params.mt_workers_shared = 1;
    params.name = "lockstep";
    const ucs_status_t status = ucx.ucp_init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context);
    ucx.ucp_config_release(config);
    if (devices.empty()) devices = users_devices != nullptr ? users_devices : "all";
    description_ =
        fmt::format("UCX {}, transports {}, devices {}", ucx.ucp_get_version_string(), transports, devices);
    check(status, "find a way to other hosts");
  }
  ~UcxNetwork() override { ucx.ucp_cleanup(context); }

  std::unique_ptr<Mailbox> open_mailbox() override;

  const std::string& description() const override { return description_; }

  void check(ucs_status_t status, const char* what) const {
    if (status == UCS_OK) return;
    fail(
        "UCX cannot {}: {} ({}). LOCKSTEP_INTERFACE names the network interface to use, UCX_TLS the "
        "transports",
        what, text_of(status), description_);
  }

  const UcxLibrary& ucx;
  ucp_context_h context = nullptr;

 private:
  std::string description_;
};

struct Endpoint {
  ucp_ep_h handle = nullptr;
  ucs_status_t status = UCS_OK;
  void* closing = nullptr;  ///< The request that closes it.
};

class UcxMailbox : public Mailbox {
 public:
  explicit UcxMailbox(std::shared_ptr<UcxNetwork> network)
      : network_(std::move(network)), ucx_(network_->ucx), wake_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    ucp_worker_params_t params{};
    params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
    params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
    network_->check(ucx_.ucp_worker_create(network_->context, &params, &worker_), "open a worker");
    ucp_address_t* address = nullptr;
    std::size_t size = 0;
    network_->check(ucx_.ucp_worker_get_efd(worker_, &descriptor_), "wait for events");
    network_->check(ucx_.ucp_worker_get_address(worker_, &address, &size), "tell its address");
    address_.assign(reinterpret_cast<const char*>(address), size);
    ucx_.ucp_worker_release_address(worker_, address);
  }

  ~UcxMailbox() override {
    std::vector<Transfer> flushes;
    for (std::size_t i = 0; i < endpoints_.size(); ++i) flushes.push_back(flush(static_cast<int>(i)));
    move_until(flushes);
    for (std::size_t i = 0; i < endpoints_.size(); ++i) disconnect(static_cast<int>(i));
    const auto end = steady_clock::now() + kCloseLimit;
    for (Endpoint& endpoint : endpoints_) {
      while (endpoint.closing != nullptr && steady_clock::now() < end) {
        if (ucx_.ucp_request_check_status(endpoint.closing) != UCS_INPROGRESS) {
          ucx_.ucp_request_free(std::exchange(endpoint.closing, nullptr));
        } else if (!progress()) {
          sleep(std::chrono::milliseconds(1));
        }
      }
    }
    ucx_.ucp_worker_destroy(worker_);
  }

  const std::string& address() const override { return address_; }

  int connect(const std::string& address) override {
    Endpoint& endpoint = endpoints_.emplace_back();
    if (address.starts_with(kTcpAddress)) {
      endpoint.status = UCS_ERR_UNREACHABLE;
      throw_other_network("UCX", "TCP sockets");
    }
    ucp_ep_params_t params{};
    params.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE |
                        UCP_EP_PARAM_FIELD_ERR_HANDLER;
    params.address = reinterpret_cast<const ucp_address_t*>(address.data());
    params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
    params.err_handler.cb = [](void* broken, ucp_ep_h, ucs_status_t status) {
      static_cast<Endpoint*>(broken)->status = status;
    };
    params.err_handler.arg = &endpoint;
    const ucs_status_t status = ucx_.ucp_ep_create(worker_, &params, &endpoint.handle);
    if (status != UCS_OK) {
      endpoint = {nullptr, status, nullptr};
      network_->check(status, "connect to another process");
    }
    return static_cast<int>(endpoints_.size()) - 1;
  }

  bool broken_by_data(int) const override { return false; }

  const char* broken(int endpoint) const override {
    const ucs_status_t status = endpoints_[endpoint].status;
    return status == UCS_OK ? nullptr : text_of(status);
  }

  void disconnect(int index) override {
    Endpoint& endpoint = endpoints_[index];
    if (endpoint.handle == nullptr) return;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
    params.flags = UCP_EP_CLOSE_FLAG_FORCE;
    void* request = ucx_.ucp_ep_close_nbx(std::exchange(endpoint.handle, nullptr), &params);
    if (UCS_PTR_IS_PTR(request)) endpoint.closing = request;
    if (endpoint.status == UCS_OK) endpoint.status = UCS_ERR_CANCELED;
  }

  Transfer send(int endpoint, std::uint64_t tag, const void* data, std::size_t bytes) override {
    Transfer transfer;
    if (refuse(endpoint, transfer)) return transfer;
    ucp_request_param_t params{};
    start(transfer, ucx_.ucp_tag_send_nbx(endpoints_[endpoint].handle, data, bytes, tag, &params));
    transfer.bytes = bytes;
    return transfer;
  }

  Transfer receive(int, std::uint64_t tag, void* data, std::size_t bytes) override {
    Transfer transfer;
    ucp_request_param_t params{};
    params.op_attr_mask = UCP_OP_ATTR_FLAG_NO_IMM_CMPL;
    transfer.receives = true;
    start(transfer, ucx_.ucp_tag_recv_nbx(worker_, data, bytes, tag, kWholeTag, &params));
    return transfer;
  }

  Transfer flush(int endpoint) override {
    Transfer transfer;
    if (refuse(endpoint, transfer)) return transfer;
    ucp_request_param_t params{};
    start(transfer, ucx_.ucp_ep_flush_nbx(endpoints_[endpoint].handle, &params));
    return transfer;
  }

  void cancel(Transfer& transfer) override {
    if (transfer.request != nullptr) ucx_.ucp_request_cancel(worker_, transfer.request);
  }

  bool finished(Transfer& transfer) override {
    if (transfer.request == nullptr) return true;
    ucs_status_t status;
    if (transfer.receives) {
      ucp_tag_recv_info_t info{};
      status = ucx_.ucp_tag_recv_request_test(transfer.request, &info);
      if (status == UCS_OK) transfer.bytes = info.length;
    } else {
      status = ucx_.ucp_request_check_status(transfer.request);
    }
    if (status == UCS_INPROGRESS) return false;
    ucx_.ucp_request_free(std::exchange(transfer.request, nullptr));
    if (status != UCS_OK) transfer.error = text_of(status);
    return true;
  }

  bool progress() override { return ucx_.ucp_worker_progress(worker_) != 0; }

  int descriptor() const override { return descriptor_; }

  // After other errors there is nothing to progress either: a caller that asks repeatedly would spin forever.
  bool arm() override { return ucx_.ucp_worker_arm(worker_) != UCS_ERR_BUSY; }

  void sleep(std::chrono::milliseconds limit) override {
    if (!arm()) return;
    pollfd polled[2] = {{descriptor_, POLLIN, 0}, {wake_.get(), POLLIN, 0}};
    if (poll(polled, 2, static_cast<int>(limit.count())) <= 0 || polled[1].revents == 0) return;
    std::uint64_t ignored;
    if (read(wake_.get(), &ignored, sizeof ignored) < 0) return;  // Another sleep has read it.
  }

  std::optional<std::chrono::steady_clock::time_point> unanswered(int) override { return std::nullopt; }

  void wake() override {
    const std::uint64_t one = 1;
    if (write(wake_.get(), &one, sizeof one) < 0) return;  // It is awake already.
  }

 private:
  bool refuse(int endpoint, Transfer& transfer) const {
    transfer.error = broken(endpoint);
    return transfer.error != nullptr;
  }

  static void start(Transfer& transfer, ucs_status_ptr_t request) {
    if (UCS_PTR_IS_ERR(request)) {
      transfer.error = text_of(UCS_PTR_STATUS(request));
    } else {
      transfer.request = request;
    }
  }

  void move_until(std::vector<Transfer>& transfers) {
    const auto end = steady_clock::now() + kCloseLimit;
    for (Transfer& transfer : transfers) {
      while (!finished(transfer) && steady_clock::now() < end) {
        if (!progress()) sleep(std::chrono::milliseconds(1));
      }
    }
  }

  const std::shared_ptr<UcxNetwork> network_;
  const UcxLibrary& ucx_;
  FileDescriptor wake_;
  ucp_worker_h worker_ = nullptr;
  int descriptor_ = -1;
  std::string address_;
  std::deque<Endpoint> endpoints_;  // They stay where they are.
};

std::unique_ptr<Mailbox> UcxNetwork::open_mailbox() {
  return std::make_unique<UcxMailbox>(std::static_pointer_cast<UcxNetwork>(shared_from_this()));
}

}  // namespace

std::shared_ptr<Network> open_ucx_network(const NetworkOptions& options) {
  return std::make_shared<UcxNetwork>(options.interface, options.coordinator);
}

}  // namespace lockstep::collectives
