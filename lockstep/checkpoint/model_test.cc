// SPDX-License-Identifier: Apache-2.0
// Random histories of a run that several processes and jobs share, some of them killed at any call, beside a
// model of what must be there. LOCKSTEP_TEST_HISTORIES: how many.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "lockstep/array/make_array.h"
#include "lockstep/base/log.h"
#include "lockstep/checkpoint/checkpointer.h"
#include "lockstep/checkpoint/export.h"
#include "lockstep/checkpoint/job.h"
#include "lockstep/checkpoint/manifest.h"
#include "lockstep/checkpoint/opened.h"
#include "lockstep/checkpoint/step_folder.h"
#include "lockstep/checkpoint/test_model.h"
#include "lockstep/checkpoint/test_places.h"
#include "lockstep/testing/random.h"
#include "lockstep/testing/rounds.h"

namespace lockstep::checkpoint {
namespace {

/// The random numbers of one history.
class Random {
 public:
  explicit Random(std::uint64_t seed) : engine_(seed) {}
  int below(int count) { return static_cast<int>(engine_() % static_cast<std::uint64_t>(count)); }

 private:
  std::mt19937_64 engine_;
};

using Tree = std::map<std::string, Array>;

Tree model_tree(int seed) {
  std::vector<float> numbers(50);
  for (std::size_t i = 0; i < numbers.size(); ++i)
    numbers[i] = static_cast<float>(seed) + static_cast<float>(i) / 64;
  return {{"w", array(numbers)}};
}

/// A process, with the Checkpointers of one or two places in its program.
struct Process {
  std::string job;
  std::vector<Keep> keeps;
  std::shared_ptr<LiveAttempts> live = std::make_shared<LiveAttempts>();
  std::vector<std::unique_ptr<Checkpointer>> checkpointers;
};

struct Count {
  int saves = 0, kills = 0, acts = 0, removals = 0, damages = 0;
};

class History {
 public:
  History(test::Place& place, Random& random, Count& count) : place_(place), random_(random), count_(count) {
    const Process base{"base", {{}}, {}, {}};
    save(place_.url("base") + "/" + step_name(77), model_tree(kBaseSeed), {});
    place_.write("victim", "not of the run");
    place_.write("run/victim", "not of a step");
    place_.write("run/step-00000007x/part-00000-of-00001.safetensors", "not of a step");
    outside_ = outside();
    processes_.push_back({"a", {random_keep(), random_keep()}, std::make_shared<LiveAttempts>(), {}});
    processes_.push_back({"b", {random_keep()}, std::make_shared<LiveAttempts>(), {}});
    processes_.push_back({"", {random_keep()}, std::make_shared<LiveAttempts>(), {}});
    for (Process& process : processes_) start(process);
  }

  void act() {
    Process& process = processes_[static_cast<std::size_t>(random_.below(3))];
    switch (random_.below(20)) {
      case 0:
        return start(process);
      case 1:
        now_ += std::chrono::hours(random_.below(120) - 60);
        return;
      case 2:
      case 3:
        return damage();
      case 4:
        return link();
      case 5:
        return add_foreign_file();
      case 6:
      case 7:
        return remove(random_step(), random_.below(2) == 0 ? random_.below(20) : -1);
      case 8:
        return remove_attempts();
      case 9:
        return export_one();
      default:
        return save_one(process);
    }
  }

  /// Whether what is there is what the model says.
  void check() {
    SCOPED_TRACE(log_);
    std::vector<std::int64_t> steps;
    for (const auto& [step, known] : steps_) steps.push_back(step);
    ASSERT_THAT(published(), ::testing::ElementsAreArray(steps));
    // Each request to a bucket takes a while: there one step and one process at a time.
    const bool all = place_.is_folder();
    const std::int64_t only =
        steps.empty() || all ? -1
                             : steps[static_cast<std::size_t>(random_.below(static_cast<int>(steps.size())))];
    for (const auto& [step, known] : steps_)
      if (all || step == only) check_step(step, known);
    ASSERT_EQ(outside(), outside_) << "something beside the run has changed";
    for (const auto& [name, bytes] : foreign_) ASSERT_EQ(files()[name], bytes) << name;
    const auto expected = test::latest(steps_);
    const int which = random_.below(3);
    for (int i = all ? 0 : which; i <= (all ? 2 : which); ++i) {
      const Process& process = processes_[static_cast<std::size_t>(i)];
      const Job job = job_of(process);
      const ScopedJob scope(job);
      try {
        const auto found = process.checkpointers.front()->latest();
        ASSERT_TRUE(expected) << "step " << found.value_or(-1);
        ASSERT_EQ(found.value_or(-1), *expected);
      } catch (const CheckpointError& error) {
        ASSERT_FALSE(expected) << error.what();
      }
    }
  }

 private:
  static constexpr int kBaseSeed = 1000;

  std::unique_ptr<storage::Store> store() const { return storage::open_store(place_.url("run")); }
  std::map<std::string, std::string> files() { return place_.files(); }
  std::string url_of(std::int64_t step) const { return place_.url("run") + "/" + step_name(step); }
  std::vector<std::int64_t> published() const { return published_steps(*store()); }
  void note(const std::string& what) { log_ += what + "\n"; }

  /// The files that no save of this run wrote.
  std::map<std::string, std::string> outside() {
    auto all = files();
    std::erase_if(all, [](const auto& file) {
      return file.first.starts_with("run/step-") && !file.first.starts_with("run/step-00000007x");
    });
    return all;
  }

  Keep random_keep() {
    switch (random_.below(5)) {
      case 0:
        return {};
      case 1:
        return {.last = 1 + random_.below(3)};
      case 2:
        return {.last = 1, .every = 2};
      case 3:
        return {.best = 1 + random_.below(2), .highest = random_.below(2) == 0};
      default:
        return {.last = 1 + random_.below(2), .best = 1};
    }
  }

  std::int64_t random_step() { return random_.below(9); }

  Job job_of(const Process& process) {
    Job job;
    job.id = process.job;
    job.live = process.live;
    job.now = [this] { return now_; };
    return job;
  }

  static void save(const std::string& url, const Tree& tree, const SaveOptions& options) {
    const Job job;
    const ScopedJob scope(job);
    checkpoint::save(url, tree, options);
  }

  /// Starts a process, also one that was killed. Its job's leftovers are gone then, and removals ended.
  void start(Process& process) {
    note("start " + process.job);
    process.checkpointers.clear();
    process.live = std::make_shared<LiveAttempts>();
    open(process);
    settle();
    for (const Leftover& leftover : leftovers(*store())) {
      EXPECT_FALSE(is_of_job(leftover.nonce, process.job)) << log_ << leftover.nonce;
      EXPECT_GE(*expiry_of(leftover.nonce), std::chrono::system_clock::to_time_t(now_)) << log_;
    }
    EXPECT_THAT(half_removed_steps(*store()), ::testing::IsEmpty()) << log_;
  }

  void open(Process& process) {
    const Job job = job_of(process);
    const ScopedJob scope(job);
    for (const Keep& keep : process.keeps) {
      CheckpointerOptions options;
      options.keep = keep;
      options.asynchronous = false;
      process.checkpointers.push_back(std::make_unique<Checkpointer>(place_.url("run"), options));
    }
  }

  void check_step(std::int64_t step, const test::Step& known) {
    try {
      const Numbers numbers = restore_numbers(url_of(step));
      ASSERT_FALSE(known.unreadable || known.incomplete) << step;
      ASSERT_EQ(numbers.arrays.at("[\"w\"]").elements<float>(),
                model_tree(known.seed).at("w").to_host<float>())
          << step;
      Opened::open(url_of(step))->verify();
    } catch (const CheckpointError& error) {
      ASSERT_TRUE(known.unreadable || known.incomplete) << error.what();
    }
  }

  /// Takes what a killed process, or one beside it, has left as it is: a step is there, and whole, or not. In
  /// a bucket another process may publish what a killed one had decided to publish.
  void settle() {
    for (std::int64_t step : published()) {
      if (steps_.contains(step)) continue;
      const std::string name = step_name(step) + "/" + kManifestName;
      const Manifest manifest = parse_manifest(storage::read_whole(*store()->open(name)), name);
      int seed = -1;
      try {
        seed = static_cast<int>(restore_numbers(url_of(step)).arrays.at("[\"w\"]").elements<float>().front());
      } catch (const CheckpointError& error) {
        ADD_FAILURE() << log_ << "step " << step << " is not whole: " << error.what();
      }
      EXPECT_EQ(unsettled_.erase(seed), 1u) << log_ << "step " << step << " has come back";
      steps_[step] = {seed, manifest.order, manifest.metric};
    }
  }

  int new_seed() {
    unsettled_.insert(++seeds_);
    return seeds_;
  }

  void save_one(Process& process) {
    const auto which =
        static_cast<std::size_t>(random_.below(static_cast<int>(process.checkpointers.size())));
    const std::int64_t step = random_step();
    const int kind = random_.below(10);
    const int acts_at = kind >= 5 ? random_.below(60) : -1;
    int dies_at = kind < 4 ? random_.below(70) : -1;
    if (kind == 5) dies_at = acts_at + random_.below(10);  // soon after another one has acted
    const int other = random_.below(8);
    save_step(process, which, step, dies_at, acts_at, other);
  }

  void save_step(Process& process, std::size_t which, std::int64_t step, int dies_at, int acts_at,
                 int other) {
    ++count_.saves;
    const int seed = new_seed();
    const std::optional<double> metric =
        random_.below(3) == 0 ? std::nullopt : std::optional<double>(random_.below(4));
    const Keep& keep = process.keeps[which];
    note(fmt::format("save {} by {}/{} keep last {} every {} best {}{} dies {} acts {} {}", step, process.job,
                     which, keep.last, keep.every, keep.best, keep.highest, dies_at, acts_at, other));
    const test::Steps before = steps_;
    bool was_there = steps_.contains(step);
    const bool blocked = place_.is_folder() && !was_there && blocked_by_foreign_files(step);
    std::string error;
    removed_beside_ = false;
    place_.interruption.arm(dies_at, acts_at, [&] { beside(process, step, other); });
    {
      const Job job = job_of(process);
      const ScopedJob scope(job);
      try {
        process.checkpointers[which]->save(step, model_tree(seed), metric);
      } catch (const CheckpointError& failed) {
        error = failed.what();
      }
    }
    const bool died = place_.interruption.died(), acted = place_.interruption.acted();
    place_.interruption.disarm();
    count_.kills += died;
    count_.acts += acted;
    note(error);
    const bool acknowledged = error.empty();
    const bool undisturbed = !died && (!acted || other == 0);
    was_there = was_there || (steps_.contains(step) && steps_[step].seed != seed);
    if (undisturbed) {
      EXPECT_EQ(acknowledged, !was_there && !blocked) << log_;
    }
    settle();
    if (acknowledged) unsettled_.erase(seed);
    // Removed by somebody as soon as it was published: it supersedes others nevertheless.
    const bool removed = acknowledged && removed_beside_ && !steps_.contains(step);
    if (removed) steps_[step] = {seed, kLargestOrder, metric};
    if (acknowledged) {
      ASSERT_TRUE(steps_.contains(step)) << log_ << "an acknowledged save is lost";
      for (const auto& [each, known] : before) {
        const bool is_there = each != step && steps_.contains(each) && steps_[each].seed == known.seed;
        EXPECT_TRUE(!is_there || known.unreadable || steps_[step].order > known.order) << log_ << each;
      }
    }
    const bool own = steps_.contains(step) && steps_[step].seed == seed;
    auto gone = own ? test::superseded(steps_, keep, step) : std::set<std::int64_t>();
    if (own && acted) {
      // Or of those that were there before the other one acted.
      test::Steps after = std::exchange(steps_, before);
      steps_[step] = after[step];
      for (std::int64_t each : test::superseded(steps_, keep, step))
        if (!after.contains(each) || after[each].seed == steps_[each].seed) gone.insert(each);
      steps_ = std::move(after);
    }
    if (removed) gone.insert(step);
    if (died) start(process);  // which ends removals that had begun
    const std::vector<std::int64_t> there = published();
    for (auto it = steps_.begin(); it != steps_.end();) {
      const bool is_there = std::ranges::find(there, it->first) != there.end();
      const bool may_go = gone.contains(it->first);
      EXPECT_TRUE(is_there || may_go) << log_ << "step " << it->first << " is lost";
      if (acknowledged && undisturbed) {
        EXPECT_EQ(is_there, !may_go) << log_ << "step " << it->first;
      }
      it = is_there ? std::next(it) : steps_.erase(it);
    }
  }

  /// Acts as another process, or another place in the program of the same one, in the middle of a save.
  void beside(Process& process, std::int64_t step, int what) {
    note(fmt::format("  beside: {}", what));
    act_beside(process, step, what);
    settle();
  }

  void act_beside(Process& process, std::int64_t step, int what) {
    Process* other = &processes_[static_cast<std::size_t>(random_.below(3))];
    switch (what) {
      case 0: {  // another Checkpointer of the same process
        const Job job = job_of(process);
        const ScopedJob scope(job);
        const Checkpointer another(place_.url("run"));
        return;
      }
      case 1: {  // a start of the same job, for which this one is dead
        Process again{process.job, {{}}, std::make_shared<LiveAttempts>(), {}};
        open(again);
        return;
      }
      case 2:
        return remove_checkpoint_beside(step);
      case 3:
        for (const Leftover& leftover : leftovers(*store())) remove_leftover(*store(), leftover);
        return;
      case 4:
        now_ += std::chrono::hours(30);
        open_again(*other);
        return;
      case 5:  // the same step, by another process
        return save_beside(*other, step);
      default: {  // another step anew
        const std::int64_t anew = random_step();
        if (anew == step) return;
        remove_checkpoint(*store(), step_name(anew));
        steps_.erase(anew);
        save_beside(*other, anew);
      }
    }
  }

  void save_beside(const Process& process, std::int64_t step) {
    note(fmt::format("  save {} by {}", step, process.job));
    const int seed = new_seed();
    const Job job = job_of(process);
    const ScopedJob scope(job);
    CheckpointerOptions options;
    options.asynchronous = false;
    Checkpointer checkpoints(place_.url("run"), options);
    try {
      checkpoints.save(step, model_tree(seed));
      settle();
    } catch (const CheckpointError& error) {
      note(std::string("  ") + error.what());
    }
  }

  void open_again(const Process& process) {
    Process again{process.job, {{}}, process.live, {}};
    open(again);
  }

  void remove_checkpoint_beside(std::int64_t step) {
    removed_beside_ = remove_checkpoint(*store(), step_name(step));
    note(fmt::format("  removed {}: {}", step, removed_beside_));
    steps_.erase(step);
  }

  bool blocked_by_foreign_files(std::int64_t step) const {
    return std::ranges::any_of(
        foreign_, [&](const auto& file) { return file.first.starts_with("run/" + step_name(step) + "/"); });
  }

  void remove(std::int64_t step, int dies_at) {
    ++count_.removals;
    note(fmt::format("remove {} dies {}", step, dies_at));
    const bool was_there = steps_.contains(step);
    place_.interruption.arm(dies_at, -1, {});
    bool removed = false, failed = false;
    try {
      removed = remove_checkpoint(*store(), step_name(step));
    } catch (const Error& error) {
      note(error.what());
      failed = true;
    }
    const bool died = place_.interruption.died();
    place_.interruption.disarm();
    count_.kills += died;
    if (!died) {
      EXPECT_FALSE(failed) << log_;
      EXPECT_EQ(removed, was_there) << log_;
    } else {
      // It is there and whole, or not there; and the removal can be repeated.
      const auto there = published();
      if (std::ranges::find(there, step) == there.end()) steps_.erase(step);
      check();
      remove_checkpoint(*store(), step_name(step));
    }
    steps_.erase(step);
    EXPECT_THAT(half_removed_steps(*store()), ::testing::IsEmpty()) << log_;
    for (const auto& [name, bytes] : files()) {
      const bool of_step = name.starts_with("run/" + step_name(step) + "/") && !foreign_.contains(name);
      EXPECT_FALSE(of_step && name.find(".lockstep") == name.npos && !is_attempt(name))
          << log_ << name << " is left";
    }
  }

  /// Whether a file in a bucket is of a save that did not end.
  bool is_attempt(const std::string& name) {
    for (const Leftover& leftover : leftovers(*store()))
      if (name.find(leftover.nonce) != name.npos) return true;
    return false;
  }

  void remove_attempts() {
    note("remove attempts");
    for (const Leftover& leftover : leftovers(*store())) remove_leftover(*store(), leftover);
    settle();
    EXPECT_THAT(leftovers(*store()), ::testing::IsEmpty()) << log_;
  }

  void export_one() {
    if (steps_.empty()) return;
    const auto& [step, known] = *std::next(steps_.begin(), random_.below(static_cast<int>(steps_.size())));
    note(fmt::format("export {}", step));
    const std::string to = place_.url(fmt::format("exports/{}", ++seeds_));
    try {
      export_checkpoint(url_of(step), to);
      EXPECT_FALSE(known.unreadable || known.incomplete) << log_;
      EXPECT_EQ(restore_numbers(to).arrays.at("[\"w\"]").elements<float>(),
                model_tree(known.seed).at("w").to_host<float>())
          << log_;
    } catch (const CheckpointError& error) {
      EXPECT_TRUE(known.unreadable || known.incomplete) << log_ << error.what();
    }
    for (const auto& [name, bytes] : files())
      if (name.starts_with("exports/")) place_.erase(name);
  }

  /// The name of a random step's file that ends so; "" if there is none.
  std::string file_of(std::int64_t step, const std::string& ending) {
    for (const auto& [name, bytes] : files())
      if (name.starts_with("run/" + step_name(step) + "/") && name.ends_with(ending)) return name;
    return "";
  }

  void damage() {
    const std::int64_t step = random_step();
    if (!steps_.contains(step) || steps_[step].linked || steps_[step].unreadable || steps_[step].incomplete)
      return;
    ++count_.damages;
    test::Step& known = steps_[step];
    const std::string manifest = file_of(step, kManifestName), part = file_of(step, ".safetensors");
    std::string bytes = files()[manifest];
    const int how = random_.below(8);
    note(fmt::format("damage {} how {}", step, how));
    if (how < 2) {
      known.incomplete = true;
      if (part.empty()) return;
      std::string changed = files()[part];
      if (how == 0) return place_.erase(part);
      changed.back() = static_cast<char>(changed.back() ^ 1);
      return place_.write(part, changed);
    }
    known.unreadable = true;
    if (how == 2) bytes.clear();
    if (how == 3) bytes.resize(bytes.size() / 2);
    if (how == 4) bytes[static_cast<std::size_t>(random_.below(static_cast<int>(bytes.size())))] ^= 4;
    if (how >= 5) {
      // Forged: with the right checksum.
      Manifest forged = parse_manifest(bytes, manifest);
      Part& first = forged.arrays.begin()->second.parts.front();
      if (how == 5) forged.files.push_back({"../../victim", 14, 0, ""});
      if (how == 6) first.tile = {0}, first.sums.clear();
      if (how == 7) forged.files.push_back({random_.below(2) == 0 ? "/victim" : "a/../../victim", 0, 0, ""});
      bytes = to_json(forged);
    }
    place_.write(manifest, bytes);
  }

  void link() {
    const std::int64_t step = random_step();
    if (!place_.is_folder() || steps_.contains(step) || std::filesystem::exists(url_of(step))) return;
    note(fmt::format("link {}", step));
    std::filesystem::create_directory_symlink(place_.url("base") + "/" + step_name(77), url_of(step));
    const Manifest manifest = Opened::open(url_of(step))->manifest();
    steps_[step] = {kBaseSeed, manifest.order, std::nullopt};
    steps_[step].linked = true;
  }

  void add_foreign_file() {
    const std::int64_t step = random_step();
    if (!steps_.contains(step) || steps_[step].linked) return;
    note(fmt::format("foreign {}", step));
    const std::string name = "run/" + step_name(step) + "/notes.txt";
    place_.write(name, "mine");
    foreign_[name] = "mine";
  }

  test::Place& place_;
  Random& random_;
  Count& count_;
  std::chrono::system_clock::time_point now_ = std::chrono::system_clock::now();
  std::vector<Process> processes_;
  test::Steps steps_;
  std::map<std::string, std::string> outside_, foreign_;
  int seeds_ = 0;
  std::set<int> unsettled_;  // seeds of saves of which nobody was told that they are done
  bool removed_beside_ = false;
  std::string log_;
};

void play(int histories, const std::function<std::unique_ptr<test::Place>()>& place) {
  logging::set_level(logging::Level::kOff);
  Count count;
  const std::uint64_t seed = testing::Random().seed() * 1'000'000;
  for (int i = 0; i < histories && !::testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(fmt::format("history {}", i));
    Random random(seed + static_cast<std::uint64_t>(i));
    const auto where = place();
    History history(*where, random, count);
    for (int act = 0; act < 12 && !::testing::Test::HasFailure(); ++act) {
      history.act();
      history.check();
    }
  }
  logging::set_level(logging::Level::kInfo);
  std::printf("%d histories: %d saves, %d kills, %d acts beside a save, %d removals, %d damages\n", histories,
              count.saves, count.kills, count.acts, count.removals, count.damages);
}

int histories() { return lockstep::testing::rounds("LOCKSTEP_TEST_HISTORIES", 300, 10000); }

TEST(History, InAFolder_AcknowledgedSavesStay_AndOtherFilesAreUntouched) {
  play(histories() * 4 / 5, [] { return std::make_unique<test::FolderPlace>(); });
}

TEST(History, InABucket_AcknowledgedSavesStay_AndOtherFilesAreUntouched) {
  play(histories() / 5, [] { return std::make_unique<test::BucketPlace>(); });
}

TEST(History, OnARealServer_AcknowledgedSavesStay_AndOtherFilesAreUntouched) {
  const storage::TestS3Server server(LOCKSTEP_S3_SERVER);
  if (!server.reason().empty()) GTEST_SKIP() << server.reason();
  play(std::max(1, histories() / 300), [&] { return std::make_unique<test::ServerPlace>(server); });
}

}  // namespace
}  // namespace lockstep::checkpoint
