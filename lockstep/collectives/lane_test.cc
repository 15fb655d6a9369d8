// SPDX-License-Identifier: Apache-2.0
#include "lockstep/collectives/lane.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/eventfd.h>

#include <future>
#include <stdexcept>

#include "lockstep/base/error.h"
#include "lockstep/collectives/test_world.h"

namespace lockstep::collectives {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

/// A mailbox that nothing comes to, and that breaks where it is told to.
class BrokenMailbox : public Mailbox {
 public:
  enum Where { kProgress, kArm };
  explicit BrokenMailbox(Where where) : where_(where), event_(eventfd(0, EFD_CLOEXEC)) {}

  const std::string& address() const override { return address_; }
  int connect(const std::string&) override { return 0; }
  const char* broken(int) const override { return nullptr; }
  bool broken_by_data(int) const override { return false; }
  void disconnect(int) override {}
  Transfer send(int, std::uint64_t, const void*, std::size_t) override { return {}; }
  Transfer receive(int, std::uint64_t, void*, std::size_t) override { return {}; }
  Transfer flush(int) override { return {}; }
  void cancel(Transfer&) override {}
  bool finished(Transfer&) override { return true; }
  bool progress() override {
    if (where_ == kProgress) throw std::runtime_error("the network card is on fire");
    return false;
  }
  void sleep(std::chrono::milliseconds) override {}
  int descriptor() const override { return event_.get(); }
  bool arm() override {
    if (where_ == kArm) throw std::runtime_error("the network card is on fire");
    return true;
  }
  std::optional<std::chrono::steady_clock::time_point> unanswered(int) override { return std::nullopt; }
  void wake() override {}

 private:
  const Where where_;
  const FileDescriptor event_;
  const std::string address_;
};

TEST(Lanes, AnExceptionInTheirThread_IsReportedWithoutEndingTheProgram) {
  for (const auto where : {BrokenMailbox::kProgress, BrokenMailbox::kArm}) {
    std::promise<std::exception_ptr> told;
    std::map<int, std::unique_ptr<Lane>> lanes;
    lanes[0] = std::make_unique<Lane>();
    lanes[0]->mailbox = std::make_unique<BrokenMailbox>(where);
    const Lanes all({.process_index = 1, .process_count = 4}, std::move(lanes),
                    [&](std::exception_ptr cause) { told.set_value(std::move(cause)); });
    auto cause = told.get_future();
    ASSERT_EQ(cause.wait_for(std::chrono::seconds(30)), std::future_status::ready);
    EXPECT_THAT(
        message_of<Error>([&] { std::rethrow_exception(cause.get()); }),
        AllOf(HasSubstr("process 1 of 4 can no longer exchange data with the processes of other hosts"),
              HasSubstr("the network card is on fire")));
  }
}

}  // namespace
}  // namespace lockstep::collectives
