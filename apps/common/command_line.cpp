#include "common/command_line.h"

#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <iostream>
#include <memory>
#include <sstream>
#include <string>
#include <string_view>

#include "am/base/error.h"
#include "am/base/number.h"
#include "am/base/text.h"
#include "am/config/field.h"
#include "am/term/printable.h"
#include "am/term/style.h"
#include "am/term/wrap.h"
#include "common/output.h"
#include "common/output_guard.h"

namespace am_apps {
namespace {

std::vector<std::string> command_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(command->get_name());
  }
  return names;
}

void add_flag_names(const CLI::App& app, std::vector<std::string>& names) {
  for (const CLI::Option* option : app.get_options()) {
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  }
}

// Returns the command that the command line names, or the tool itself if no command is named.
const CLI::App& active_command(const CLI::App& app) {
  const auto chosen = app.get_subcommands();
  return chosen.empty() ? app : *chosen.back();
}

std::string usage_hint(const CLI::App& app, const CLI::App& command) {
  const std::string name =
      &command == &app ? app.get_name() : am::cat(app.get_name(), " ", command.get_name());
  return am::cat("`", name, " --help` shows its options");
}

// The context of an error in the command line. Such errors are printed on stderr. If --json appears
// anywhere in the command line, they are also printed on stdout, as a JSON diagnostic that cites no
// file.
struct WrongLine {
  const CLI::App& app;
  bool json;
};

bool asks_for_json(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const char* word) { return std::string_view(word) == "--json"; });
}

int complain(const WrongLine& line, const std::string& message, const std::string& help) {
  const CLI::App& app = line.app;
  if (line.json) {
    am::Diagnostics found;
    found.error(am::to_string(am::ErrorKind::kUsage), {}, message, help);
    print(failure(found));
  }
  std::cerr << app.get_name() << ": error: " << am::term::echo(message) << "\n";
  if (!help.empty()) std::cerr << "help: " << am::term::echo(help) << "\n";
  return kUnusable;
}

// Returns a text that lists the commands with this flag, for example "commands with this option:
// check". Returns an empty string if no command has the flag.
std::string commands_with(const CLI::App& app, const std::string& flag) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (command->get_option_no_throw(flag) != nullptr) names.push_back(command->get_name());
  }
  if (names.empty()) return {};
  return am::cat("commands with this option: ", am::join(names, ", "));
}

int unknown_flag(const WrongLine& line, const CLI::App& command, const std::string& word) {
  const CLI::App& app = line.app;
  const std::string flag = word.substr(0, word.find('='));
  std::vector<std::string> names;
  add_flag_names(command, names);
  if (&command != &app) add_flag_names(app, names);
  const auto near = am::nearest(flag, names);
  const std::string owners = commands_with(app, flag);
  return complain(line, am::cat("unknown option ", flag),
                  !owners.empty()    ? owners
                  : near.has_value() ? am::cat("did you mean ", *near, "?")
                                     : usage_hint(app, command));
}

int unknown_command(const WrongLine& line, const std::string& word) {
  const auto names = command_names(line.app);
  const auto near = am::nearest(word, names);
  return complain(line, am::cat("unknown command \"", word, "\""),
                  am::cat(near.has_value() ? am::cat("did you mean ", *near, "? ") : std::string(),
                          "commands: ", am::join(names, ", ")));
}

// Returns the first word of the command line that is neither a flag nor the value of one of the
// tool's own flags. In a tool with commands, this word must be a command's name.
std::optional<std::string> first_word(const CLI::App& app, int argc, char** argv) {
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (!am::starts_with(word, "-")) return word;
    const CLI::Option* option = app.get_option_no_throw(word);
    if (option != nullptr && option->get_items_expected_min() > 0) ++i;
  }
  return std::nullopt;
}

std::optional<int> check_command(const CLI::App& app, int argc, char** argv) {
  const auto names = command_names(app);
  if (names.empty()) return std::nullopt;
  const WrongLine line{app, asks_for_json(argc, argv)};
  const auto word = first_word(app, argc, argv);
  const bool known = word && std::find(names.begin(), names.end(), *word) != names.end();
  // An unknown word after an unknown option is probably the option's value, so the option is
  // reported.
  if (word && !known && argc > 2) {
    const auto* const at = std::find(argv + 1, argv + argc, *word);
    if (at > argv + 1 && am::starts_with(at[-1], "-") &&
        app.get_option_no_throw(at[-1]) == nullptr) {
      return unknown_flag(line, app, at[-1]);
    }
  }
  if (!word.has_value() || known) return std::nullopt;
  return unknown_command(line, *word);
}

// Returns the first long option (--name) of the command line that neither the command nor the tool
// has. CLI11 would treat the value of an unknown option as an argument and would complain about the
// argument.
std::optional<std::string> first_unknown(const CLI::App& app, int argc, char** argv) {
  const CLI::App& command = active_command(app);
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--") break;
    if (word.size() < 2 || word[0] != '-' || std::isdigit(static_cast<unsigned char>(word[1]))) {
      continue;
    }
    const std::string name = word.substr(0, word.find('='));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option == nullptr) option = app.get_option_no_throw(name);
    const bool is_long = am::starts_with(name, "--");
    if (option == nullptr && is_long) return word;
    const bool takes_next = option != nullptr && option->get_items_expected_min() > 0;
    if (takes_next && name == word) ++i;
  }
  return std::nullopt;
}

int explain_extras(const WrongLine& line) {
  const CLI::App& app = line.app;
  const CLI::App& command = active_command(app);
  const auto extras = app.remaining(true);
  for (const std::string& word : extras) {
    if (am::starts_with(word, "-")) return unknown_flag(line, command, word);
  }
  return complain(line,
                  am::cat("unexpected argument \"", extras.empty() ? "" : extras.front(), "\""),
                  usage_hint(app, command));
}

// Formats --help as CLI11 does, but wraps each description within its column.
class FoldedHelp : public CLI::Formatter {
 public:
  explicit FoldedHelp(int width) : width_(width) {}

  std::string make_option_opts(const CLI::Option* option) const override {
    const std::string all = Formatter::make_option_opts(option);
    return is_long(option) ? all.substr(0, all.find(":{")) + after_choices(all) : all;
  }

  std::string make_option_desc(const CLI::Option* option) const override {
    std::string text = Formatter::make_option_desc(option);
    if (is_long(option)) {
      const std::string all = Formatter::make_option_opts(option);
      const size_t begin = all.find(":{") + 2;
      const auto names = am::split(all.substr(begin, all.find('}') - begin), ',');
      text += am::cat(": ", am::join(names, ", "));
    }
    return in_column(text);
  }

  std::string make_subcommand(const CLI::App* command) const override {
    std::ostringstream out;
    CLI::detail::format_help(out, command->get_display_name(true),
                             in_column(command->get_description()), get_column_width());
    return out.str();
  }

  std::string make_description(const CLI::App* app) const override {
    am::term::Style style;
    style.width = width_;
    return am::term::fold(Formatter::make_description(app), style, /*hang=*/0);
  }

 private:
  // Whether the choices make the left column wider than the terminal. If so, the choices move to
  // the description.
  bool is_long(const CLI::Option* option) const {
    const std::string all = Formatter::make_option_opts(option);
    const size_t width = option->get_name(false, true).size() + all.size();
    return all.find(":{") != std::string::npos && width + 2 > static_cast<size_t>(width_);
  }

  static std::string after_choices(const std::string& all) {
    const size_t end = all.find('}');
    return end == std::string::npos ? std::string() : all.substr(end + 1);
  }

  std::string in_column(const std::string& text) const {
    constexpr int kNarrowest = 20;
    const int column = width_ - static_cast<int>(get_column_width());
    return am::join(am::term::wrap(text, std::max(kNarrowest, column)), "\n");
  }

  int width_;
};

void use(CLI::App& app, const std::shared_ptr<CLI::FormatterBase>& help) {
  app.formatter(help);
  for (CLI::App* command : app.get_subcommands([](CLI::App*) { return true; })) use(*command, help);
}

// Wraps the help of the tool and of all its commands to the width of the terminal.
void fold_help(CLI::App& app) {
  const am::term::Style style = am::term::Style::of(STDOUT_FILENO, am::term::ColorMode::kNever);
  use(app, std::make_shared<FoldedHelp>(style.width));
}

// Thrown by parse() to end the function that description_of() runs.
struct Described : std::exception {
  explicit Described(CommandDescription described) : description(std::move(described)) {}
  CommandDescription description;
};

}  // namespace

am::term::ColorMode CommonFlags::color_mode() const {
  return am::term::parse_color_mode(color).value_or(am::term::ColorMode::kAuto);
}

am::config::Plugins CommonFlags::plugins() const {
  return allow_plugins ? am::config::Plugins::kAllowed : am::config::Plugins::kRefused;
}

void add_color(CLI::App& app, CommonFlags& flags) {
  app.add_option("--color", flags.color, "auto, always or never; auto honours NO_COLOR")
      ->check(CLI::IsMember({"auto", "always", "never"}))
      ->type_name("WHEN");
}

void add_json(CLI::App& app, CommonFlags& flags, const std::string& help) {
  app.add_flag("--json", flags.json, help);
}

void add_set(CLI::App& app, std::vector<std::string>& texts) {
  app.add_option("--set", texts, "Override a key of the plan; the value is TOML; repeatable")
      ->type_size(1)
      ->expected(1)
      ->take_all()
      ->allow_extra_args(false)
      ->type_name(kSetting);
}

void add_plugins(CLI::App& app, CommonFlags& flags) {
  app.add_flag("--allow-plugins", flags.allow_plugins,
               "Let the plan load \"libmine.so:symbol\", whose code then runs here")
      ->envname("AM_ALLOW_PLUGINS");
}

std::function<std::string(const std::string&)> integer_from(int64_t low) {
  return [low](const std::string& text) -> std::string {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    const bool whole = end == text.data() + text.size();
    if (error == std::errc() && whole && value >= low) return {};
    return am::cat("\"", text, "\" is not an integer of at least ", low);
  };
}

std::function<std::string(const std::string&)> integer_of(std::string_view key) {
  const size_t dot = key.find('.');
  const auto* const field = am::config::find_field(key.substr(0, dot), key.substr(dot + 1), "");
  AM_ASSERT(field != nullptr, "an option's key is a key of a plan");
  const auto high = field->schema.at("maximum").get<int64_t>();
  return [high](const std::string& text) -> std::string {
    const auto value = am::parse_integer(text);
    if (value && *value >= 1 && *value <= high) return {};
    return am::cat("\"", text, "\" is not an integer from 1 to ", high);
  };
}

std::vector<am::config::Override> overrides_of(const std::vector<std::string>& texts) {
  std::vector<am::config::Override> overrides;
  for (const std::string& text : texts) overrides.push_back({text});
  return overrides;
}

std::optional<int> parse(CLI::App& app, int argc, char** argv) {
  if (argv == nullptr) throw Described(describe(app));
  guard_output();
  if (const auto status = check_command(app, argc, argv)) return status;
  fold_help(app);
  const WrongLine line{app, asks_for_json(argc, argv)};
  try {
    app.parse(argc, argv);
  } catch (const CLI::ExtrasError&) {
    return explain_extras(line);
  } catch (const CLI::Success& success) {  // thrown for --help and --version
    app.exit(success, std::cout, std::cerr);
    return kFine;
  } catch (const CLI::RequiredError& error) {
    if (const auto word = first_unknown(app, argc, argv)) {
      return unknown_flag(line, active_command(app), *word);
    }
    const auto names = command_names(app);
    if (names.empty() || !app.get_subcommands().empty()) {
      return complain(line, error.what(), usage_hint(app, active_command(app)));
    }
    return complain(line, "a command is required", am::cat("commands: ", am::join(names, ", ")));
  } catch (const CLI::ParseError& error) {
    if (const auto word = first_unknown(app, argc, argv)) {
      return unknown_flag(line, active_command(app), *word);
    }
    return complain(line, error.what(), usage_hint(app, active_command(app)));
  }
  return std::nullopt;
}

CommandDescription description_of(const std::function<void(int argc, char** argv)>& run) {
  try {
    run(0, nullptr);
  } catch (Described& described) {
    return std::move(described.description);
  }
  throw am::Error(am::ErrorKind::kInternal, "the function parses no command line");
}

}  // namespace am_apps
