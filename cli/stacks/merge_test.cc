// SPDX-License-Identifier: Apache-2.0
#include "cli/stacks/merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/syscall.h>

#include "cli/stacks/print.h"

// Merging and printing, of stacks that are made up here.

namespace lockstep::cli {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

Frame in_program(const std::string& function, int line = 0) {
  return {.function = function,
          .module = "train",
          .of_program = true,
          .file = line > 0 ? "/src/train.cc" : "",
          .line = line};
}

Frame in_library(const std::string& module, const std::string& function = "") {
  return {.function = function, .module = module};
}

/// From the outermost frame on, as one reads them.
ThreadStack thread(std::vector<Frame> frames, char state = 'S', bool main = true) {
  std::reverse(frames.begin(), frames.end());
  ThreadStack result{
      .state = {.tid = 1, .name = "train", .state = state}, .frames = std::move(frames), .main = main};
  if (state == 'S') result.state.syscall = SYS_futex;
  return result;
}

NumberedStacks process(int number, std::vector<ThreadStack> threads) {
  NumberedStacks result{.process = number};
  result.stacks.pid = 100 + number;
  result.stacks.process.exists = true;
  result.stacks.process.state = 'S';
  result.stacks.threads = std::move(threads);
  return result;
}

std::string printed(const std::vector<NumberedStacks>& processes, bool all = false, int columns = 100) {
  return print_stacks(merge_stacks(processes, all), {.columns = columns});
}

const Frame kPlugin = in_library("pjrt_c_api_cpu_plugin.so");

TEST(MergedStacks, EqualFrames_AreShownOnce_TheMinorityFirst) {
  std::vector<NumberedStacks> job;
  for (int i = 0; i < 8; ++i) {
    std::vector<Frame> frames = {in_library("libc.so.6", "__libc_start_main"), in_program("main", 31)};
    if (i == 5)
      frames.insert(frames.end(), {in_program("load_batch", 12), in_library("libc.so.6", "read")});
    else
      frames.insert(frames.end(), {in_program("step", 17), kPlugin, kPlugin, kPlugin,
                                   in_program("lockstep::collectives::collective_handler"),
                                   in_library("libc.so.6", "syscall")});
    job.push_back(process(i, {thread(frames)}));
  }
  EXPECT_EQ(printed(job),
            "Main threads: 8 processes: 0-7\n"
            "  main             train.cc:31\n"
            "  +- 1 process: 5\n"
            "  |    load_batch  train.cc:12\n"
            "  |    read        libc.so.6\n"
            "  |    = waiting\n"
            "  +- 7 processes: 0-4,6-7\n"
            "       step        train.cc:17\n"
            "       ... 3 frames in pjrt_c_api_cpu_plugin.so\n"
            "       lockstep::collectives::collective_handler\n"
            "       syscall     libc.so.6\n"
            "       = waiting in futex\n");
}

TEST(MergedStacks, DifferentStatesOrLines_AreSeparateEntries) {
  const std::string text = printed({process(0, {thread({in_program("main", 3), in_program("f")})}),
                                    process(1, {thread({in_program("main", 3), in_program("f")}, 'T')}),
                                    process(2, {thread({in_program("main", 4), in_program("f")})}),
                                    process(3, {thread({in_program("main", 3), in_program("f")})})});
  EXPECT_EQ(text,
            "Main threads: 4 processes: 0-3\n"
            "  +- 1 process: 2\n"
            "  |    main  train.cc:4\n"
            "  |    f\n"
            "  |    = waiting in futex\n"
            "  +- 3 processes: 0-1,3\n"
            "       main  train.cc:3\n"
            "       f\n"
            "       +- 1 process: 1\n"
            "       |    = stopped\n"
            "       +- 2 processes: 0,3\n"
            "            = waiting in futex\n");
}

TEST(MergedStacks, NamelessFrames_MergeWhateverTheirNumber) {
  const std::string text = printed({process(0, {thread({in_program("main"), kPlugin, kPlugin, Frame{}})}),
                                    process(1, {thread({in_program("main"), kPlugin, Frame{}, Frame{}})})});
  EXPECT_THAT(text, HasSubstr("... 1 to 2 frames in pjrt_c_api_cpu_plugin.so\n"));
  EXPECT_THAT(text, HasSubstr("... 1 to 2 frames in generated code\n"));
  EXPECT_THAT(text, Not(HasSubstr("+-")));
}

TEST(MergedStacks, InnerFramesOfTheCLibrary_AreLeftOut) {
  const Frame inner = in_library("libc.so.6", "__GI___clock_nanosleep");
  const std::vector<NumberedStacks> job = {
      process(0, {thread({in_program("main"), in_library("libc.so.6", "__GI_usleep"), inner,
                          in_library("libc.so.6")})})};
  EXPECT_EQ(printed(job),
            "Main threads: 1 process: 0\n"
            "  main\n"
            "  usleep  libc.so.6\n"
            "  = waiting\n");
  EXPECT_THAT(printed(job, true), HasSubstr("  __GI___clock_nanosleep  libc.so.6\n"));
}

// A call with a time limit that goes on after a stop has another number.
TEST(MergedStacks, AThreadStoppedBefore_MergesWithTheOthers) {
  const std::vector<Frame> frames = {in_program("main"), in_library("libc.so.6", "syscall")};
  ThreadStack stopped_before = thread(frames);
  stopped_before.state.syscall = SYS_restart_syscall;
  EXPECT_THAT(printed({process(0, {thread(frames)}), process(1, {stopped_before})}),
              HasSubstr("  = waiting in futex\n"));
}

TEST(MergedStacks, IdleThreads_AreCountedInsteadOfShown) {
  const Frame wait = in_library("libc.so.6", "pthread_cond_wait");
  const std::vector<NumberedStacks> job = {process(
      0,
      {thread({in_program("main")}), thread({kPlugin, wait}, 'S', false), thread({kPlugin, wait}, 'S', false),
       thread({in_library("libgrpc.so.29"), in_library("libabsl_synchronization.so"), wait}, 'S', false),
       thread({in_program("lockstep::coordination::Agent::run"), wait}, 'S', false),
       thread({kPlugin}, 'R', false), thread({in_program("user_thread"), wait}, 'S', false)})};
  const std::string text = printed(job);
  EXPECT_THAT(text, HasSubstr("Not shown: 4 threads that wait for work: 1 of Lockstep, 2 of XLA, "
                              "1 of gRPC; --all shows them\n"));
  EXPECT_THAT(text, HasSubstr("Other threads: 2 threads in 1 process: 0\n"));
  EXPECT_THAT(text, HasSubstr("user_thread"));
  EXPECT_THAT(text, HasSubstr("= running\n"));
  const std::string all = printed(job, true);
  EXPECT_THAT(all, HasSubstr("Other threads: 6 threads in 1 process: 0\n"));
  EXPECT_THAT(all, Not(HasSubstr("Not shown")));
}

// One that waits within a collective is a pool's thread, too, but not idle.
TEST(MergedStacks, AThreadInACollectiveOrWithoutAWholeStack_IsNotIdle) {
  ThreadStack collective =
      thread({kPlugin, in_program("lockstep::collectives::collective_handler"), kPlugin}, 'S', false);
  EXPECT_EQ(idle_owner(collective), "");
  ThreadStack torn = thread({kPlugin}, 'S', false);
  EXPECT_EQ(idle_owner(torn), "XLA");
  torn.missing = "no way to its caller was found";
  EXPECT_EQ(idle_owner(torn), "");
  EXPECT_THAT(printed({process(0, {torn})}),
              HasSubstr("(outer functions are not known: no way to its caller was found)\n"));
}

TEST(MergedStacks, RefusedAndEndedProcesses_AreReported) {
  NumberedStacks refused = process(0, {thread({}, 'R'), thread({}, 'S', false), thread({}, 'S', false)});
  refused.stacks.refused = "the system forbids ptrace";
  refused.stacks.threads[0].state.cpu_ticks = 1234;
  NumberedStacks ended = process(1, {});
  ended.stacks.process.exists = false;
  const MergedStacks merged = merge_stacks(std::vector{refused, ended}, false);
  EXPECT_THAT(merged.ended, ::testing::ElementsAre(1));
  EXPECT_THAT(merged.main.callees, IsEmpty());
  EXPECT_EQ(print_stacks(merged, {}),
            "No stacks of process 0 (pid 100): the system forbids ptrace.\n"
            "  What its threads do:\n"
            "    train                   waiting in futex (2 threads)      0.00 s of CPU time\n"
            "    train (main)            running                          12.34 s of CPU time\n"
            "1 process has ended: 1\n");
}

TEST(MergedStacks, Lines_FitTheGivenWidth) {
  const std::string name =
      "user::a_very_long_namespace::A_very_long_class_name::and_a_function_in_it_that_is_no_shorter";
  const std::string text =
      printed({process(0, {thread({in_program(name, 1), in_program(name)})})}, false, 60);
  std::size_t longest = 0, at = 0;
  for (std::size_t end; (end = text.find('\n', at)) != std::string::npos; at = end + 1)
    longest = std::max(longest, end - at);
  EXPECT_LE(longest, 60u);
  EXPECT_THAT(text, HasSubstr("..."));
  EXPECT_THAT(text, HasSubstr("  train.cc:1\n"));
}

TEST(MergedStacks, Colour_IsUsedOnlyIfAskedFor) {
  const std::vector<NumberedStacks> job = {process(0, {thread({in_program("main", 1)})})};
  EXPECT_THAT(printed(job), Not(HasSubstr("\033")));
  EXPECT_THAT(print_stacks(merge_stacks(job, false), {.color = true}),
              HasSubstr("\033[2mtrain.cc:1\033[0m\n"));
}

TEST(MergedStacks, ProcessNumbers_ArePrintedAsRanges) {
  EXPECT_EQ(as_ranges({}), "");
  EXPECT_EQ(as_ranges({0, 1, 2, 5}), "0-2,5");
  EXPECT_EQ(as_ranges({3, 4}), "3-4");
}

}  // namespace
}  // namespace lockstep::cli
