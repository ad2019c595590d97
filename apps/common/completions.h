// Completes a tool's command line in bash, zsh and fish. The script of a shell calls the tool to
// obtain the words: `am-plan --complete check p` prints the words that may replace the last word,
// "p".
//
//   source <(am-plan completions bash)
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/description.h"

namespace am_apps {

// Words that may replace a word of a command line.
struct Words {
  std::vector<std::pair<std::string, std::string>> list;  // words, each with its help or ""
  bool files = false;                                     // whether a path is possible, too

  void add(std::string word, std::string help = {});
};

// An option's value, or an argument, that is being completed.
struct Asked {
  const OptionDescription& option;
  std::string typed;                   // the value so far
  std::vector<std::string> arguments;  // positional arguments before the value
};

// A function that returns the values that an option may have besides those in its description. The
// values need not begin with what was typed.
using ValueSource = std::function<Words(const Asked&)>;

// Adds the argument SHELL: "bash", "zsh" or "fish".
void add_shell(CLI::App& app, std::string& shell);
// Adds `--completions SHELL`, which prints the result of completions(), to a tool without commands.
void add_completions(CLI::App& app);

// Returns the script with which the shell completes the tool's command line.
std::string completions(const std::string& tool, std::string_view shell);

// Answers the command line `TOOL --complete WORD ..` on stdout. The first line is "files" if a path
// may replace the last WORD, otherwise "words". Each further line contains a word that may replace
// the last WORD, a tab and the word's help. Returns the exit status, or nothing for any other
// command line.
std::optional<int> answer_shell(int argc, char** argv,
                                const std::function<CommandDescription()>& tool,
                                const ValueSource& values);

// Returns the names of the parameters of a plan's model. `plan` is the path of the plan file.
// Returns an empty list if the plan or the model's config cannot be read.
std::vector<std::string> parameter_names(const std::string& plan);

}  // namespace am_apps
