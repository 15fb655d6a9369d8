// SPDX-License-Identifier: Apache-2.0
#include "lockstep/pjrt/plugin.h"

#include <dlfcn.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>

#include "lockstep/pjrt/test_client.h"
#include "lockstep/testing/other_users.h"
#include "lockstep/testing/processes.h"
#include "lockstep/testing/temporary_folder.h"

namespace lockstep::pjrt {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;

MapEnvironment environment(const std::string& plugin) {
  return MapEnvironment(std::map<std::string, std::string>{{"LOCKSTEP_PJRT_PLUGIN", plugin}});
}

TEST(PluginLoad, MissingFile_SaysWhereAndWhatToDo) {
  EXPECT_THAT(error_of([] { Plugin::load("/nowhere/plugin.so"); }),
              AllOf(HasSubstr("no plugin at /nowhere/plugin.so"), HasSubstr("scripts/setup"),
                    HasSubstr("LOCKSTEP_PJRT_PLUGIN")));
}

TEST(PluginLoad, TextFile_IsRefusedAsNoSharedLibrary) {
  const std::string path = ::testing::TempDir() + "/lockstep_not_a_library.so";
  std::ofstream(path) << "this is a text\n";
  EXPECT_THAT(error_of([&] { Plugin::load(path); }),
              AllOf(HasSubstr(path + " cannot be opened as a shared library")));
  std::filesystem::remove(path);
}

TEST(PluginLoad, AnotherSharedLibrary_IsRefusedAsNoPlugin) {
  Dl_info libc;
  ASSERT_NE(dladdr(reinterpret_cast<void*>(&dlsym), &libc), 0);
  EXPECT_THAT(error_of([&] { Plugin::load(libc.dli_fname); }),
              AllOf(HasSubstr(libc.dli_fname), HasSubstr("not a PJRT plugin"), HasSubstr("GetPjrtApi")));
}

TEST(PluginLoad, AnotherMajorVersion_IsRefused) {
  EXPECT_THAT(error_of([] { Plugin::load(PLUGIN_OF_ANOTHER_MAJOR_VERSION); }),
              AllOf(HasSubstr("speaks PJRT API 99.1"), HasSubstr("built for major version 0")));
}

TEST(PluginLoad, TableOfFunctionsTooShort_IsRefused) {
  EXPECT_THAT(error_of([] { Plugin::load(PLUGIN_WITH_A_SHORT_TABLE); }),
              AllOf(HasSubstr("too old"), HasSubstr("has 200 bytes")));
}

TEST(PluginLoad, OnlyATrustedFile_IsOpened_OthersAreRefusedWithTheReason) {
  testing::for_given_files("plugin.so", "text", [](const testing::GivenFile& given, const fs::path& path) {
    const std::string words = given.words == "good"      ? "cannot be opened as a shared library"
                              : given.words == "missing" ? "there is no plugin at"
                                                         : given.words;
    EXPECT_THAT(error_of([&] { Plugin::load(path); }), HasSubstr(words));
  });
}

TEST(PluginLoad, SparseTebibyte_IsRefusedAsNoSharedLibrary) {
  const testing::TemporaryFolder folder;
  const fs::path path = folder.path() / "plugin.so";
  fs::copy_file(PLUGIN_WITH_A_SHORT_TABLE, path);
  std::ofstream(path) << std::string(64, '\0');
  fs::resize_file(path, std::uintmax_t{1} << 40);
  EXPECT_THAT(error_of([&] { Plugin::load(path); }), HasSubstr("cannot be opened as a shared library"));
}

TEST(PluginLoad, TheSamePathTwice_GivesTheSamePlugin) {
  const std::string path = find_plugin();
  EXPECT_EQ(Plugin::load(path), Plugin::load(path));
  EXPECT_EQ(Plugin::load(path)->path(), path);
}

TEST(Plugin, ReportsItsVersionAndAttributes) {
  auto plugin = Plugin::load(find_plugin());
  EXPECT_EQ(plugin->api_version().first, 0);
  EXPECT_GT(plugin->api_version().second, 0);
  std::vector<std::string> names;
  for (const auto& [name, value] : plugin->attributes()) {
    names.push_back(name);
    EXPECT_FALSE(value.empty()) << name;
  }
  EXPECT_THAT(names, ::testing::Contains("stablehlo_current_version"));
}

TEST(Plugin, AnExtensionItDoesNotHave_IsNull) {
  EXPECT_EQ(Plugin::load(find_plugin())->extension(9999), nullptr);
}

TEST(FindPlugin, TheEnvironmentVariable_Wins) {
  EXPECT_EQ(find_plugin(environment("/my/plugin.so")), "/my/plugin.so");
}

TEST(FindPlugin, AnEmptyVariable_IsIgnored) {
  const std::string there = PLUGIN_WITH_A_SHORT_TABLE;
  EXPECT_EQ(find_plugin(environment(""), {"/nowhere/plugin.so", there}), there);
}

TEST(FindPlugin, AnUntrustedFile_IsSkippedWithAWarning) {
  const testing::TemporaryFolder folder;
  fs::permissions(folder.path(), fs::perms(0755));
  const std::string other = folder.path() / "other.so";
  std::ofstream(other) << "text";
  testing::for_given_files("plugin.so", "text", [&](const testing::GivenFile& given, const fs::path& path) {
    const bool good = given.words == "good", missing = given.words == "missing";
    ::testing::internal::CaptureStderr();
    EXPECT_EQ(find_plugin(environment(""), {path, other}), good ? path.string() : other);
    const std::string log = ::testing::internal::GetCapturedStderr();
    if (good || missing) {
      EXPECT_EQ(log, "");
      return;
    }
    EXPECT_THAT(log, AllOf(HasSubstr("[pjrt] " + path.string() + " is not used: "), HasSubstr(given.words)));
    EXPECT_THAT(error_of([&] { find_plugin(environment(""), {path}); }),
                AllOf(HasSubstr("no CPU plugin found"), HasSubstr(given.words)));
  });
}

TEST(FindPlugin, NotFound_IsAnErrorThatListsThePlaces) {
  EXPECT_THAT(error_of([] {
                find_plugin(environment(""), {"/a/plugin.so", "/b/plugin.so"});
              }),
              AllOf(HasSubstr("no CPU plugin"), HasSubstr("scripts/setup,"), HasSubstr("/a/plugin.so"),
                    HasSubstr("/b/plugin.so")));
  EXPECT_THAT(error_of([] { find_plugin(environment(""), {"/a/plugin.so"}, "cuda"); }),
              AllOf(HasSubstr("no CUDA plugin"), HasSubstr("scripts/setup --cuda,")));
}

TEST(DefaultPluginPaths, EndWithThePlatformsFile) {
  EXPECT_THAT(default_plugin_paths("cpu"), ::testing::Each(HasSubstr("pjrt_c_api_cpu_plugin.so")));
  EXPECT_THAT(default_plugin_paths("cuda"), ::testing::Each(HasSubstr("xla_cuda_plugin.so")));
  EXPECT_THAT(default_plugin_paths("tpu"), ::testing::Each(HasSubstr("libtpu.so")));
}

LOCKSTEP_CHILD(prints_where_it_looks) {
  for (const std::string& path : default_plugin_paths("cpu")) std::printf("looks at %s\n", path.c_str());
}

TEST(DefaultPluginPaths, AreNotInFoldersAboveTheProgram) {
  const testing::TemporaryFolder folder;
  const fs::path bin = folder.path() / "scratch" / "own" / "bin";
  fs::create_directories(bin);
  fs::copy_file("/proc/self/exe", bin / "program");
  for (fs::path above = bin; above != folder.path(); above = above.parent_path()) {
    for (const char* place : {".", "lib/lockstep", "third_party/pjrt"}) {
      fs::create_directories(above / place);
      std::ofstream(above / place / "pjrt_c_api_cpu_plugin.so") << "planted";
    }
  }
  std::vector<std::string> command = testing::command_of_child("prints_where_it_looks");
  command.back() = bin / "program";
  const std::string text =
      testing::run_processes({.program = command[0], .arguments = {command.begin() + 1, command.end()}})[0]
          .log;
  EXPECT_THAT(text,
              AllOf(HasSubstr("looks at "), ::testing::Not(HasSubstr("looks at " + folder.path().string())),
                    ::testing::Not(HasSubstr("looks at pjrt")), ::testing::Not(HasSubstr("looks at ."))));
}

}  // namespace
}  // namespace lockstep::pjrt
