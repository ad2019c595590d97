// Detects the format of a data file by its name and its first bytes. Training on the raw bytes of a
// compressed file or a table (Parquet, Arrow) would go unnoticed, because the loss would look
// plausible. refuse_known_format() therefore throws for these formats.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace am::data {

// Throws Error(kFormat), with advice, if the file begins with the signature of a known format, for
// example a compressed file, an archive, a table or UTF-16. `wanted` names the expected format in
// the message, for example "UTF-8 text". Signatures of fewer than `least` bytes are ignored: in
// files of tokens, a short signature may be data.
void refuse_known_format(const std::filesystem::path& file, std::span<const std::byte> bytes,
                         std::string_view wanted, size_t least = 1);

// How a file contains its documents.
enum class TextShape {
  kText,       // the whole file is one document
  kJsonLines,  // each line is a JSON object
  kJsonArray,  // the file is one JSON array of objects
};

// Returns the shape of a file whose content begins with `beginning`. kJsonLines: the name ends with
// .jsonl or .ndjson, or the first line that is not blank is an object with the key "text".
// kJsonArray: the content begins with "[" and "{". Throws Error(kFormat) for any other content that
// begins with "[" or "{" in a file named .json.
TextShape shape_of(const std::filesystem::path& file, std::string_view beginning);

}  // namespace am::data
