#include "am/data/file_format.h"

#include <algorithm>
#include <array>
#include <cstring>

#include "am/base/error.h"
#include "am/base/json.h"
#include "am/base/text.h"

namespace am::data {
namespace {

using namespace std::string_view_literals;

struct Signature {
  std::string_view bytes;
  std::string_view format;
  std::string_view help;
};

constexpr std::string_view kUnpack = "unpack it first";
constexpr std::string_view kConvert =
    "write its text out as .txt or .jsonl, or its tokens as headerless integers (data.kind = "
    "\"tokens\")";

constexpr std::array<Signature, 16> kSignatures = {{
    {"\x1f\x8b\x08"sv, "a gzip file", kUnpack},
    {"\x28\xb5\x2f\xfd"sv, "a Zstandard file", kUnpack},
    {"\x04\x22\x4d\x18"sv, "an LZ4 file", kUnpack},
    {"\xfd"
     "7zXZ\0"sv,
     "an xz file", kUnpack},
    {"BZh91AY&SY"sv, "a bzip2 file", kUnpack},
    {"PK\x03\x04"sv, "a zip archive (such as PyTorch's .pt or NumPy's .npz)", kConvert},
    {"PAR1"sv, "an Apache Parquet file",
     "set data.kind = \"text\" or \"chat\" for Parquet files, and unpack a .gz or .zst file first"},
    {"ARROW1"sv, "an Apache Arrow file", kConvert},
    {"Obj\x01"sv, "an Avro file", kConvert},
    {"\x89HDF"sv, "an HDF5 file", kConvert},
    {"\x93NUMPY"sv, "a NumPy array",
     "write its integers without a header: array.astype('uint16').tofile('tokens.bin')"},
    {"%PDF-"sv, "a PDF document", kConvert},
    {"SQLite format 3\0"sv, "an SQLite database", kConvert},
    {"\x7f"
     "ELF"sv,
     "a program", kConvert},
    {"\xff\xfe"sv, "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"},
    {"\xfe\xff"sv, "UTF-16 text", "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"},
}};

const Signature* find_signature(std::span<const std::byte> bytes, size_t least) {
  const auto found =
      std::find_if(kSignatures.begin(), kSignatures.end(), [&](const Signature& signature) {
        return signature.bytes.size() >= least && bytes.size() >= signature.bytes.size() &&
               std::memcmp(bytes.data(), signature.bytes.data(), signature.bytes.size()) == 0;
      });
  return found == kSignatures.end() ? nullptr : &*found;
}

}  // namespace

void refuse_known_format(const std::filesystem::path& file, std::span<const std::byte> bytes,
                         std::string_view wanted, size_t least) {
  const Signature* found = find_signature(bytes, least);
  if (found == nullptr) return;
  throw Error(ErrorKind::kFormat, cat(file.string(), ": this is ", found->format, ", not ", wanted),
              std::string(found->help));
}

TextShape shape_of(const std::filesystem::path& file, std::string_view text) {
  const std::string extension = lower(file.extension().string());
  if (extension == ".jsonl" || extension == ".ndjson") return TextShape::kJsonLines;
  const size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return TextShape::kText;
  const std::string_view line = text.substr(begin, text.find('\n', begin) - begin);
  if (line.front() == '{') {
    const Json object = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (object.is_object() && object.contains("text")) return TextShape::kJsonLines;
  }
  const size_t second = text.find_first_not_of(" \t\r\n", begin + 1);
  if (line.front() == '[' && second != std::string_view::npos && text[second] == '{') {
    return TextShape::kJsonArray;
  }
  if (extension == ".json" && (line.front() == '{' || line.front() == '[')) {
    throw Error(
        ErrorKind::kFormat,
        cat(file.string(), ": this is JSON, but neither an array of objects nor JSON Lines"),
        "write one object per line: {\"text\": \"...\"}");
  }
  return TextShape::kText;
}

}  // namespace am::data
