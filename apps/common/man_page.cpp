#include "common/man_page.h"

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/file.h"
#include "am/base/text.h"
#include "common/output.h"

namespace am_apps {
namespace {

// Returns the text escaped for troff: troff reads no line of the text as a request, and dashes stay
// ASCII when a reader copies them from the page.
std::string escaped(const std::string& text) {
  std::string out;
  bool line_begins = true;
  for (const char c : text) {
    if (line_begins && (c == '.' || c == '\'')) out += "\\&";
    line_begins = c == '\n';
    if (c == '\\') {
      out += "\\e";
    } else if (c == '-') {
      out += "\\-";
    } else {
      out += c;
    }
  }
  return out;
}

std::string title(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return am::cat(".TH ", escaped(name), " 1 \"\" \"automesh ", escaped(AM_VERSION),
                 "\" \"automesh\"\n");
}

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

// Returns an option's names and value in roff, for example "\fB\-\-rank\fR \fIR\fR".
std::string heading(const OptionDescription& option) {
  std::vector<std::string> names;
  for (const std::string& name : option.names) {
    names.push_back(option.is_argument ? am::cat("\\fI", escaped(name), "\\fR")
                                       : am::cat("\\fB", escaped(name), "\\fR"));
  }
  std::string out = am::join(names, ", ");
  if (!option.is_argument && !option.value.empty()) {
    out += am::cat(" \\fI", escaped(option.value), "\\fR");
  }
  return out;
}

std::string options_section(const char* name, const std::vector<OptionDescription>& options,
                            bool arguments) {
  std::string out;
  for (const OptionDescription& option : options) {
    if (option.is_argument != arguments) continue;
    std::string help = option.help;
    if (!option.values.empty()) help += am::cat("\nOne of: ", am::join(option.values, ", "), ".");
    out += am::cat(".TP\n", heading(option), "\n", escaped(help), "\n");
  }
  return out.empty() ? out : am::cat(".SH ", name, "\n", out);
}

std::string usage(const CommandDescription& command) {
  std::string out = "[\\fIoptions\\fR]";
  for (const OptionDescription& option : command.options) {
    if (!option.is_argument) continue;
    const std::string name = heading(option) + (option.is_repeatable ? " ..." : "");
    out += option.is_required ? am::cat(" ", name) : am::cat(" [", name, "]");
  }
  return out;
}

std::string examples(const std::string& footer) {
  const size_t end_of_title = footer.find('\n');
  if (end_of_title == std::string::npos) return {};
  return am::cat(".SH EXAMPLES\n.nf\n", escaped(footer.substr(end_of_title + 1)), "\n.fi\n");
}

std::string sentence(const std::string& help) {
  return escaped(help) + (am::ends_with(help, ".") ? "" : ".");
}

constexpr const char* kStatus =
    ".SH EXIT STATUS\n0: success. 1: the input is not valid, or a check or the job failed. 2: the "
    "command line or a file could not be read.\n";
constexpr const char* kStatusOfChecks =
    "3: a check, for example \\fBverify\\fR, found a problem.\n";

// Returns the manual page of one command, for example the page "am-plan-check".
std::string command_page(const CommandDescription& tool, const CommandDescription& command) {
  const std::string name = am::cat(tool.name, "-", command.name);
  return am::cat(title(name), ".SH NAME\n", escaped(name), " \\- ",
                 escaped(first_line(command.help)), "\n.SH SYNOPSIS\n\\fB", escaped(tool.name),
                 "\\fR \\fB", escaped(command.name), "\\fR ", usage(command), "\n.SH DESCRIPTION\n",
                 sentence(command.help), "\n", options_section("ARGUMENTS", command.options, true),
                 options_section("OPTIONS", command.options, false), kStatus,
                 examples(command.footer), ".SH SEE ALSO\n", escaped(tool.name), "(1)\n");
}

// Returns the file name and the text of each manual page of the tool. For example, the files of
// am-plan are "am-plan.1", "am-plan-check.1" and so on.
std::vector<std::pair<std::string, std::string>> man_pages(const CommandDescription& tool) {
  std::vector<std::pair<std::string, std::string>> pages = {{tool.name + ".1", man_page(tool)}};
  for (const CommandDescription& command : tool.commands) {
    pages.emplace_back(am::cat(tool.name, "-", command.name, ".1"), command_page(tool, command));
  }
  return pages;
}

}  // namespace

std::string man_page(const CommandDescription& tool) {
  std::string out =
      am::cat(title(tool.name), ".SH NAME\n", escaped(tool.name), " \\- ",
              escaped(first_line(tool.help)), "\n.SH SYNOPSIS\n\\fB", escaped(tool.name), "\\fR ");
  const bool has_argument = std::any_of(tool.options.begin(), tool.options.end(),
                                        [](const auto& option) { return option.is_argument; });
  if (has_argument || tool.commands.empty()) out += usage(tool);
  if (has_argument && !tool.commands.empty()) {
    out += am::cat("\n.br\n\\fB", escaped(tool.name), "\\fR ");
  }
  if (!tool.commands.empty()) out += "\\fIcommand\\fR [\\fIoptions\\fR] ...";
  out += am::cat("\n.SH DESCRIPTION\n", escaped(tool.help), "\n");
  out += options_section("ARGUMENTS", tool.options, true);
  out += options_section("OPTIONS", tool.options, false);
  if (!tool.commands.empty()) out += ".SH COMMANDS\n";
  for (const CommandDescription& command : tool.commands) {
    out += am::cat(".TP\n\\fB", escaped(command.name), "\\fR\n", sentence(command.help), "\nSee ",
                   escaped(am::cat(tool.name, "-", command.name)), "(1).\n");
  }
  if (!tool.words.empty()) out += ".SH COMMANDS OF A SESSION\n";
  for (const auto& [usage, help] : tool.words) {
    out += am::cat(".TP\n\\fB", escaped(usage), "\\fR\n", escaped(help), "\n");
  }
  return out + kStatus + (tool.words.empty() ? "" : kStatusOfChecks) + examples(tool.footer);
}

void add_man(CLI::App& app, ManOptions& options) {
  app.add_option("COMMAND", options.command, "Command whose page is printed")
      ->type_name(kCommandName);
  app.add_option("-o,--output", options.folder, "Write all pages into this folder")
      ->type_name("DIR");
  app.add_flag("--force", options.force, "Overwrite existing files");
}

void run_man(const CommandDescription& tool, const ManOptions& options) {
  const std::string wanted =
      options.command.empty() ? tool.name + ".1" : am::cat(tool.name, "-", options.command, ".1");
  bool printed = !options.folder.empty();
  for (const auto& [name, text] : man_pages(tool)) {
    if (!options.folder.empty()) {
      const std::filesystem::path page = std::filesystem::path(options.folder) / name;
      am::require_free_path(page, options.force);
      am::write_file_atomically(page, text);
    } else if (name == wanted) {
      print(text);
      printed = true;
    }
  }
  if (!printed) {
    throw am::Error(am::ErrorKind::kUsage, am::cat(tool.name, " has no command ", options.command));
  }
}

}  // namespace am_apps
