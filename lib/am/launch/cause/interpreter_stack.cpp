#include "am/launch/cause/interpreter_stack.h"

#include <algorithm>
#include <filesystem>
#include <optional>
#include <string_view>

#include "am/base/text.h"

namespace am::launch {

namespace {

std::optional<InterpreterFrame> frame_in(std::string_view line) {
  constexpr std::string_view kFile = "  File \"";
  constexpr std::string_view kLine = "\", line ";
  constexpr std::string_view kIn = " in ";
  if (!starts_with(line, kFile)) return std::nullopt;
  const size_t number = line.find(kLine);
  if (number == std::string_view::npos) return std::nullopt;
  const size_t in = line.find(kIn, number);
  if (in == std::string_view::npos) return std::nullopt;
  const size_t digits = number + kLine.size();
  return InterpreterFrame{std::string(line.substr(in + kIn.size())),
                          std::string(line.substr(kFile.size(), number - kFile.size())),
                          std::string(line.substr(digits, in - digits))};
}

std::string text_of(const InterpreterFrame& frame) {
  return cat(frame.function, " (", std::filesystem::path(frame.file).filename().string(), ":",
             frame.line, ")");
}

}  // namespace

bool InterpreterFrame::is_installed() const {
  return file.find("-packages/") != std::string::npos ||
         file.find("/lib/python") != std::string::npos || starts_with(file, "<");
}

std::vector<InterpreterFrame> last_stack(const std::vector<std::string>& lines) {
  const auto begins = [](const std::string& line) {
    return ends_with(line, "(most recent call first):") &&
           (starts_with(line, "Current thread") || starts_with(line, "Stack "));
  };
  const auto last = std::find_if(lines.rbegin(), lines.rend(), begins);
  std::vector<InterpreterFrame> frames;
  if (last == lines.rend()) return frames;
  for (auto line = last.base(); line != lines.end(); ++line) {
    auto frame = frame_in(*line);
    if (!frame) break;
    frames.push_back(*std::move(frame));
  }
  return frames;
}

std::string position_of(const std::vector<InterpreterFrame>& frames) {
  if (frames.empty()) return {};
  const InterpreterFrame& innermost = frames.front();
  const auto own = std::find_if(frames.begin(), frames.end(),
                                [](const auto& frame) { return !frame.is_installed(); });
  if (own == frames.end() || own == frames.begin()) return text_of(innermost);
  return cat(text_of(*own), ", which called ", text_of(innermost));
}

}  // namespace am::launch
