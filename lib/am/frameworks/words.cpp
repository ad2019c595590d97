#include "am/frameworks/words.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "am/base/text.h"
#include "am/config/places.h"
#include "am/config/yaml_reader.h"
#include "am/frameworks/source.h"
#include "am/term/printable.h"

namespace am::frameworks {
namespace {

using config::Value;

struct Word {
  std::string text;
  bool quoted = false;
  size_t at = 0;
};

class Splitter {
 public:
  Splitter(std::string_view text, const config::Places& places, Diagnostics& found)
      : text_(text), places_(places), found_(found) {}

  std::optional<std::vector<Word>> run() {
    std::vector<Word> words;
    while (skip_blanks()) {
      Word word{.text = {}, .at = at_};
      if (!read(word)) return std::nullopt;
      words.push_back(std::move(word));
    }
    return words;
  }

 private:
  bool fail(const char* message, size_t at) {
    found_.error(
        "exchange.syntax", places_.span(at), message,
        "only the arguments of one command are read; nothing is expanded or run. Put echo before "
        "the command in the script, run the script, and import the text that it prints");
    return false;
  }

  static bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

  // Returns the length of a backslash and the end of the line after it, or 0 if `at` is not at such
  // a place. The shell removes both, which joins the line and the next.
  size_t joint(size_t at) const {
    const std::string_view rest = text_.substr(at);
    return starts_with(rest, "\\\n") ? 2 : starts_with(rest, "\\\r\n") ? 3 : 0;
  }

  // Moves to the next word. Returns false at the end of the text.
  bool skip_blanks() {
    while (at_ < text_.size()) {
      if (is_blank(text_[at_])) {
        ++at_;
      } else if (const size_t length = joint(at_); length > 0) {
        at_ += length;
      } else if (text_[at_] == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
      } else {
        return true;
      }
    }
    return false;
  }

  bool read(Word& word) {
    while (at_ < text_.size() && !is_blank(text_[at_])) {
      const char c = text_[at_];
      if (c == '\'' || c == '"') {
        word.quoted = true;
        if (!read_quotes(word)) return false;
      } else if (const size_t length = joint(at_); length > 0) {
        at_ += length;
      } else if (c == '\\') {
        if (++at_ < text_.size()) word.text += text_[at_++];
      } else if (c == '$' || c == '`') {
        return fail("variables and command substitutions are not expanded", at_);
      } else if (std::string_view(";|&<>()").find(c) != std::string_view::npos) {
        return fail("the text has more than one command, or a redirection", at_);
      } else {
        word.text += c;
        ++at_;
      }
    }
    return true;
  }

  bool read_quotes(Word& word) {
    const size_t begin = at_;
    const char mark = text_[at_++];
    for (; at_ < text_.size(); ++at_) {
      const char c = text_[at_];
      if (c == mark) {
        ++at_;
        return true;
      }
      if (mark == '"' && (c == '$' || c == '`')) {
        return fail("variables and command substitutions are not expanded", at_);
      }
      if (mark == '"' && c == '\\' && at_ + 1 < text_.size()) {
        if (const size_t length = joint(at_); length > 0) {
          at_ += length - 1;
          continue;
        }
        // Before any other character, the shell keeps the backslash.
        constexpr std::string_view kEscaped = "$`\"\\";
        if (kEscaped.find(text_[at_ + 1]) != std::string_view::npos) ++at_;
      }
      word.text += text_[at_];
    }
    return fail("a quote is not closed", begin);
  }

  std::string_view text_;
  const config::Places& places_;
  Diagnostics& found_;
  size_t at_ = 0;
};

class FlagReader {
 public:
  FlagReader(const std::vector<Word>& words, const config::Places& places, const FlagStyle& style)
      : words_(words), places_(places), style_(style) {}

  Value run() {
    root_.span = places_.span(0);
    size_t i = 0;
    while (i < words_.size()) {
      if (is_flag(words_[i])) {
        i = read(i);
      } else if (is_choice(words_[i])) {
        read_choice(words_[i]);
        ++i;
      } else {
        ++i;
      }
    }
    return std::move(root_);
  }

 private:
  static bool is_flag(const Word& word) {
    return !word.quoted && word.text.size() > 2 && starts_with(word.text, "--");
  }
  // Whether the word is torchtitan's notation of a subcommand, for example
  // "activation_checkpoint:full".
  bool is_choice(const Word& word) const {
    constexpr std::string_view kName = "abcdefghijklmnopqrstuvwxyz_-";
    const size_t colon = word.text.find_first_not_of(kName);
    return style_.nested && !word.quoted && colon != std::string::npos && colon > 0 &&
           word.text[colon] == ':' && colon + 1 < word.text.size() &&
           word.text.find_first_not_of(kName, colon + 1) == std::string::npos;
  }
  // Whether the word ends the values of the preceding flag, because it is a flag, a subcommand,
  // "-m" or a Python script.
  bool ends_values(const Word& word) const {
    return is_flag(word) || is_choice(word) || word.text == "-m" || ends_with(word.text, ".py");
  }

  void read_choice(const Word& word) {
    const size_t colon = word.text.find(':');
    const Span span = places_.span(word.at, character_count(word.text));
    std::string name = word.text.substr(0, colon + 1);
    std::replace(name.begin(), name.end(), '-', style_.dash);
    put(root_, name, span, config::value_of(word.text.substr(colon + 1), span));
  }

  Value word_value(const Word& word, std::string_view text) const {
    const Span span = places_.span(word.at, std::max(1, character_count(word.text)));
    std::optional<Value> value;
    if (!word.quoted) value = config::plain_value(text, span);
    if (value.has_value()) return std::move(*value);
    return config::value_of(std::string(text), span);
  }

  size_t read(size_t i) {
    const Word& word = words_[i];
    const size_t equals = word.text.find('=');
    std::string name = word.text.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(name.begin(), name.end(), style_.dash == '-' ? '_' : '-', style_.dash);
    Value value;
    ++i;
    if (equals != std::string::npos) {
      value = word_value(word, std::string_view(word.text).substr(equals + 1));
    } else {
      i = read_values(word, i, value);
    }
    store(std::move(name), word, std::move(value));
    return i;
  }

  size_t read_values(const Word& flag, size_t i, Value& value) {
    value.span = places_.span(flag.at, character_count(flag.text));
    value.kind = Value::Kind::kArray;
    for (; i < words_.size() && !ends_values(words_[i]); ++i) {
      value.items.push_back(word_value(words_[i], words_[i].text));
    }
    if (value.items.empty()) {
      value.kind = Value::Kind::kBoolean;
      value.boolean = true;
    } else if (value.items.size() == 1) {
      Value only = std::move(value.items.front());
      value = std::move(only);
    }
    return i;
  }

  void store(std::string name, const Word& word, Value value) {
    constexpr int kDeepest = 8;
    const Span span = places_.span(word.at, character_count(word.text));
    Value* to = &root_;
    for (int depth = 0; style_.nested && depth < kDeepest; ++depth) {
      const size_t dot = name.find('.');
      if (dot == std::string::npos) break;
      const std::string section = name.substr(0, dot);
      name = name.substr(dot + 1);
      config::Member* member = to->find(section);
      if (member == nullptr || !member->value.is_table()) {
        Value table;
        table.span = span;
        member = &put(*to, section, span, std::move(table));
      }
      to = &member->value;
    }
    put(*to, name, span, std::move(value));
  }

  static config::Member& put(Value& to, const std::string& name, const Span& span, Value value) {
    if (config::Member* member = to.find(name)) {
      member->value = std::move(value);
      return *member;
    }
    to.members.push_back({name, span, std::move(value)});
    return to.members.back();
  }

  const std::vector<Word>& words_;
  const config::Places& places_;
  FlagStyle style_;
  Value root_;
};

}  // namespace

std::optional<Value> read_flags(std::string_view text, const std::string& file,
                                const FlagStyle& style, Diagnostics& found) {
  const config::Places places(text, file);
  const auto words = Splitter(text, places, found).run();
  if (!words.has_value()) return std::nullopt;
  return FlagReader(*words, places, style).run();
}

namespace {

// Quotes a text in bash's notation $'..', with control characters and non-ASCII bytes as octal
// numbers.
std::string ansi_word(const std::string& text) {
  std::string out = "$'";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '\'' || c == '\\') {
      out += cat("\\", c);
    } else if (byte < 0x20 || byte >= 0x7F) {
      std::array<char, 8> escape{};
      std::snprintf(escape.data(), escape.size(), "\\%03o", static_cast<unsigned>(byte));
      out += escape.data();
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace

std::string shell_word(const std::string& text) {
  constexpr std::string_view kSafe =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_./-=:,+@%";
  if (!text.empty() && text.find_first_not_of(kSafe) == std::string::npos) return text;
  if (term::printable(text) != text) return ansi_word(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace am::frameworks
