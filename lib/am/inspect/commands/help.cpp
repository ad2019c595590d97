#include "am/base/text.h"
#include "am/inspect/answers.h"
#include "am/inspect/commands/table.h"
#include "am/term/table.h"
#include "am/term/wrap.h"

namespace am::inspect {
namespace {

// Returns a table of two columns, names and summaries. On a narrow screen, summaries are wrapped
// within their column.
std::string draw_list(const std::vector<std::pair<std::string, std::string>>& lines,
                      const term::Style& style) {
  term::Table table({{""}, {"", term::Align::kWrap}});
  for (const auto& [name, summary] : lines) table.add({name, summary});
  return table.text(style);
}

// The groups of `help`, with the names of their commands. `help GROUP` lists one group.
struct Group {
  std::string_view name;
  std::string_view title;
  std::string_view commands;
};

constexpr Group kGroups[] = {
    {"look", "contents of the target", "info mesh ls tree show where print tokens memory"},
    {"values", "statistics and pictures of tensors",
     "stats norms calc top hist heat plot nan dead optim grad"},
    {"model", "run and train the model", "loss logprob generate acts attention experts step"},
    {"checks", "checks and comparisons", "verify checksum diff same drift fits"},
    {"shards", "full tensors and files", "unshard reshard export"},
    {"runs", "curves of runs", "metrics compare"},
    {"live", "running jobs",
     "dashboard status ranks stragglers collectives stack pause continue break watch tripwire save "
     "detach"},
    {"pipe", "filters after a pipe", "sort head tail grep where select count"},
    {"session", "the session", "set let mode output source report help quit"},
};

std::vector<const Command*> commands_of(const Group& group) {
  std::vector<const Command*> all;
  for (const std::string& name : split(std::string(group.commands), ' ')) {
    for (const Command* command : commands()) {
      // Two commands are named `where`. Only the filter belongs to the group `pipe`.
      const bool fits = (command->as<BehindPipe>() != nullptr) == (group.name == "pipe");
      if (command->name == name && fits) all.push_back(command);
    }
  }
  return all;
}

std::string draw_group(const Group& group, const term::Style& style) {
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Command* command : commands_of(group)) {
    const std::string operands(command->operands);
    lines.emplace_back(cat(command->name, operands.empty() ? "" : " ", operands), command->summary);
  }
  return cat(style.paint(term::Role::kBold, cat(group.name, ": ", group.title)), "\n",
             draw_list(lines, style));
}

Json describe(const Command& command) {
  Json options = Json::array();
  for (const Option& option : command.options) {
    options.push_back({{"name", option.name}, {"value", option.value}, {"help", option.help}});
  }
  return {{"name", command.name},
          {"usage", command.usage()},
          {"summary", command.summary},
          {"help", help_text(command)},
          {"options", options}};
}

// Returns the help as paragraphs, which page() wraps to the width of the screen. A line of kFull
// characters or more is joined with the next line. Exceptions are next lines that are empty or that
// begin with a blank, with "Example" or with "JSON:".
std::string paragraphs(std::string_view help) {
  constexpr size_t kFull = 85;
  std::string out;
  size_t before = 0;
  for (const std::string& line : split(help, '\n')) {
    const bool own = before < kFull || line.empty() || line.front() == ' ' ||
                     starts_with(line, "Example") || starts_with(line, "JSON:");
    if (!out.empty()) out += own ? '\n' : ' ';
    out += line;
    before = line.size();
  }
  return ends_with(out, "\n") ? out : out + "\n";
}

std::string page(const term::Style& style, const Command& command) {
  std::string text = term::fold(cat(style.paint(term::Role::kBold, command.usage()), "\n",
                                    command.summary, "\n\n", paragraphs(help_text(command))),
                                style, 0);
  if (command.options.empty()) return text;
  std::vector<std::pair<std::string, std::string>> options;
  for (const Option& option : command.options) {
    options.emplace_back(cat(option.name, " ", option.value), option.help);
  }
  return text + "\n" + draw_list(options, style);
}

}  // namespace

Result tell_help(const term::Style& style, const Arguments& arguments) {
  Result result;
  for (const Group& group : kGroups) {
    if (arguments.words.empty() || arguments.words.front() != group.name) continue;
    result.json["commands"] = Json::array();
    for (const Command* command : commands_of(group)) {
      result.json["commands"].push_back(describe(*command));
    }
    result.text = draw_group(group, style);
    return result;
  }
  if (!arguments.words.empty()) {
    const Command& command = named_command(arguments.words.front());
    result.json = describe(command);
    result.text = page(style, command);
    return result;
  }
  Json list = Json::array();
  for (const Command* command : commands()) list.push_back(describe(*command));
  result.json["commands"] = list;
  for (const Group& group : kGroups) result.text += draw_group(group, style) + "\n";
  result.text +=
      "NAMES: names or their unique suffixes, globs, modules; NAME[0:4, :8] is a slice.\n"
      "`;` separates commands, Tab completes, quotes keep spaces.\n"
      "`help COMMAND` explains a command, `help GROUP` lists a group: `help live`.\n";
  return result;
}

Result tell_quit(const term::Style&, const Arguments&) {
  Result result;
  result.quit = true;
  return result;
}

}  // namespace am::inspect
