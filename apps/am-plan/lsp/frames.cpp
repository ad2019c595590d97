#include "frames.h"

#include <charconv>

#include "am/base/error.h"
#include "am/base/text.h"

namespace am_plan::lsp {
namespace {

constexpr size_t kLargestHeader = 4096;
constexpr size_t kLargestFrame = size_t{64} << 20;

[[noreturn]] void refuse_frame(const std::string& problem) {
  throw am::Error(
      am::ErrorKind::kFormat, am::cat("stdin: ", problem),
      "am-plan lsp is started by an editor, which sends messages of the Language Server "
      "Protocol");
}

// Reads the lines of a header, including the empty line at its end, and omits carriage returns.
// Returns nothing at the end of the input. Throws Error(kFormat) if the header is too long or the
// input ends inside it.
std::optional<std::string> read_header(std::istream& in) {
  std::string header;
  for (int c = in.get(); c != std::istream::traits_type::eof(); c = in.get()) {
    if (c != '\r') header += static_cast<char>(c);
    if (header == "\n" || am::ends_with(header, "\n\n")) return header;
    if (header.size() > kLargestHeader) refuse_frame("the header of a message is too long");
  }
  if (!header.empty()) refuse_frame("the input ends inside the header of a message");
  return std::nullopt;
}

size_t stated_length(const std::string& header) {
  constexpr std::string_view kName = "content-length:";
  for (const std::string& line : am::split(header, '\n')) {
    if (!am::starts_with(am::lower(line), kName)) continue;
    const std::string_view value = am::trim(std::string_view(line).substr(kName.size()));
    size_t length = 0;
    const auto read = std::from_chars(value.data(), value.data() + value.size(), length);
    const bool whole = read.ec == std::errc() && read.ptr == value.data() + value.size();
    if (whole && length <= kLargestFrame) return length;
    refuse_frame(am::cat("Content-Length ", value, " is not a number of bytes up to 64 MiB"));
  }
  refuse_frame("a message has no header Content-Length");
}

}  // namespace

std::optional<std::string> read_frame(std::istream& in) {
  const auto header = read_header(in);
  if (!header) return std::nullopt;
  std::string text(stated_length(*header), '\0');
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (static_cast<size_t>(in.gcount()) != text.size()) {
    refuse_frame("the input ends inside a message");
  }
  return text;
}

std::string frame_of(const am::Json& message) {
  const std::string text = am::dump_json(message, -1);
  return am::cat("Content-Length: ", text.size(), "\r\n\r\n", text);
}

}  // namespace am_plan::lsp
