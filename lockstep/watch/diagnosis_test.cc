// SPDX-License-Identifier: Apache-2.0
#include "lockstep/watch/diagnosis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace lockstep::watch {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

ProcessReport running(int process) {
  ProcessReport report{.process = process, .pid = 100 + process, .came = true, .joined = true};
  report.evidence = {.state = 'S', .call = "clock_nanosleep"};
  ThreadReport thread{.tid = 100 + process, .launches = 7};
  thread.last = {Kind::kLaunch, "step", "train.cc:30", 12};
  report.threads.push_back(thread);
  return report;
}

ProcessReport waiting(int process, std::vector<int> missing, std::uint64_t operation = 1, double seconds = 12,
                      Kind kind = Kind::kCollective) {
  ProcessReport report = running(process);
  ThreadReport& thread = report.threads.front();
  thread.doing = {
      {.kind = Kind::kLaunch, .what = "step", .site = "train.cc:30", .seconds = seconds},
      {.kind = kind, .what = "psum f32[4] at train.cc:30", .seconds = seconds, .operation = operation}};
  thread.missing_count = static_cast<int>(missing.size());
  thread.missing = std::move(missing);
  return report;
}

ProcessReport doing(int process, Kind kind, const std::string& what) {
  ProcessReport report = running(process);
  report.threads.front().doing = {{.kind = kind, .what = what, .site = "train.cc:20", .seconds = 11}};
  return report;
}

std::vector<int> culprits(const Stall& stall) {
  std::vector<int> all;
  for (const Culprit& culprit : stall.culprits) all.push_back(culprit.process);
  return all;
}

TEST(Diagnosis, ProcessesThatAllWork_AreNoStall) {
  EXPECT_THAT(diagnose(std::vector{running(0), running(1)}), IsEmpty());
  EXPECT_THAT(diagnose({}), IsEmpty());
}

TEST(Diagnosis, NamesTheAwaitedProcess_AndWhatItDoes) {
  const std::vector all = {waiting(0, {2}), waiting(1, {2}), running(2), waiting(3, {2})};
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(2));
  EXPECT_EQ(stalls[0].culprits[0].reason, Reason::kSleeping);
  ASSERT_THAT(stalls[0].waiters, SizeIs(1));
  EXPECT_THAT(stalls[0].waiters[0].processes, ElementsAre(0, 1, 3));
  EXPECT_EQ(
      describe(stalls[0], all),
      "stalled for 12 s: processes 0, 1, 3 of 4 wait in psum f32[4] at train.cc:30; all for process 2 (pid "
      "102), which has been in its own code since step at train.cc:30, 12 s ago; it sleeps "
      "(clock_nanosleep)");
}

TEST(Diagnosis, AChainOfWaits_BlamesItsEnd) {
  // 0 and 1 wait for 2, which waits for 3 in something else.
  const auto stalls =
      diagnose(std::vector{waiting(0, {2}), waiting(1, {2}), waiting(2, {3}, 2, 30), running(3)});
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(3));
  EXPECT_EQ(stalls[0].seconds, 30);
}

TEST(Diagnosis, TwoStallsAtOnce_AreReportedSeparately) {
  const auto stalls =
      diagnose(std::vector{waiting(0, {1}, 1, 5), running(1), waiting(2, {3}, 2, 9), running(3)});
  ASSERT_THAT(stalls, SizeIs(2));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(3));
  EXPECT_THAT(culprits(stalls[1]), ElementsAre(1));
}

TEST(Diagnosis, ARingOfWaits_NamesTheProcessesInIt) {
  const std::vector all = {waiting(0, {1}, 1), waiting(1, {0}, 2), waiting(2, {0}, 3)};
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, ::testing::Not(IsEmpty()));
  EXPECT_THAT(culprits(stalls[0]), IsEmpty());
  EXPECT_THAT(stalls[0].ring, ::testing::IsSupersetOf({0, 1}));
  EXPECT_THAT(describe(stalls[0], all), HasSubstr("they wait for each other"));
}

// The reports of processes are of slightly different moments.
TEST(Diagnosis, AProcessThatHasJustArrived_IsNoStall) {
  EXPECT_THAT(diagnose(std::vector{waiting(0, {1}), waiting(1, {0})}), IsEmpty())
      << "both are in the same operation";
  ProcessReport arriving = waiting(1, {});
  arriving.threads.front().doing.back().operation = 0;
  EXPECT_THAT(diagnose(std::vector{waiting(0, {1}), arriving}), IsEmpty()) << "it has just entered";
}

/// A process that waits in operation `count` of a group within a host.
ProcessReport within_host(int process, std::vector<int> missing, std::uint64_t count) {
  ProcessReport report = waiting(process, std::move(missing), 100 + count);
  report.threads.front().doing.back().group = 7;
  report.threads.front().doing.back().count = count;
  return report;
}

// On a busy machine, 0 has not run since 1 came to the operation, or still copies its data.
TEST(Diagnosis, AProcessPastAnOperationWithinAHost_IsNoStall) {
  EXPECT_THAT(diagnose(std::vector{within_host(0, {1}, 5), within_host(1, {0}, 6)}), IsEmpty());
  const auto stalls = diagnose(std::vector{within_host(0, {1}, 5), within_host(1, {2}, 6), running(2)});
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(2));
  EXPECT_THAT(stalls[0].waiters[0].processes, ElementsAre(1));
  // In another group it is elsewhere.
  ProcessReport other = within_host(1, {0}, 6);
  other.threads.front().doing.back().group = 8;
  EXPECT_THAT(diagnose(std::vector{within_host(0, {1}, 5), other}), SizeIs(1));
}

/// A process that waits in operation `count` of a group over hosts, where it has begun `begun` operations.
ProcessReport over_hosts(int process, std::vector<int> missing, std::uint64_t count, std::uint64_t begun,
                         std::vector<LinkReport> links = {}) {
  ProcessReport report = waiting(process, std::move(missing), 100 + count);
  report.host = process < 2 ? "a" : "b";
  report.threads.front().doing.back().group = 7;
  report.threads.front().doing.back().count = count;
  report.groups = {{7, begun}};
  report.links = std::move(links);
  return report;
}

TEST(Diagnosis, DataThatDoNotArrive_AreBlamedOnTheHostsNetwork) {
  // 0 and 2 are in the same operation.
  const std::vector stopped = {over_hosts(0, {2}, 5, 5, {{2, 11.4}}), over_hosts(1, {2}, 5, 5, {{2, 11}}),
                               over_hosts(2, {0}, 5, 5, {{0, 10}, {1, 10}})};
  auto stalls = diagnose(stopped);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), IsEmpty());
  EXPECT_THAT(stalls[0].ring, IsEmpty());
  EXPECT_THAT(causes(stalls[0], std::nullopt), ElementsAre(0, 1, 2));
  EXPECT_DOUBLE_EQ(stalls[0].seconds, 11.4);
  EXPECT_EQ(describe(stalls[0], stopped),
            "stalled for 11 s: processes 0-2 of 3 wait in psum f32[4] at train.cc:30; no bytes are confirmed "
            "between host a and host b for 11 s (processes 0-2): the network between them has stopped");
  // Process 2 has done its part and gone on, to the next operation or to code of its own.
  ProcessReport gone = over_hosts(2, {0}, 6, 6, {{0, 12}});
  for (const bool in_own_code : {false, true}) {
    if (in_own_code) gone.threads = running(2).threads;
    stalls = diagnose(std::vector{over_hosts(0, {2}, 5, 5), gone});
    ASSERT_THAT(stalls, SizeIs(1));
    EXPECT_THAT(culprits(stalls[0]), IsEmpty());
    ASSERT_THAT(stalls[0].links, SizeIs(1));
    EXPECT_EQ(stalls[0].links[0].from, 2);
  }
}

TEST(Diagnosis, DataOnTheirWay_AreNoStall) {
  EXPECT_THAT(diagnose(std::vector{over_hosts(0, {2}, 5, 5, {{2, 0.3}}), over_hosts(2, {0}, 5, 5)}),
              IsEmpty());
  EXPECT_THAT(diagnose(std::vector{over_hosts(0, {2}, 5, 5), over_hosts(2, {0}, 6, 6, {{0, 0.2}})}),
              IsEmpty());
}

TEST(Diagnosis, DifferentCallsAtTheSameCount_AreARing) {
  ProcessReport other = over_hosts(2, {0}, 5, 5);
  other.threads.front().doing.back().operation = 999;
  const auto stalls = diagnose(std::vector{over_hosts(0, {2}, 5, 5), other});
  ASSERT_THAT(stalls, ::testing::Not(IsEmpty()));
  EXPECT_THAT(stalls[0].ring, ElementsAre(0, 2));
}

// 0 waits for 1 and 2, and each of these for 3, which works.
TEST(Diagnosis, TwoChainsToOneCulprit_AreNoRing) {
  const auto stalls =
      diagnose(std::vector{waiting(0, {1, 2}, 1), waiting(1, {3}, 2), waiting(2, {3}, 3), running(3)});
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(stalls[0].ring, IsEmpty());
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(3));
  // And where 3 waits for data that are on their way.
  std::vector moving = {waiting(0, {1, 2}, 1), waiting(1, {3}, 2), waiting(2, {3}, 3),
                        over_hosts(3, {4}, 5, 5, {{4, 0.1}}), over_hosts(4, {3}, 5, 5)};
  EXPECT_THAT(diagnose(moving), IsEmpty());
}

// Each of many hosts waits for the one before it.
TEST(Diagnosis, ALargeRingOfHosts_IsDiagnosed) {
  constexpr int kHosts = 4000;
  std::vector<ProcessReport> all;
  for (int p = 0; p < kHosts; ++p) all.push_back(over_hosts(p, {(p + kHosts - 1) % kHosts}, 5, 5));
  EXPECT_THAT(diagnose(all), IsEmpty()) << "their data are on the way";
  all[7] = running(7);
  auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(7));
  EXPECT_THAT(stalls[0].waiters[0].processes, SizeIs(kHosts - 1));
  all[7] = waiting(7, {6}, 1);
  stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(stalls[0].ring, SizeIs(kHosts));
}

TEST(Diagnosis, AStoppedProcess_IsBlamedWhateverItWasDoing) {
  for (ProcessReport stopped : {running(1), waiting(1, {0}), waiting(1, {0}, 2)}) {
    stopped.evidence.state = 'T';
    const auto stalls = diagnose(std::vector{waiting(0, {1}), stopped});
    ASSERT_THAT(stalls, SizeIs(1));
    EXPECT_EQ(stalls[0].culprits.at(0).reason, Reason::kStopped);
  }
}

TEST(Diagnosis, EachStateOfAProcess_HasItsReason) {
  const auto reason = [](ProcessReport of) {
    const auto stalls = diagnose(std::vector{waiting(0, {1}), std::move(of)});
    return stalls.empty() ? Reason::kUnknown : stalls[0].culprits.at(0).reason;
  };
  const auto with = [](char state, const char* call, double share) {
    ProcessReport report = running(1);
    report.evidence = {.state = state, .call = call, .cpu_share = share};
    return report;
  };
  EXPECT_EQ(reason(with('R', "", 1)), Reason::kSpinning);
  EXPECT_EQ(reason(with('S', "", 0.9)), Reason::kSpinning) << "seen asleep by chance";
  EXPECT_EQ(reason(with('S', "read", 0)), Reason::kBlocked);
  EXPECT_EQ(reason(with('S', "futex", 0)), Reason::kLocked);
  EXPECT_EQ(reason(with('D', "", 0)), Reason::kDisk);
  EXPECT_EQ(reason(with('Z', "", 0)), Reason::kEnded);
  EXPECT_EQ(reason(doing(1, Kind::kCompile, "step")), Reason::kCompiling);
  EXPECT_EQ(reason(doing(1, Kind::kTrace, "step")), Reason::kTracing);
  EXPECT_EQ(reason(doing(1, Kind::kPhase, "load")), Reason::kPhase);
  EXPECT_EQ(reason(doing(1, Kind::kInput, "batch 3")), Reason::kInput);
  EXPECT_EQ(reason(doing(1, Kind::kSave, "step_3")), Reason::kCheckpoint);
  EXPECT_EQ(reason(doing(1, Kind::kLaunch, "step")), Reason::kComputing);
  ProcessReport ended = running(1);
  ended.ended = "exited with status 1";
  EXPECT_EQ(reason(ended), Reason::kEnded);
  ProcessReport early = running(1);
  early.joined = false;
  EXPECT_EQ(reason(early), Reason::kNotCome);
}

TEST(Diagnosis, ADeclaredPhase_IsReportedAsWaiting) {
  const std::vector all = {waiting(0, {1}), doing(1, Kind::kPhase, "load")};
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_TRUE(stalls[0].declared);
  EXPECT_THAT(describe(stalls[0], all), ::testing::StartsWith("waiting for 12 s"));
  EXPECT_THAT(describe(stalls[0], all), HasSubstr("is in phase \"load\" (at train.cc:20) for 11 s"));
}

TEST(Diagnosis, ProcessesThatWaitForAnIdleOne_AreNotStalled) {
  EXPECT_THAT(diagnose(std::vector{waiting(0, {1}), doing(1, Kind::kIdle, "requests")}), SizeIs(0));
  const std::vector with_another = {waiting(0, {1, 2}), doing(1, Kind::kIdle, "requests"), running(2)};
  const auto stalls = diagnose(with_another);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_EQ(stalls[0].culprits[0].reason, Reason::kIdle);
  EXPECT_THAT(describe(stalls[0], with_another), HasSubstr("is idle in phase \"requests\""));
}

TEST(Diagnosis, ProcessesAwaitingCompiledCode_BlameTheCompilingProcess) {
  ProcessReport taker = waiting(1, {0}, 0, 12, Kind::kAnswer);
  const auto stalls = diagnose(std::vector{doing(0, Kind::kCompile, "step"), taker, waiting(2, {1})});
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(0));
}

/// As in an ordinary first step; a wait in a collective for a process that compiles is none.
TEST(Diagnosis, AWaitForCompiledCode_IsReportedAfterAMinute_NotAsAStall) {
  const auto of = [](Kind kind, double seconds) {
    const std::vector all = {doing(0, Kind::kCompile, "step"), waiting(1, {0}, 0, seconds, kind),
                             waiting(2, {0}, 0, seconds, Kind::kAnswer)};
    const auto stalls = diagnose(all);
    EXPECT_THAT(stalls, SizeIs(1));
    return std::pair(stalls[0].long_enough(), describe(stalls[0], all).substr(0, 7));
  };
  EXPECT_EQ(of(Kind::kAnswer, 59), std::pair(false, std::string("waiting")));
  EXPECT_EQ(of(Kind::kAnswer, 61), std::pair(true, std::string("waiting")));
  EXPECT_EQ(of(Kind::kCollective, 12), std::pair(true, std::string("stalled")));
}

// The parts come to process 0, whose word the others wait for.
TEST(Diagnosis, AJointSave_BlamesTheProcessStillSaving) {
  const auto answer = [](int process, int from) {
    ProcessReport report = waiting(process, {from}, 0, 12, Kind::kAnswer);
    report.threads.front().doing.back().what = "the end of a checkpoint";
    return report;
  };
  const std::vector all = {answer(0, 1), doing(1, Kind::kSave, "step_3"), answer(2, 0)};
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(1));
  EXPECT_EQ(stalls[0].culprits[0].reason, Reason::kCheckpoint);
  EXPECT_THAT(describe(stalls[0], all), HasSubstr("wait for the end of a checkpoint; all for process 1"));
}

TEST(Diagnosis, ABackgroundSave_IsNoStall) {
  ProcessReport saving = running(0);
  ThreadReport writer{.tid = 200};
  writer.doing = {{.kind = Kind::kAnswer, .what = "a part of a checkpoint", .seconds = 60}};
  writer.missing = {1};
  writer.missing_count = 1;
  saving.threads.push_back(writer);
  EXPECT_THAT(diagnose(std::vector{saving, running(1)}), IsEmpty());
}

TEST(Diagnosis, JoiningProcesses_BlameTheOneThatHasNotCome) {
  ProcessReport joining = waiting(0, {1, 2}, 3, 12, Kind::kInitialize), late{.process = 2, .pid = 102};
  ProcessReport other = waiting(1, {0, 2}, 3, 11, Kind::kInitialize);
  late.evidence = {.state = 'S', .call = "clock_nanosleep"};
  const std::vector all = {joining, other, late};
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(2));
  EXPECT_EQ(stalls[0].culprits[0].reason, Reason::kNotCome);
  EXPECT_THAT(describe(stalls[0], all), HasSubstr("wait in initialize(); all for process 2"));
}

TEST(Diagnosis, ABarrierWithATruncatedMissingList_BlamesTheAbsentProcess) {
  std::vector<ProcessReport> all;
  for (int p = 0; p < 40; ++p) {
    ProcessReport report = waiting(p, {}, 5, 12, Kind::kBarrier);
    for (int other = 0; other < 16; ++other) report.threads.front().missing.push_back(other + (other >= p));
    report.threads.front().missing_count = 39;
    all.push_back(p == 33 ? running(33) : report);
  }
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(culprits(stalls[0]), ElementsAre(33));
}

TEST(Diagnosis, AWait_IsReportedAfter10SecondsOr20TimesTheUsual) {
  Stall stall{.waiters = {{.usual_seconds = 0.1}}, .seconds = 9.9};
  EXPECT_FALSE(stall.long_enough());
  stall.seconds = 10;
  EXPECT_TRUE(stall.long_enough());
  stall.waiters[0].usual_seconds = 3;
  EXPECT_FALSE(stall.long_enough());
  stall.seconds = 60;
  EXPECT_TRUE(stall.long_enough());
}

/// A process that has launched these programs over one mesh, each by a letter.
ProcessReport launched(int process, const std::string& programs, std::uint64_t first = 1) {
  ProcessReport report{.process = process};
  MeshReport mesh{.mesh = 9, .processes = "0-2", .launches = first + programs.size() - 1};
  std::uint64_t hash = 0, number = 1;
  for (const char program : programs) {
    hash = hash * 31 + static_cast<std::uint64_t>(program);
    if (number >= first || first > 1) {
      mesh.log.push_back({.number = first + number - 1,
                          .hash = hash,
                          .program = static_cast<std::uint64_t>(program),
                          .site = std::string("train.cc:") + program,
                          .what = std::string(1, program),
                          .text = std::string("f(a)\n  x = ") + program + "\n  return x"});
    }
    ++number;
  }
  mesh.hash = hash;
  report.meshes.push_back(std::move(mesh));
  return report;
}

/// A process whose devices have launched these programs, and that waits for the last one's result.
ProcessReport awaiting(int process, const std::string& programs, bool in_its_launch = false) {
  ProcessReport report = waiting(process, {}, 0, 12, Kind::kResult);
  report.meshes = launched(process, programs).meshes;
  if (!in_its_launch) report.threads.front().doing.erase(report.threads.front().doing.begin());
  Activity& in = report.threads.front().doing.back();
  in.what = "a result";
  if (in_its_launch) {
    in.mesh = report.meshes[0].mesh;
    in.number = report.meshes[0].launches;
    in.what = "step on the devices";
    in.site = "train.cc:30";
  }
  return report;
}

ProcessReport in_own_code(int process, const std::string& programs) {
  ProcessReport report = running(process);
  report.meshes = launched(process, programs).meshes;
  return report;
}

// On GPUs no process sees whom its devices wait for.
TEST(Diagnosis, DevicesThatWait_BlameTheProcessWithFewerLaunches) {
  for (const bool in_its_launch : {false, true}) {
    const std::vector all = {awaiting(0, "aba", in_its_launch), awaiting(1, "aba", in_its_launch),
                             in_own_code(2, "ab")};
    const auto stalls = diagnose(all);
    ASSERT_THAT(stalls, SizeIs(1));
    EXPECT_THAT(culprits(stalls[0]), ElementsAre(2));
    EXPECT_EQ(stalls[0].culprits[0].reason, Reason::kSleeping);
    EXPECT_THAT(
        describe(stalls[0], all),
        HasSubstr(in_its_launch ? "0, 1 of 3 wait for step on the devices at train.cc:30; all for process 2"
                                : "0, 1 of 3 wait for a result, of a at train.cc:a or a launch before it; "
                                  "all for process 2"));
  }
}

TEST(Diagnosis, DevicesWithEqualLaunches_BlameNobody) {
  EXPECT_THAT(diagnose(std::vector{awaiting(0, "aba"), awaiting(1, "aba"), in_own_code(2, "aba")}),
              IsEmpty());
  std::vector all = {awaiting(0, "aba"), awaiting(1, "aba"), awaiting(2, "aba")};
  EXPECT_THAT(diagnose(all), IsEmpty()) << "the first results may take long";
  for (ProcessReport& report : all) report.threads.front().doing.back().usual_seconds = 0.2;
  all[1].threads.front().doing.back().seconds = 11;
  const auto stalls = diagnose(all);
  ASSERT_THAT(stalls, SizeIs(1));
  EXPECT_THAT(stalls[0].awaited(), IsEmpty());
  EXPECT_THAT(causes(stalls[0], std::nullopt), ElementsAre(0, 1, 2));
  EXPECT_TRUE(stalls[0].long_enough());
  EXPECT_EQ(
      describe(stalls[0], all),
      "waiting for 11 s: processes 0-2 of 3 wait for a result; all have launched the same: their devices "
      "compute, or do not reach each other");
  EXPECT_THAT(
      diagnose(std::vector{awaiting(0, "aba", true), awaiting(1, "aba", true), awaiting(2, "aba", true)}),
      SizeIs(1));
}

TEST(Diagnosis, DevicesInDifferentPrograms_AreARingCausedByTheMinority) {
  for (const std::string other : {"abx", "abxa", "abxab"}) {
    const std::vector all = {awaiting(0, "aba"), awaiting(1, other), awaiting(2, "aba")};
    const auto stalls = diagnose(all);
    ASSERT_THAT(stalls, SizeIs(1)) << other;
    EXPECT_THAT(culprits(stalls[0]), IsEmpty()) << other;
    EXPECT_THAT(stalls[0].ring, ElementsAre(0, 1, 2)) << other;
    EXPECT_THAT(causes(stalls[0], find_difference(all)), ElementsAre(1)) << other;
    EXPECT_THAT(causes(stalls[0], std::nullopt), ElementsAre(0, 1, 2)) << other;
    EXPECT_THAT(describe(stalls[0], all), HasSubstr("they wait for each other")) << other;
  }
}

TEST(Difference, TheSamePrograms_HaveNone_HoweverManyEachHasLaunched) {
  EXPECT_EQ(find_difference(std::vector{launched(0, "abcab"), launched(1, "ab"), launched(2, "")}),
            std::nullopt);
  EXPECT_FALSE(hashes_differ(std::vector{launched(0, "abcab"), launched(1, "ab"), launched(2, "")}));
}

TEST(Difference, IsTheEarliestLaunch_WithTheMinorityLast) {
  const std::vector all = {launched(0, "abcabc"), launched(1, "abxabcd"), launched(2, "abca")};
  EXPECT_TRUE(hashes_differ(all));
  const auto found = find_difference(all);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 3u);
  ASSERT_THAT(found->sides, SizeIs(2));
  EXPECT_THAT(found->sides[0].processes, ElementsAre(0, 2));
  EXPECT_THAT(found->sides[1].processes, ElementsAre(1));
  EXPECT_EQ(describe(*found, 3),
            "launch 3 over the mesh differs: processes 0, 2 of 3 launched c at train.cc:c, but process 1 of "
            "3 launched x at train.cc:x. The programs differ first in line 2: '  x = c' and '  x = x'");
}

TEST(Difference, BetweenSidesOfEqualSize_ListsTheFirstProcessFirst) {
  for (const auto& [one, other] : {std::pair("ab", "ac"), {"ac", "ab"}, {"xa", "ax"}, {"ax", "xa"}}) {
    const auto found = find_difference(std::vector{launched(0, one), launched(1, other)});
    ASSERT_TRUE(found);
    EXPECT_THAT(found->sides[0].processes, ElementsAre(0)) << one;
    EXPECT_THAT(found->sides[1].processes, ElementsAre(1)) << one;
  }
}

// Only the logs are compared: a job that has launched for days is looked at in no time.
TEST(Difference, OfManyLaunches_LooksOnlyAtTheLogs) {
  std::vector all = {launched(0, "abc", 5'000'000'000), launched(1, "abc", 5'000'000'000)};
  EXPECT_EQ(find_difference(all), std::nullopt);
  for (ProcessReport& report : all) report.meshes[0].log.clear();
  EXPECT_EQ(find_difference(all), std::nullopt);
  all[0] = launched(0, "abc");
  EXPECT_EQ(find_difference(all), std::nullopt);
}

TEST(Difference, AMeshWithLaunchesOfSeveralThreads_HasNone) {
  ProcessReport other = launched(1, "bacabc");
  other.meshes[0].unordered = true;
  EXPECT_EQ(find_difference(std::vector{launched(0, "abcabc"), other}), std::nullopt);
  EXPECT_FALSE(hashes_differ(std::vector{launched(0, "abcabc"), other}));
}

TEST(Difference, InLogsWithoutTheBeginning_IsMarkedSo) {
  const auto found = find_difference(std::vector{launched(0, "abc", 5000), launched(1, "xbc", 5000)});
  ASSERT_TRUE(found);
  EXPECT_EQ(found->number, 5000u);
  EXPECT_TRUE(found->earlier_lost);
}

TEST(Processes, AreWrittenAndReadAsRanges) {
  EXPECT_EQ(describe_processes({3, 0, 1, 2, 7, 5, 8}), "0-3, 5, 7, 8");
  EXPECT_EQ(describe_processes({}), "");
  EXPECT_THAT(processes_of("0-3, 5, 7, 8"), ElementsAre(0, 1, 2, 3, 5, 7, 8));
  EXPECT_THAT(processes_of(""), IsEmpty());
  for (const std::string text : {"0-2000000000", "99999999999999999999", "0-262144", "5-3"})
    EXPECT_THAT(processes_of(text), IsEmpty()) << text;
  EXPECT_EQ(processes_of("0-262143").size(), 262144u);
  EXPECT_THAT(processes_of("0-262143, 0-262143"), IsEmpty());
}

}  // namespace
}  // namespace lockstep::watch
