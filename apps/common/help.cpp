#include "common/help.h"

#include <unistd.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

#include "am/base/text.h"
#include "am/term/style.h"
#include "am/term/wrap.h"

namespace am_apps {
namespace {

// CLI11's layout, with descriptions wrapped inside their column.
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
  // Whether the option's legal values make the left column wider than the terminal; these values
  // then move to the description.
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

}  // namespace

void fold_help(CLI::App& app) {
  const am::term::Style style = am::term::Style::of(STDOUT_FILENO, am::term::ColorMode::kNever);
  use(app, std::make_shared<FoldedHelp>(style.width));
}

}  // namespace am_apps
