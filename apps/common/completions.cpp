#include "common/completions.h"

#include <algorithm>
#include <array>
#include <set>

#include "am/base/home.h"
#include "am/base/json.h"
#include "am/base/text.h"
#include "am/config/field.h"
#include "am/model/inventory.h"
#include "am/rules/check.h"
#include "common/known_names.h"
#include "common/output.h"
#include "common/output_guard.h"

namespace am_apps {
namespace {

// ---- scripts ------------------------------------------------------------------------------------

// Completion scripts for a tool named am-tool. completions() replaces am-tool by the real name.
constexpr std::string_view kBash = R"(# Completions of am-tool for bash.

_am_tool() {
  local words=() glue= word current start= answer breaks=${COMP_WORDBREAKS//[^=:]/}
  # bash splits words at "=" and ":", so the parts of a word are joined again.
  for word in "${COMP_WORDS[@]:1:COMP_CWORD}"; do
    if [[ $word =~ ^[=:]+$ || $glue ]] && ((${#words[@]})); then
      words[-1]+=$word
    else
      words+=("$word")
    fi
    [[ $word =~ ^[=:]+$ ]] && glue=1 || glue=
  done
  words=("${words[@]//[\'\"\\]/}")
  current=${words[-1]}
  # The part of the word that a completion does not replace.
  if [[ $breaks && ${COMP_WORDS[COMP_CWORD]} != [\'\"]* ]]; then
    start=${current%"${current##*[$breaks]}"}
  fi
  mapfile -t answer < <("${COMP_WORDS[0]/#\~/$HOME}" --complete "${words[@]}" 2>/dev/null)
  COMPREPLY=()
  for word in "${answer[@]:1}"; do
    word=${word%%$'\t'*}
    COMPREPLY+=("${word#"$start"}")
  done
  if [[ ${answer[0]} == files ]]; then
    mapfile -t -O ${#COMPREPLY[@]} COMPREPLY < <(compgen -f -- "${current#"$start"}")
    compopt -o filenames 2>/dev/null
  elif [[ ${COMPREPLY[0]} == *[=./] ]]; then
    compopt -o nospace 2>/dev/null
  fi
}
complete -F _am_tool am-tool
)";

// A user can source this script, or save it as a file _am-tool in a folder of fpath. In the second
// case, zsh loads the file as the body of the function _am-tool. The last lines of the script
// distinguish the two cases.
constexpr std::string_view kZsh = R"(#compdef am-tool
# Completions of am-tool for zsh.

_am-tool() {
  local line word found=1
  local -a answer closed open
  line=$(${~${(Q)words[1]}} --complete "${(@Q)words[2,CURRENT-1]}" "${(Q)PREFIX}" 2>/dev/null)
  answer=("${(@f)line}")
  for line in "${(@)answer[2,-1]}"; do
    word=${line%%$'\t'*}
    line=${word//:/\\:}:${line#*$'\t'}
    if [[ $word == *[=./] ]]; then
      open+=("$line")
    else
      closed+=("$line")
    fi
  done
  _describe -t words word closed -- open -S '' && found=0
  if [[ $answer[1] == files ]]; then
    [[ $PREFIX == -*=* ]] && compset -P '*='
    _files && found=0
  fi
  return found
}

if [[ $funcstack[1] == _am-tool ]]; then
  _am-tool "$@"
else
  compdef _am-tool am-tool
fi
)";

constexpr std::string_view kFish = R"(# Completions of am-tool for fish.

function __am_tool
    set -l words (commandline -opc)
    set -l current (string trim -l -c '\'"' -- (commandline -ct))
    set -l tool (string replace -r '^~' $HOME -- $words[1])
    set -l answer ($tool --complete $words[2..-1] "$current" 2>/dev/null)
    printf '%s\n' $answer[2..-1]
    if test "$answer[1]" = files
        set -l start (string match -r -- '^-[^=]*=' $current)
        for path in (__fish_complete_path (string replace -- "$start" '' "$current"))
            printf '%s\n' "$start$path"
        end
    end
end

complete -c am-tool -f -a '(__am_tool)'
)";

struct Shell {
  std::string_view name;
  std::string_view script;
};
constexpr std::array<Shell, 3> kShells = {{{"bash", kBash}, {"zsh", kZsh}, {"fish", kFish}}};

std::string replaced(std::string text, std::string_view old, std::string_view now) {
  for (size_t at = text.find(old); at != std::string::npos; at = text.find(old, at + now.size())) {
    text.replace(at, old.size(), now);
  }
  return text;
}

std::vector<std::string> shell_names() {
  std::vector<std::string> names;
  for (const Shell& shell : kShells) names.emplace_back(shell.name);
  return names;
}

// ---- values -------------------------------------------------------------------------------------

// Adds the values that a JSON Schema enumerates, each with the prefix `start`.
void add_values(const am::Json& schema, const std::string& start, Words& out) {
  if (schema.contains("type") && schema["type"] == "boolean") {
    for (const char* value : {"true", "false"}) out.add(start + value);
  }
  for (const am::Json& value : schema.value("enum", am::Json::array())) {
    out.add(start + (value.is_string() ? value.get<std::string>() : value.dump()));
  }
  for (const am::Json& each : schema.value("anyOf", am::Json::array())) {
    add_values(each, start, out);
  }
}

// Adds the known names of a key of the plan, each with the prefix `start`.
void add_known(std::string_view key, const std::string& start, Words& out) {
  for (const KnownName& known : known_names(key)) out.add(start + known.name, known.help);
}

// Adds the keys of a plan, each followed by "=". If `typed` already contains "=", adds the values
// of the key before the "=" instead.
void add_settings(const std::string& typed, Words& out) {
  const size_t equals = typed.find('=');
  for (const am::config::FieldSpec& field : am::config::fields()) {
    const std::string start = field.name() + "=";
    if (equals == std::string::npos) {
      out.add(start, field.help);
    } else if (typed.substr(0, equals + 1) == start) {
      add_values(field.schema, start, out);
      add_known(field.name(), start, out);
    }
  }
}

Words values_of(const Asked& asked, const CommandDescription& tool, const ValueSource& values) {
  const OptionDescription& option = asked.option;
  Words out = values(asked);
  out.files = out.files || option.is_file;
  for (const std::string& value : option.values) out.add(value);
  if (option.value == kSetting) add_settings(asked.typed, out);
  if (option.names.back() == "--gpu") {
    add_known("cluster.gpu", {}, out);
    out.files = true;
  }
  if (option.names.back() == "--implementation") add_known("cluster.implementation", {}, out);
  if (option.value == kCommandName) {
    for (const CommandDescription& command : tool.commands) out.add(command.name, command.help);
  }
  return out;
}

// ---- the word that is completed -----------------------------------------------------------------

// The words of a command line before the word that is being completed.
class Line {
 public:
  Line(const CommandDescription& tool, const std::vector<std::string>& words)
      : tool_(tool), command_(&tool) {
    for (const std::string& word : words) read(word);
  }

  // Returns the words that may replace `word`, the word after this line, in any order.
  Words next(const std::string& word, const ValueSource& values) const {
    const OptionDescription* option = waiting_;
    std::string start;  // text of the word before the option's value
    Words out;
    if (option == nullptr && am::starts_with(word, "-")) {
      const size_t end = word.find('=') + 1;
      if (end == 0) {
        for_each_option([&](const OptionDescription& each) {
          for (const std::string& name : each.names) out.add(name, each.help);
        });
        return out;
      }
      start = word.substr(0, end);
      option = find(word.substr(0, end - 1));
      if (option == nullptr) return out;
    } else if (option == nullptr) {
      option = argument();
      if (may_be_command()) {
        for (const CommandDescription& each : tool_.commands) out.add(each.name, each.help);
      }
    }
    if (option == nullptr) return out;
    const std::string typed = word.substr(start.size());
    const Words found = values_of({*option, typed, arguments_}, tool_, values);
    out.files = found.files;
    if (out.files && typed.find('/') != std::string::npos) return out;  // only paths have a slash
    for (const auto& [value, help] : found.list) out.add(start + value, help);
    return out;
  }

 private:
  void read(const std::string& word) {
    if (waiting_ != nullptr) {
      if (!am::ends_with(waiting_->value, kRest)) waiting_ = nullptr;
    } else if (word.size() > 1 && word[0] == '-') {
      waiting_ = find(word);
      if (waiting_ != nullptr && waiting_->value.empty()) waiting_ = nullptr;
    } else if (const auto* named = may_be_command() ? find_command(word) : nullptr) {
      command_ = named;
    } else {
      arguments_.push_back(word);
    }
  }

  bool may_be_command() const { return command_ == &tool_ && arguments_.empty(); }

  const CommandDescription* find_command(const std::string& name) const {
    for (const CommandDescription& each : tool_.commands) {
      if (each.name == name) return &each;
    }
    return nullptr;
  }

  // Calls `visit` for each option that the next word may name.
  template <typename Visit>
  void for_each_option(const Visit& visit) const {
    for (const CommandDescription* each : {command_, &tool_}) {
      if (each != command_ && !tool_.common_options) continue;
      for (const OptionDescription& option : each->options) {
        if (!option.is_argument) visit(option);
      }
    }
  }

  const OptionDescription* find(const std::string& name) const {
    const OptionDescription* found = nullptr;
    for_each_option([&](const OptionDescription& option) {
      if (std::find(option.names.begin(), option.names.end(), name) != option.names.end()) {
        found = &option;
      }
    });
    return found;
  }

  // Returns the description of the next argument; null if the command accepts no further argument.
  const OptionDescription* argument() const {
    size_t before = arguments_.size();
    for (const OptionDescription& option : command_->options) {
      if (!option.is_argument) continue;
      if (before == 0 || option.is_repeatable) return &option;
      --before;
    }
    return nullptr;
  }

  const CommandDescription& tool_;
  const CommandDescription* command_;           // the tool itself until a command is named
  const OptionDescription* waiting_ = nullptr;  // option whose value is the next word
  std::vector<std::string> arguments_;
};

// Characters that no shell interprets inside double quotes.
constexpr std::string_view kPlainCharacters =
    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./:=,*?@%+-[]{}<>|# ";

// Returns the lines that answer_shell() prints.
std::string answer(const CommandDescription& tool, std::vector<std::string> words,
                   const ValueSource& values) {
  const std::string word = words.empty() ? std::string() : words.back();
  if (!words.empty()) words.pop_back();
  const Words found = Line(tool, words).next(word, values);
  std::string text = found.files ? "files\n" : "words\n";
  std::set<std::string_view> known;
  for (const auto& [each, help] : found.list) {
    // A word with other characters is left out: the shell could run a part of it as a command.
    if (each.find_first_not_of(kPlainCharacters) != std::string::npos) continue;
    if (am::starts_with(each, word) && known.insert(each).second) {
      text += am::cat(each, "\t", replaced(help, "\n", " "), "\n");
    }
  }
  return text;
}

}  // namespace

void Words::add(std::string word, std::string help) {
  list.emplace_back(std::move(word), std::move(help));
}

void add_shell(CLI::App& app, std::string& shell) {
  app.add_option("SHELL", shell, "Which shell")
      ->required()
      ->check(CLI::IsMember(shell_names()))
      ->type_name("SHELL");
}

void add_completions(CLI::App& app) {
  app.add_option_function<std::string>(
         "--completions",
         [&app](const std::string& shell) {
           throw CLI::CallForVersion(completions(app.get_name(), shell), 0);
         },
         "Print completions for a shell")
      ->check(CLI::IsMember(shell_names()))
      ->type_name("SHELL");
}

std::string completions(const std::string& tool, std::string_view shell) {
  const auto found = std::find_if(kShells.begin(), kShells.end(),
                                  [&](const Shell& each) { return each.name == shell; });
  return replaced(replaced(std::string(found->script), "am-tool", tool), "am_tool",
                  replaced(tool, "-", "_"));
}

std::optional<int> answer_shell(int argc, char** argv,
                                const std::function<CommandDescription()>& tool,
                                const ValueSource& values) {
  if (argc < 2 || std::string_view(argv[1]) != "--complete") return std::nullopt;
  guard_output();
  try {
    print(answer(tool(), std::vector<std::string>(argv + 2, argv + argc), values));
  } catch (const std::exception&) {
    return kUnusable;  // a file of the command line cannot be read, and a shell shows no message
  }
  return kFine;
}

std::vector<std::string> parameter_names(const std::string& file) {
  am::Diagnostics ignored;
  std::vector<std::string> names;
  const auto plan = am::config::load_draft(am::expand_home(file), {}, ignored);
  if (!plan) return names;
  const auto model = am::rules::load_model(*plan, ignored);
  if (!model) return names;
  for (auto& each : am::model::build_inventory(*model).parameters) {
    names.push_back(std::move(each.name));
  }
  return names;
}

}  // namespace am_apps
