// SPDX-License-Identifier: Apache-2.0
#include "examples/support/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>
#include <filesystem>

struct CommandLine::Impl {
  CLI::App app;

  template <class T>
  CLI::Option* add(const std::string& name, T& value, const std::string& description) {
    return app.add_option(name, value, description)->capture_default_str();
  }
};

CommandLine::CommandLine(std::string description) : impl_(new Impl{CLI::App(std::move(description))}) {}
CommandLine::~CommandLine() = default;

void CommandLine::option(const std::string& name, std::string& value, const std::string& description) {
  impl_->add(name, value, description);
}
void CommandLine::option(const std::string& name, int& value, const std::string& description) {
  impl_->add(name, value, description);
}
void CommandLine::option(const std::string& name, std::int64_t& value, const std::string& description) {
  impl_->add(name, value, description);
}
void CommandLine::option(const std::string& name, double& value, const std::string& description) {
  impl_->add(name, value, description);
}

void CommandLine::option(const std::string& name, std::string& value, const std::vector<std::string>& allowed,
                         const std::string& description) {
  impl_->add(name, value, description)->check(CLI::IsMember(allowed));
}

void CommandLine::flag(const std::string& name, bool& value, const std::string& description) {
  impl_->app.add_flag(name, value, description);
}

int CommandLine::run_erased(int argc, char** argv, void (*call)(void* body), void* body) {
  try {
    impl_->app.parse(argc, argv);
    call(body);
  } catch (const CLI::ParseError& error) {
    return impl_->app.exit(error);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", std::filesystem::path(argv[0]).filename().c_str(), error.what());
    return 1;
  }
  return 0;
}
