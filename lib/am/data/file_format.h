// Detects the format of a data file by its first bytes. Training on the bytes of a compressed file
// or of a table must be an error, because the loss would look plausible.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace am::data {

// Throws Error(kFormat), with advice, if the file begins with the signature of a known format:
// compressed files, archives, tables, NumPy arrays, UTF-16. `wanted` names the expected format in
// the message, for example "UTF-8 text". Signatures of fewer than `least` bytes are ignored: in
// files of tokens, a short signature may be data.
void refuse_known_format(const std::filesystem::path& file, std::span<const std::byte> bytes,
                         std::string_view wanted, size_t least = 1);

// Whether the file has one document per line: either its name ends with .jsonl or .ndjson, or its
// first line is an object with a "text". Throws Error(kFormat) for JSON of another shape: an array
// of objects, or a file named .json.
bool is_json_lines(const std::filesystem::path& file, std::string_view text);

}  // namespace am::data
