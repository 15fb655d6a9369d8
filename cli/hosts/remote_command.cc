// SPDX-License-Identifier: Apache-2.0
#include "cli/hosts/remote_command.h"

#include <filesystem>

#include "lockstep/base/fail.h"

namespace lockstep::cli {

std::vector<std::string> split_words(const std::string& text) {
  std::vector<std::string> words;
  bool in_word = false;
  char quote = '\0';
  for (const char letter : text) {
    if (quote != '\0') {
      if (letter == quote) {
        quote = '\0';
      } else {
        words.back() += letter;
      }
      continue;
    }
    if (letter == ' ' || letter == '\t') {
      in_word = false;
      continue;
    }
    if (!in_word) words.emplace_back();
    in_word = true;
    if (letter == '\'' || letter == '"') {
      quote = letter;
    } else {
      words.back() += letter;
    }
  }
  if (quote != '\0') fail("a quote is not closed in '{}'", text);
  if (words.empty()) fail("the command is empty");
  return words;
}

std::string shell_quoted(const std::string& word) {
  std::string quoted = "'";
  for (const char letter : word) quoted += letter == '\'' ? "'\\''" : std::string(1, letter);
  return quoted + "'";
}

std::vector<std::string> rsh_command(const std::vector<std::string>& rsh, const std::string& host,
                                     const std::string& tool, const std::string& role) {
  std::vector<std::string> command = rsh;
  if (std::filesystem::path(rsh.front()).filename() == "ssh") {
    // No question, no terminal, no X; a new connection's end is ours; a host that is cut off is noticed.
    for (const char* word :
         {"-T", "-x", "-o", "BatchMode=yes", "-o", "ConnectTimeout=20", "-o", "ControlMaster=no", "-o",
          "ServerAliveInterval=10", "-o", "ServerAliveCountMax=6"}) {
      command.emplace_back(word);
    }
    command.emplace_back("--");
  }
  command.push_back(host);
  command.push_back("exec " + shell_quoted(tool) + " " + role);
  return command;
}

std::vector<std::string> srun_command(const std::string& node, const std::string& tool,
                                      const std::string& role) {
  return {"srun",      "--nodes=1",       "--ntasks=1", "--nodelist=" + node,
          "--overlap", "--cpu-bind=none", tool,         role};
}

}  // namespace lockstep::cli
