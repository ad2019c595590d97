// Detects the format of a data file by its first bytes, so that a run does not train on the bytes
// of a compressed file or of a table, whose loss would look plausible.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace am::data {

// Throws Error(kFormat), with advice, if the file begins with the signature of a known format:
// compressed files, archives, tables, NumPy arrays, UTF-16. `wanted`: "UTF-8 text". `least`: only
// signatures of at least this many bytes count; where arbitrary bytes are legal, a short signature
// may be data.
void refuse_known_format(const std::filesystem::path& file, std::span<const std::byte> bytes,
                         std::string_view wanted, size_t least = 1);

// Whether the file has one document per line: by its name (.jsonl, .ndjson), or because its first
// line is an object with a "text", whatever the name. Throws Error(kFormat) for JSON of another
// shape: an array of objects, or a file named .json.
bool is_json_lines(const std::filesystem::path& file, std::string_view text);

}  // namespace am::data
