// SPDX-License-Identifier: Apache-2.0
#include "lockstep/runtime/settings.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "lockstep/base/error.h"
#include "lockstep/base/text.h"
#include "lockstep/cluster/options.h"
#include "lockstep/runtime/hold_coordinator.h"
#include "lockstep/testing/errors.h"
#include "lockstep/testing/outside_texts.h"

namespace lockstep::runtime {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::ElementsAre;
using testing::error_of;
using ::testing::HasSubstr;

MapEnvironment environment_of(std::map<std::string, std::string> variables) {
  return MapEnvironment(std::move(variables));
}

TEST(Resolve, WithNothingGiven_IsASingleProcess) {
  Settings settings = resolve({}, environment_of({}));
  EXPECT_EQ(settings.place.num_processes, 1);
  EXPECT_EQ(settings.place.process_id, 0);
  EXPECT_EQ(settings.options.num_cpu_devices, 1);
  EXPECT_EQ(settings.options.heartbeat_timeout, std::chrono::seconds(100));
  EXPECT_EQ(settings.options.initialization_timeout, std::chrono::seconds(300));
  EXPECT_TRUE(settings.coordinator_bind_address.empty());
}

TEST(Resolve, Arguments_WinOverVariables) {
  Settings settings =
      resolve({.process_id = 1, .num_cpu_devices = 4, .heartbeat_timeout = std::chrono::seconds(7)},
              environment_of({{"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"},
                              {"LOCKSTEP_NUM_PROCESSES", "2"},
                              {"LOCKSTEP_PROCESS_ID", "0"},
                              {"LOCKSTEP_NUM_CPU_DEVICES", "2"},
                              {"LOCKSTEP_HEARTBEAT_TIMEOUT", "9"},
                              {"LOCKSTEP_SHUTDOWN_TIMEOUT", "11"}}));
  EXPECT_EQ(settings.place.process_id, 1);
  EXPECT_EQ(settings.place.num_processes, 2);
  EXPECT_EQ(settings.options.num_cpu_devices, 4);
  EXPECT_EQ(settings.options.heartbeat_timeout, std::chrono::seconds(7));
  EXPECT_EQ(settings.options.shutdown_timeout, std::chrono::seconds(11));
}

TEST(Resolve, RanksOfMpi_WinOverTheLaunchersVariables) {
  MpiCommunicator ranks;
  ranks.rank = 1;
  ranks.size = 3;
  const auto variables = environment_of({{"OMPI_COMM_WORLD_SIZE", "8"},
                                         {"OMPI_COMM_WORLD_RANK", "5"},
                                         {"LOCKSTEP_NUM_PROCESSES", "8"},
                                         {"LOCKSTEP_JOB_ID", "job"}});
  const Settings settings = resolve({.mpi = ranks}, variables);
  EXPECT_EQ(settings.place.cluster, "mpi");
  EXPECT_EQ(settings.place.process_id, 1);
  EXPECT_EQ(settings.place.num_processes, 3);
  EXPECT_EQ(settings.place.job_id, "job");
  EXPECT_EQ(settings.place.coordinator_address, "");
  EXPECT_TRUE(settings.mpi());
  EXPECT_THAT(error_of<InitializationError>([&] { resolve({.num_processes = 3, .mpi = ranks}, variables); }),
              HasSubstr("got mpi and num_processes"));
  ranks.rank = 0;
  ranks.size = 1;
  EXPECT_FALSE(resolve({.mpi = ranks}, variables).mpi()) << "a single rank meets nobody";
}

/// Notes which variables are asked for.
class Asked : public Environment {
 public:
  explicit Asked(std::map<std::string, std::string> variables) : variables_(std::move(variables)) {}
  std::optional<std::string> get(const std::string& name) const override {
    names.insert(name);
    const auto found = variables_.find(name);
    return found == variables_.end() ? std::nullopt : std::optional(found->second);
  }
  mutable std::set<std::string> names;

 private:
  std::map<std::string, std::string> variables_;
};

TEST(Resolve, AVariableOfAnyBytes_IsAcceptedOrNamedInTheError) {
  const std::map<std::string, std::string> job = {{"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"},
                                                  {"LOCKSTEP_NUM_PROCESSES", "2"},
                                                  {"LOCKSTEP_PROCESS_ID", "0"},
                                                  {"LOCKSTEP_LAUNCHER", "1"}};
  const Asked asked(job);
  resolve({}, asked);
  EXPECT_GT(asked.names.size(), 30u);
  int refused = 0;
  for (const std::string& name : asked.names) {
    for (const auto& [what, text] : testing::outside_texts()) {
      if (text.find('\0') != text.npos) continue;  // which no variable can have
      SCOPED_TRACE(name + ", " + what);
      auto variables = job;
      variables[name] = text;
      try {
        const Settings settings = resolve({}, environment_of(variables));
        EXPECT_TRUE(is_utf8(settings.place.job_id));
      } catch (const InitializationError& error) {
        ++refused;
        EXPECT_TRUE(is_utf8(error.what())) << shown(error.what());
        EXPECT_LT(std::string_view(error.what()).size(), 4000u);
        // By its name, or by what it is.
        EXPECT_THAT(std::string(error.what()),
                    AnyOf(HasSubstr("compilation_cache_dir"), HasSubstr(name.substr(name.find('_') + 1)),
                          HasSubstr("network interface '"), HasSubstr("cluster type '"),
                          HasSubstr("is not the address of a coordinator")));
      }
    }
  }
  EXPECT_GT(refused, 100);
}

TEST(Resolve, CompilationCache_IsOffByDefault_AndAnArgumentWins) {
  const CompileCacheOptions none = resolve({}, environment_of({})).compile_cache();
  EXPECT_EQ(none.folder, "");
  EXPECT_EQ(none.max_size, -1);
  const CompileCacheOptions given =
      resolve({.compilation_cache_dir = "/here", .compilation_cache_max_size = 5},
              environment_of({{"LOCKSTEP_COMPILATION_CACHE_DIR", "/kept"},
                              {"LOCKSTEP_COMPILATION_CACHE_MAX_SIZE", "many"}}))
          .compile_cache();
  EXPECT_EQ(given.folder, "/here");
  for (const char* url : {"gs://bucket/cache", "s3://bucket/cache", "S3://bucket/cache"})
    EXPECT_THAT(
        error_of<InitializationError>([&] { resolve({.compilation_cache_dir = url}, environment_of({})); }),
        HasSubstr(std::string("[initialize] compilation_cache_dir: \"") + url));
  EXPECT_EQ(given.max_size, 5);
}

TEST(Resolve, InvalidBoundsOfTheCompilationCache_AreErrors) {
  auto error = [](const std::string& name, const std::string& value) {
    return error_of<InitializationError>([&] { resolve({}, environment_of({{"LOCKSTEP_" + name, value}})); });
  };
  EXPECT_EQ(
      error("COMPILATION_CACHE_MAX_SIZE", "1 GB"),
      "[initialize] LOCKSTEP_COMPILATION_CACHE_MAX_SIZE is '1 GB': expected a whole number of at least -1");
  EXPECT_EQ(error("PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "-1"),
            "[initialize] LOCKSTEP_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS is '-1': expected a number of at "
            "least 0");
  EXPECT_EQ(
      error_of<InitializationError>(
          [] { resolve({.persistent_cache_min_entry_size_bytes = -2}, environment_of({})); }),
      "[initialize] persistent_cache_min_entry_size_bytes is '-2': expected a whole number of at least -1");
}

TEST(Resolve, JaxVariables_AreRead) {
  Settings settings = resolve({}, environment_of({{"JAX_COORDINATOR_ADDRESS", "10.0.0.1:99"},
                                                  {"JAX_NUM_PROCESSES", "3"},
                                                  {"JAX_PROCESS_ID", "0"}}));
  EXPECT_EQ(settings.place.num_processes, 3);
  EXPECT_EQ(settings.coordinator_bind_address, "[::]:99");
}

TEST(Resolve, InvalidNumbers_AreErrorsThatNameThem) {
  EXPECT_THAT(error_of<InitializationError>([] {
                resolve({}, environment_of({{"LOCKSTEP_NUM_CPU_DEVICES", "many"}}));
              }),
              HasSubstr("LOCKSTEP_NUM_CPU_DEVICES is 'many': expected a whole number from 1 to 1024"));
  EXPECT_THAT(
      error_of<InitializationError>([] { resolve({.max_compiled_programs = 0}, environment_of({})); }),
      HasSubstr("max_compiled_programs is '0': expected a whole number of at least 1"));
  EXPECT_THAT(error_of<InitializationError>([] {
                resolve({.coordinator_address = "a:1", .num_processes = 2, .process_id = 2},
                        environment_of({}));
              }),
              HasSubstr("process_id is 2: with 2 processes it must be 0 to 1"));
  EXPECT_THAT(
      error_of<InitializationError>([] { resolve({.coordinator_address = "a:1"}, environment_of({})); }),
      HasSubstr("got coordinator_address but not num_processes, process_id"));
  EXPECT_THAT(error_of<InitializationError>([] {
                resolve({}, environment_of({{"LOCKSTEP_NUM_PROCESSES", "2"}, {"LOCKSTEP_PROCESS_ID", "0"}}));
              }),
              HasSubstr("LOCKSTEP_COORDINATOR_ADDRESS"));
}

const std::map<std::string, std::string> kStep = {
    {"SLURM_JOB_ID", "17"},        {"SLURM_STEP_ID", "0"},
    {"SLURM_STEP_NUM_TASKS", "4"}, {"SLURM_STEP_NODELIST", "n[1-2]"},
    {"SLURM_PROCID", "0"},         {"SLURM_LOCALID", "0"}};

std::map<std::string, std::string> with(std::map<std::string, std::string> variables,
                                        const std::map<std::string, std::string>& more) {
  for (const auto& [name, value] : more) variables[name] = value;
  return variables;
}

TEST(Resolve, CountsOutOfRange_AreRefused_WithTheVariableAndTheRange) {
  struct Count {
    std::map<std::string, std::string> others;
    std::string variable, range;
    int most;
  };
  const std::vector<Count> counts = {
      {{{"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}, {"LOCKSTEP_PROCESS_ID", "0"}},
       "LOCKSTEP_NUM_PROCESSES",
       "1 to 262144",
       262'144},
      {{{"OMPI_COMM_WORLD_RANK", "0"}, {"LOCKSTEP_COORDINATOR_ADDRESS", "a:1"}},
       "OMPI_COMM_WORLD_SIZE",
       "1 to 262144",
       262'144},
      {{}, "LOCKSTEP_NUM_CPU_DEVICES", "1 to 1024", 1024},
      {{}, "JAX_NUM_CPU_DEVICES", "1 to 1024", 1024},
      {{}, "LOCKSTEP_DATA_CONNECTIONS", "1 to 16", 16},
      {{}, "NPROC", "1 to 8192", 8192},
  };
  for (const Count& count : counts) {
    for (const std::string value :
         {"-5", "0", "x", "1e3", "1000000000", "2000000000", "99999999999999999999",
          std::to_string(count.most + 1).c_str(), std::to_string(count.most).c_str()}) {
      SCOPED_TRACE(count.variable + "=" + value);
      auto variables = count.others;
      variables[count.variable] = value;
      if (value == std::to_string(count.most)) {
        EXPECT_NO_THROW(resolve({}, environment_of(variables)));
        continue;
      }
      const auto error = error_of<InitializationError>([&] { resolve({}, environment_of(variables)); });
      EXPECT_THAT(error, AllOf(HasSubstr(count.variable), HasSubstr(value)));
      if (value == "2000000000") {
        EXPECT_THAT(error, HasSubstr(count.range));
      }
    }
  }
  EXPECT_THAT(error_of<InitializationError>([] { resolve({.num_cpu_devices = 1025}, environment_of({})); }),
              HasSubstr("num_cpu_devices is '1025': expected a whole number from 1 to 1024"));
  EXPECT_EQ(resolve({}, environment_of({{"NPROC", ""}})).threads, std::nullopt);
}

/// A value of the field that is none of `others`, and how a variable says it.
template <class T>
std::pair<T, std::string> another(const Option<int>& option, int others) {
  const int number = (option.otherwise == option.least ? option.least + 1 : option.least) + others;
  return {T(number), std::to_string(number)};
}
template <class T>
std::pair<T, std::string> another(const Option<std::int64_t>& option, int others) {
  const std::int64_t number = option.least + 5 + others;
  return {number, std::to_string(number)};
}
template <class T>
std::pair<T, std::string> another(const Option<double>& option, int others) {
  const double number = option.least + 0.25 + others;
  return {number, fmt::to_string(number)};
}
template <class T>
std::pair<T, std::string> another(const Option<bool>&, int others) {
  return others == 0 ? std::pair(true, "True") : std::pair(false, "off");
}
template <class T>
std::pair<T, std::string> another(const Option<std::string_view>& option, int others) {
  std::string text = option.variable == options::kInterface.variable ? "lo" : "/text";
  if (option.variable == options::kTopology.variable) text = "cpu:2x";
  if (option.variable == options::kClusterDetectionMethod.variable) return {"none", "none"};
  text += others == 0 ? "" : std::to_string(others + 1);
  return {text, text};
}

TEST(Resolve, EveryOption_IsTheArgument_OrOurVariable_OrJaxs_OrTheDefault) {
  int options = 0;
  InitializeOptions none;
  internal::for_each_option(none, [&](auto& field, const auto& option) {
    using T = typename std::decay_t<decltype(field)>::value_type;
    SCOPED_TRACE(option.variable);
    ++options;
    const auto offset = reinterpret_cast<char*>(&field) - reinterpret_cast<char*>(&none);
    const auto in = [&](InitializeOptions& all) -> std::optional<T>& {
      return *reinterpret_cast<std::optional<T>*>(reinterpret_cast<char*>(&all) + offset);
    };
    const auto resolved = [&](const InitializeOptions& given, std::map<std::string, std::string> variables) {
      Settings settings = resolve(given, environment_of(std::move(variables)));
      return in(settings.options);
    };
    const auto [by_variable, text] = another<T>(option, 0);
    const auto [by_argument, argument_text] = another<T>(option, 1);
    const std::vector<std::string> names = cluster::variables_of(option);
    EXPECT_EQ(resolved({}, {}), std::optional<T>(option.otherwise));
    EXPECT_EQ(resolved({}, {{names[0], text}}), by_variable);
    EXPECT_EQ(resolved({}, {{names[1], text}}), by_variable);
    EXPECT_EQ(resolved({}, {{names[0], text}, {names[1], argument_text}}), by_variable);
    InitializeOptions given;
    in(given) = by_argument;
    EXPECT_EQ(resolved(given, {{names[0], text}, {names[1], text}}), by_argument);
    if constexpr (!std::is_same_v<T, std::string>) {
      EXPECT_THAT(error_of<InitializationError>([&] {
                    resolved({}, {{names[1], "perhaps"}});
                  }),
                  HasSubstr(names[1] + " is 'perhaps': expected"));
    }
  });
  EXPECT_GT(options, 20);
}

TEST(Resolve, AddressesNumbersAndDeviceIds_AreReadFromOurAndJaxsVariables) {
  for (const std::string prefix : {"LOCKSTEP_", "JAX_"}) {
    Settings settings = resolve({}, environment_of({{prefix + "COORDINATOR_ADDRESS", "[::1]:7"},
                                                    {prefix + "NUM_PROCESSES", "2"},
                                                    {prefix + "PROCESS_ID", "0"},
                                                    {prefix + "LOCAL_DEVICE_IDS", "1,0"},
                                                    {prefix + "COORDINATOR_BIND_ADDRESS", "0.0.0.0:8"}}));
    EXPECT_EQ(settings.place.coordinator_address, "[::1]:7");
    EXPECT_THAT(*settings.place.local_device_ids, ElementsAre(1, 0));
    EXPECT_EQ(settings.coordinator_bind_address, "0.0.0.0:8");
    EXPECT_TRUE(settings.bind_address_given);
  }
  EXPECT_EQ(resolve({}, environment_of(with(kStep, {{"LOCKSTEP_CLUSTER", "none"}}))).place.num_processes, 1);
  EXPECT_EQ(resolve({}, environment_of(with(kStep, {{"JAX_CLUSTER_DETECTION_METHOD", "deactivate"}})))
                .place.num_processes,
            1);
}

TEST(Resolve, LocalDeviceIds_MayBeOneOrSeveral) {
  auto ids = [](const InitializeOptions& options) {
    return *resolve(options, environment_of({})).place.local_device_ids;
  };
  EXPECT_THAT(ids({.local_device_ids = 2}), ElementsAre(2));
  EXPECT_THAT(ids({.local_device_ids = {{0, 2}}}), ElementsAre(0, 2));
  EXPECT_THAT(ids({.local_device_ids = std::vector<int>{1, 3}}), ElementsAre(1, 3));
}

TEST(Resolve, OmittedArguments_ComeFromTheLauncher) {
  Settings settings = resolve({.coordinator_address = "head:5"}, environment_of(kStep));
  EXPECT_EQ(settings.place.cluster, "slurm");
  EXPECT_EQ(settings.place.coordinator_address, "head:5");
  EXPECT_EQ(settings.place.num_processes, 4);
  EXPECT_EQ(settings.coordinator_bind_address, "[::]:5");
  EXPECT_FALSE(settings.bind_address_given);
}

TEST(Resolve, ArgumentsThatContradictALauncher_AreAnError) {
  EXPECT_THAT(error_of<InitializationError>([] { resolve({.num_processes = 8}, environment_of(kStep)); }),
              AllOf(HasSubstr("[initialize] with num_processes given as arguments: LOCKSTEP_NUM_PROCESSES=8"),
                    HasSubstr("'slurm' says process 0 of 4")));
}

TEST(Resolve, JobOfOneWhereALauncherStartedSeveral_IsAnError) {
  const InitializeOptions alone = {.coordinator_address = "a:1", .num_processes = 1, .process_id = 0};
  EXPECT_THAT(error_of<InitializationError>([&] { resolve(alone, environment_of(kStep)); }),
              AllOf(HasSubstr("num_processes is 1, but SLURM_STEP_NUM_TASKS=4"), HasSubstr("\"none\"")));
  InitializeOptions asked = alone;
  asked.cluster_detection_method = "none";
  EXPECT_EQ(resolve(asked, environment_of(kStep)).place.num_processes, 1);
  EXPECT_EQ(resolve(alone, environment_of({})).place.num_processes, 1);
}

TEST(Resolve, OneProcessAsArgument_IsASingleProcess) {
  Settings settings = resolve({.num_processes = 1}, environment_of({}));
  EXPECT_EQ(settings.place.num_processes, 1);
  EXPECT_EQ(settings.coordinator_bind_address, "");
}

TEST(Resolve, WithArguments_TheJobsIdentityIsStillRead) {
  Settings settings = resolve({.coordinator_address = "a:1", .num_processes = 2, .process_id = 1},
                              environment_of({{"LOCKSTEP_JOB_SECRET", "hush"}, {"LOCKSTEP_JOB_ID", "j"}}));
  EXPECT_EQ(settings.place.job_secret, "hush");
  EXPECT_EQ(settings.place.job_id, "j");
}

/// A host with an address on each of two interfaces.
class TwoInterfaces : public cluster::System {
 public:
  std::optional<std::string> read_file(const std::string&) const override { return std::nullopt; }
  std::vector<std::string> list_folder(const std::string&) const override { return {}; }
  std::optional<std::string> metadata(const std::string&, const std::string&) const override {
    return std::nullopt;
  }
  std::vector<cluster::InterfaceAddress> interface_addresses() const override {
    return {
        {"eth0", "10.0.0.7", 24}, {"ib0", "10.1.0.7", 24}, {"ib0", "fd00::7", 64}, {"ib1", "fd01::7", 64}};
  }
};

TEST(Resolve, Interface_DeterminesWhereTheCoordinatorListens) {
  auto bind = [](const std::string& address, const std::string& interface) {
    return resolve(
               {.coordinator_address = address, .num_processes = 2, .process_id = 0, .interface = interface},
               environment_of({}), TwoInterfaces())
        .coordinator_bind_address;
  };
  EXPECT_EQ(bind("head:5", "ib0"), "10.1.0.7:5");
  EXPECT_EQ(bind("head:5", "ib1"), "[fd01::7]:5");
  EXPECT_EQ(bind("127.0.0.1:5", "ib0"), "127.0.0.1:5");
  EXPECT_THAT(error_of<InitializationError>([&] { bind("head:5", "ib7"); }),
              AllOf(HasSubstr("no network interface 'ib7'"), HasSubstr("eth0 (10.0.0.7), ib0 (10.1.0.7)")));
}

TEST(Resolve, InvalidAddresses_AreAnError) {
  EXPECT_THAT(error_of<InitializationError>([] {
                resolve({.coordinator_address = "head", .num_processes = 2, .process_id = 1},
                        environment_of({}));
              }),
              HasSubstr("head"));
  EXPECT_THAT(error_of<InitializationError>([] {
                resolve({.coordinator_address = "a:1",
                         .num_processes = 2,
                         .process_id = 0,
                         .coordinator_bind_address = "nowhere"},
                        environment_of({}));
              }),
              HasSubstr("nowhere"));
}

TEST(CoordinatorBindAddress, WithoutASecret_IsTheInterfaceOfTheJobsAddress) {
  Settings settings;
  settings.coordinator_bind_address = "[::]:7";
  coordination::ClientOptions client;
  client.address = "192.0.2.1:7";
  EXPECT_EQ(coordinator_bind_address(settings, client), "192.0.2.1:7");
  client.identity.secret = "hush";
  EXPECT_EQ(coordinator_bind_address(settings, client), "[::]:7");
  client.identity.secret.clear();
  client.address = "127.0.0.1:7";  // What a host's own name may lead to on itself.
  EXPECT_EQ(coordinator_bind_address(settings, client), "[::]:7");
  settings.bind_address_given = true;
  client.address = "192.0.2.1:7";
  EXPECT_EQ(coordinator_bind_address(settings, client), "[::]:7");
}

TEST(ChosenDevices, AreAllOrThoseNamedOrOneGpuPerProcess) {
  cluster::Place place;
  EXPECT_THAT(chosen_devices(place, false, 2), ElementsAre(0, 1));
  place.local_process_id = 1;
  EXPECT_THAT(chosen_devices(place, false, 2), ElementsAre(0, 1));
  EXPECT_THAT(chosen_devices(place, true, 4), ElementsAre(1));
  EXPECT_THAT(chosen_devices(place, true, 1), ElementsAre(0));  // the launcher shows it one GPU only
  place.local_device_ids = {{3, 0}};
  EXPECT_THAT(chosen_devices(place, true, 4), ElementsAre(3, 0));
  EXPECT_THAT(error_of<InitializationError>([&] { chosen_devices(place, true, 3); }),
              HasSubstr("local_device_ids names device 3, but process 0 of 1 has 3 (0 to 2)"));
  place.local_device_ids.reset();
  place.local_process_id = 4;
  EXPECT_THAT(error_of<InitializationError>([&] { chosen_devices(place, true, 4); }),
              HasSubstr("its host's process 4"));
}

TEST(Banner, NamesClusterCoordinatorDevicesAndHosts) {
  Settings settings = resolve({}, environment_of(kStep));
  EXPECT_EQ(banner(settings, {true, 2, 8, {"n1", "n2"}}),
            "cluster slurm (SLURM_STEP_ID=0, SLURM_STEP_NUM_TASKS=4, "
            "SLURM_STEP_NODELIST=n[1-2], SLURM_PROCID=0, SLURM_JOB_ID=17, SLURM_LOCALID=0), coordinator "
            "n1:61457 (held by this process), 2 of 8 devices here, on 2 hosts: n1, n2");
  EXPECT_EQ(banner(resolve({}, environment_of({})), {false, 1, 1, {"n1"}}),
            "process 0 of 1, cluster single (no variable of a launcher or a cluster is set), 1 of 1 device "
            "here, on host n1");
  EXPECT_THAT(banner(settings, {false, 1, 6, {"a", "b", "c", "d", "e", "f"}}),
              HasSubstr("on 6 hosts: a, b, c, d, ..."));
}

}  // namespace
}  // namespace lockstep::runtime
