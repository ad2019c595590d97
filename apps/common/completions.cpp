#include "common/completions.h"

#include <algorithm>
#include <array>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am_apps {
namespace {

constexpr std::array<std::string_view, 3> kShells = {"bash", "zsh", "fish"};

// Returns the tool's name as a valid part of a shell function's name, for example "am_plan".
std::string identifier(std::string name) {
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

// Returns the text, which must be one line, in single quotes for a shell.
std::string quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c == '\n' ? ' ' : c;
    }
  }
  return out + "'";
}

std::vector<std::string> flags_of(const CommandDescription& command) {
  std::vector<std::string> names;
  for (const OptionDescription& option : command.options) {
    if (!option.is_argument) names.insert(names.end(), option.names.begin(), option.names.end());
  }
  return names;
}

std::vector<std::string> names_of(const std::vector<CommandDescription>& commands) {
  std::vector<std::string> names;
  for (const CommandDescription& command : commands) names.push_back(command.name);
  return names;
}

// Returns the legal values of the command's argument, or an empty list if any value is legal.
std::vector<std::string> argument_values(const CommandDescription& command) {
  for (const OptionDescription& option : command.options) {
    if (option.is_argument && !option.values.empty()) return option.values;
  }
  return {};
}

bool takes_files(const CommandDescription& command) {
  return std::any_of(
      command.options.begin(), command.options.end(),
      [](const OptionDescription& option) { return option.is_argument && option.is_file; });
}

// ---- bash -------------------------------------------------------------------

// Returns the branches of a `case` statement that completes the values of the command's options.
std::string bash_values(const CommandDescription& command, const std::string& indent) {
  std::string out;
  for (const OptionDescription& option : command.options) {
    if (option.is_argument || option.value.empty()) continue;
    std::string reply = "COMPREPLY=()";
    if (!option.values.empty()) {
      reply =
          am::cat("COMPREPLY=($(compgen -W '", am::join(option.values, " "), "' -- \"$current\"))");
    } else if (option.is_file) {
      reply = "COMPREPLY=($(compgen -f -- \"$current\"))";
    }
    out += am::cat(indent, am::join(option.names, "|"), ") ", reply, "; return;;\n");
  }
  return out;
}

std::string bash_command(const CommandDescription& command, const CommandDescription& tool) {
  std::vector<std::string> flags = flags_of(command);
  const std::vector<std::string> common = flags_of(tool);
  flags.insert(flags.end(), common.begin(), common.end());
  std::string out = am::cat("    ", command.name, ")\n      case \"$previous\" in\n",
                            bash_values(command, "        "), "      esac\n");
  out += am::cat("      words='", am::join(flags, " "), "'\n");
  const auto values = argument_values(command);
  if (!values.empty()) out += am::cat("      arguments='", am::join(values, " "), "'\n");
  if (takes_files(command)) out += "      files=1\n";
  return out + "      ;;\n";
}

std::string bash(const CommandDescription& tool) {
  const std::string function = "_" + identifier(tool.name);
  std::string commands;
  for (const CommandDescription& command : tool.commands) commands += bash_command(command, tool);
  return am::cat("# Completions of ", tool.name, " for bash.\n\n", function, "() {\n",
                 "  local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]}\n",
                 "  local command= words= arguments= files= word\n",
                 "  for word in \"${COMP_WORDS[@]:1:COMP_CWORD-1}\"; do\n",
                 "    case $word in\n      ", am::join(names_of(tool.commands), "|"),
                 ") command=$word; break;;\n    esac\n  done\n", "  case \"$previous\" in\n",
                 bash_values(tool, "    "), "  esac\n", "  case \"$command\" in\n", commands,
                 "    *) words='", am::join(flags_of(tool), " "), "'; arguments='",
                 am::join(names_of(tool.commands), " "), "';;\n  esac\n",
                 "  if [[ $current == -* ]]; then\n",
                 "    COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n",
                 "  elif [[ $files ]]; then\n    COMPREPLY=($(compgen -f -- \"$current\"))\n",
                 "  else\n    COMPREPLY=($(compgen -W \"$arguments\" -- \"$current\"))\n  fi\n}\n",
                 "complete -o filenames -F ", function, " ", tool.name, "\n");
}

// ---- zsh --------------------------------------------------------------------

// Returns the text escaped for the description in brackets of a zsh option specification.
std::string bracketed(const std::string& text) {
  std::string out;
  for (const char c : text) {
    if (c == '[' || c == ']' || c == ':') out += '\\';
    out += c;
  }
  return out;
}

std::string zsh_action(const OptionDescription& option) {
  if (!option.values.empty()) return am::cat("(", am::join(option.values, " "), ")");
  return option.is_file ? "_files" : " ";
}

std::string zsh_option(const OptionDescription& option) {
  std::string out;
  if (option.is_argument) {
    return am::cat("    ",
                   quoted(am::cat(option.is_repeatable ? "*" : "", ":",
                                  bracketed(option.names.front()), ":", zsh_action(option))),
                   " \\\n");
  }
  for (const std::string& name : option.names) {
    std::string text =
        am::cat(option.is_repeatable ? "*" : "", name, "[", bracketed(option.help), "]");
    if (!option.value.empty()) {
      text += am::cat(":", bracketed(option.value), ":", zsh_action(option));
    }
    out += am::cat("    ", quoted(text), " \\\n");
  }
  return out;
}

std::string zsh_options(const CommandDescription& command, bool arguments) {
  std::string out;
  for (const OptionDescription& option : command.options) {
    if (arguments || !option.is_argument) out += zsh_option(option);
  }
  return out;
}

std::string zsh(const CommandDescription& tool) {
  const std::string function = "_" + identifier(tool.name);
  std::string commands;
  std::string cases;
  for (const CommandDescription& command : tool.commands) {
    commands += am::cat("    ", quoted(am::cat(command.name, ":", command.help)), "\n");
    cases += am::cat("  ", command.name, ")\n    _arguments \\\n", zsh_options(command, true),
                     zsh_options(tool, false), "    && return\n    ;;\n");
  }
  return am::cat("#compdef ", tool.name, "\n# Completions of ", tool.name, " for zsh.\n\n",
                 function, "() {\n  local state line\n  local -a commands\n  commands=(\n",
                 commands, "  )\n  _arguments -C \\\n", zsh_options(tool, false),
                 "    '1: :->command' '*:: :->arguments' && return\n",
                 "  if [[ $state == command ]]; then\n    _describe command commands\n    return\n",
                 "  fi\n  case $line[1] in\n", cases, "  esac\n}\n\n",
                 "if [[ $funcstack[1] == ", function, " ]]; then\n  ", function,
                 " \"$@\"\nelse\n  compdef ", function, " ", tool.name, "\nfi\n");
}

// ---- fish -------------------------------------------------------------------

std::string fish_option(const std::string& tool, const std::string& condition,
                        const OptionDescription& option) {
  std::string out = am::cat("complete -c ", tool, condition);
  if (!option.is_argument) {
    for (const std::string& name : option.names) {
      out += am::starts_with(name, "--") ? am::cat(" -l ", name.substr(2))
                                         : am::cat(" -s ", name.substr(1));
    }
    out += " -d " + quoted(option.help);
    if (!option.value.empty()) out += option.is_file ? " -r -F" : " -x";
  } else if (option.is_file) {
    out += " -F";
  }
  if (!option.values.empty()) out += " -a " + quoted(am::join(option.values, " "));
  return out + "\n";
}

std::string fish(const CommandDescription& tool) {
  std::string out =
      am::cat("# Completions of ", tool.name, " for fish.\n\ncomplete -c ", tool.name, " -f\n");
  for (const OptionDescription& option : tool.options) {
    out += fish_option(tool.name, "", option);
  }
  for (const CommandDescription& command : tool.commands) {
    out += am::cat("\ncomplete -c ", tool.name, " -n __fish_use_subcommand -a ", command.name,
                   " -d ", quoted(command.help), "\n");
    const std::string condition = am::cat(" -n '__fish_seen_subcommand_from ", command.name, "'");
    for (const OptionDescription& option : command.options) {
      if (option.is_argument && !option.is_file && option.values.empty()) continue;
      out += fish_option(tool.name, condition, option);
    }
  }
  return out;
}

}  // namespace

std::span<const std::string_view> shell_names() { return kShells; }

std::string completions(const CommandDescription& tool, std::string_view shell) {
  if (shell == "bash") return bash(tool);
  if (shell == "zsh") return zsh(tool);
  AM_ASSERT(shell == "fish", am::cat("no completions for ", shell));
  return fish(tool);
}

}  // namespace am_apps
