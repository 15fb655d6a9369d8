// SPDX-License-Identifier: Apache-2.0
// Names that users give, of any bytes: in everything public that takes one, on two processes. Each call gives
// the right value or the right error, and the job goes on.

#include <chrono>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

#include "lockstep/array/multihost.h"
#include "lockstep/base/named_scope.h"
#include "lockstep/base/text.h"
#include "lockstep/jit/jit.h"
#include "lockstep/jit/pmap.h"
#include "lockstep/jit/test_devices.h"
#include "lockstep/jit/test_jobs.h"
#include "lockstep/runtime/initialize.h"
#include "lockstep/testing/outside_texts.h"
#include "lockstep/testing/temporary_folder.h"
#include "lockstep/watch/phase.h"

namespace lockstep {
namespace {

using test::error_of;
using test::job;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::outside_texts;
using testing::ProcessResult;
using testing::run_processes;
using ::testing::StartsWith;

MATCHER(IsUtf8, "is UTF-8") { return is_utf8(arg); }

/// Programs that are named so, over a mesh whose axis is named so.
void compute_with(const std::string& text) {
  const std::vector<Device> all = devices();
  if (text.empty()) {
    EXPECT_THAT(error_of<ShardingError>([&] { Mesh(all, {device_count()}, {text}); }),
                HasSubstr("has no name"));
    EXPECT_THAT(error_of<Error>([&] { const auto scope = named_scope(text); }), HasSubstr("expected a name"));
    return;
  }
  const Mesh mesh(all, {device_count()}, {text});
  const Array x = device_put(ones({4}), NamedSharding(mesh, P(text)));
  auto f = jit(
      [&](Array y) {
        const auto scope = named_scope(text);
        return sum(y * 2.f);
      },
      {.name = text});
  EXPECT_EQ(f(x).to_host<float>()[0], 8);
  EXPECT_THAT(f.lower(x).as_text(), IsUtf8());
  const std::string bytes = f.lower(x).compile().serialize();
  EXPECT_EQ(load_executable<Array>(bytes)(x).to_host<float>()[0], 8);
  EXPECT_THAT(error_of<PjrtError>([&] {
                jit([](Array y) { return y + 1.f; },
                    {.compiler_options = {{"no_such_option " + text, true}}})(ones({2}));
              }),
              HasSubstr("no_such_option"));
  const auto sums =
      pmap([&](Array y) { return psum(y, text); }, {.axis_name = text})(ones({local_device_count()}));
  EXPECT_EQ(sums.to_host<float>()[0], static_cast<float>(device_count()));
  EXPECT_THAT(error_of<Error>([&] {
                pmap([&](Array y) { return psum(y, text + "?"); }, {.axis_name = text})(ones({1}));
              }),
              Not(HasSubstr("INTERNAL")));
}

LOCKSTEP_CHILD(takes_any_name) {
  initialize();
  for (const auto& [what, text] : outside_texts()) {
    SCOPED_TRACE(what);
    const Phase phase(text);
    compute_with(text);
    multihost::sync_global_devices(text);
    multihost::agree(text, text);
    multihost::assert_equal(ones({2}), text);
    const std::string other = std::to_string(process_index()) + text;
    EXPECT_THAT(error_of<DivergenceError>([&] { multihost::agree(text, other); }),
                AllOf(IsUtf8(), HasSubstr("is not the same everywhere: '0"), HasSubstr("' on process 1")));
    EXPECT_THAT(error_of<TimeoutError>([&, text = text] {
                  multihost::sync_global_devices(other, std::chrono::milliseconds(1));
                }),
                AllOf(IsUtf8(), HasSubstr("[sync_global_devices] '"), HasSubstr("missing: process ")));
  }
  multihost::sync_global_devices("end");
}

TEST(OutsideText, AsAnyNameOfTheUser_DoesNotEndTheJob) {
  auto options = job("takes_any_name", 2, 1);
  options.env["LOCKSTEP_JOB_ID"] =
      "donn\xe9"
      "es/../x";
  for (const ProcessResult& result : run_processes(options)) EXPECT_EQ(result.exit_code, 0);
}

void await_file(const std::filesystem::path& path) {
  while (!std::filesystem::exists(path)) std::this_thread::sleep_for(std::chrono::milliseconds(5));
}

LOCKSTEP_CHILD(waits_for_a_phase) {
  initialize();
  if (process_index() == 1) {
    const Phase phase(
        "donn\xe9"
        "es");
    await_file(testing::child_arguments().at(0));
  }
  multihost::sync_global_devices("end");
}

// Without a launcher the processes ask each other.
TEST(OutsideText, AsAPhase_IsShownByTheProcessThatWaits) {
  testing::TemporaryFolder folder;
  const std::filesystem::path go_on = folder.path() / "go_on";
  auto options = job("waits_for_a_phase", 2, 1);
  options.arguments = {go_on.native()};
  options.env["LOCKSTEP_STALL_WARNING"] = "0.5";
  options.env["LOCKSTEP_CLUSTER"] = "explicit";
  testing::Processes processes(options);
  processes.wait_for_line(0, "is in phase \"donn\\xe9es\"");
  std::ofstream(go_on) << "x";
  for (int process = 0; process < 2; ++process) EXPECT_EQ(processes.wait(process).exit_code, 0);
}

LOCKSTEP_CHILD(throws_any_text) {
  initialize();
  const std::string text = outside_texts()[std::stoul(testing::child_arguments().at(0))].text;
  const std::filesystem::path initialized = testing::child_arguments().at(1);
  if (process_index() == 0) std::ofstream(initialized) << "x";
  if (process_index() == 1) {
    // Before this, process 0 would hear of the failure in initialize().
    await_file(initialized);
    // In a thread, as the harness catches what the child throws.
    std::thread([&] { throw std::runtime_error("no such file: " + text); }).join();
  }
  testing::say(error_of<PeerFailure>([&] { multihost::sync_global_devices(text); }));
}

// The other process must not hear that the coordinator has gone, or of a signal.
TEST(OutsideText, AsTheMessageOfAnException_NamesTheProcessToTheOthers) {
  const auto texts = outside_texts();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    if (texts[i].what != "Latin-1" && texts[i].what != "64 KiB of characters") continue;
    SCOPED_TRACE(texts[i].what);
    testing::TemporaryFolder folder;
    auto options = job("throws_any_text", 2, 1);
    options.arguments = {std::to_string(i), folder.path() / "initialized"};
    const auto results = run_processes(options);
    EXPECT_EQ(results[0].exit_code, 0);
    EXPECT_THAT(
        results[0].log,
        AllOf(HasSubstr("process 1 (host "), HasSubstr(") ended with an error: no such file: "),
              HasSubstr(std::string(first_bytes(shown(texts[i].text), 50))), Not(HasSubstr("is gone"))));
  }
}

}  // namespace
}  // namespace lockstep
