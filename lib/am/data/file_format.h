// What a data file really is, by its first bytes: training on a compressed file or on a table's
// header gives a loss that looks like any other.
#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <string_view>

namespace am::data {

// Throws Error(kFormat) with what to do instead, where the file's bytes begin as those of a format
// that is known: compressed files, archives, tables, NumPy's arrays, UTF-16. `wanted`: "UTF-8
// text". `least`: only by signatures of so many bytes; where any bytes may come first a short one
// proves nothing.
void refuse_known_format(const std::filesystem::path& file, std::span<const std::byte> bytes,
                         std::string_view wanted, size_t least = 1);

// A document a line: by the name (.jsonl, .ndjson) or by the text, whose first line is an object
// with a "text", whatever the file is called. Throws Error(kFormat) where the text is JSON of
// another shape: an array of objects, or a file named .json.
bool is_json_lines(const std::filesystem::path& file, std::string_view text);

}  // namespace am::data
