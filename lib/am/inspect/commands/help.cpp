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

// Returns the help with its wide lines joined to paragraphs, which are wrapped to the actual width
// later. A full line is joined with the next line, except if that line is an example or begins with
// a blank.
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
  if (!arguments.words.empty()) {
    const Command& command = named_command(arguments.words.front());
    result.json = describe(command);
    result.text = page(style, command);
    return result;
  }
  Json list = Json::array();
  std::vector<std::pair<std::string, std::string>> lines;
  for (const Command* command : commands()) {
    list.push_back(describe(*command));
    const std::string operands(command->operands);
    lines.emplace_back(cat(command->name, operands.empty() ? "" : " ", operands), command->summary);
  }
  result.json["commands"] = list;
  result.text =
      draw_list(lines, style) +
      "\nNAMES: names or their unique suffixes, globs, modules; NAME[0:4, :8] is a slice.\n"
      "`;` separates commands, Tab completes, quotes keep spaces.\n"
      "`help COMMAND` explains a command.\n";
  return result;
}

Result tell_quit(const term::Style&, const Arguments&) {
  Result result;
  result.quit = true;
  return result;
}

}  // namespace am::inspect
