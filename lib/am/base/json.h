// JSON values, as types of nlohmann's library. Other headers include this header instead of
// nlohmann's. Objects of type Json keep the order of their keys.
#pragma once

#include <exception>
#include <nlohmann/json.hpp>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/base/diagnostic.h"

namespace am {

using Json = nlohmann::ordered_json;
// SortedJson is for objects with many thousand keys, for example an index of all tensors of a
// model, because `Json` searches keys linearly.
using SortedJson = nlohmann::json;
// nlohmann's exception, for example for a missing value or a value of another type. The exception's
// message is for developers.
using JsonError = nlohmann::json::exception;

// Parses a user's file. NaN, Infinity and -Infinity, as written by Python's json, are numbers. On
// an error, returns nothing and adds one diagnostic (rule "json.syntax"). The diagnostic contains
// the line and column, except for a number out of range. Nesting deeper than 100 levels is an
// error, because callers process values recursively.
std::optional<Json> parse_json(std::string_view text, const std::string& file, Diagnostics& found);
std::optional<SortedJson> parse_sorted_json(std::string_view text, const std::string& file,
                                            Diagnostics& found);

// Returns whether brackets nest deeper than the 100 levels that parse_json() accepts.
bool nests_too_deeply(std::string_view text);

// Parses a file that consists of one object. Throws Error(kFormat) with the file's name for any
// other text. For a syntax error, the message also contains the line and column.
Json parse_json_object(std::string_view text, const std::string& file);

// Returns the message of an exception of nlohmann's library, without the library's prefix and the
// location. Returns the messages of other exceptions unchanged.
std::string json_reason(const std::exception& error);

// Returns the location of a top-level key in a JSON object's text. If the key is missing, the
// location is the file as a whole.
Span find_json_key(std::string_view text, const std::string& file, std::string_view key);

// Serialises to valid JSON: bytes that are not UTF-8 become U+FFFD, NaN and infinities become null.
// `indent` is the number of blanks per level; if it is negative, everything is on one line.
std::string dump_json(const Json& json, int indent = 2);
std::string dump_json(const SortedJson& json, int indent = 2);

// Like dump_json, but writes each byte XX that is not UTF-8 as the escape \udcXX, so that Python
// recovers a path by json.loads and os.fsencode. Other JSON parsers may reject this escape, as RFC
// 8259 allows.
std::string dump_json_bytes(const Json& json, int indent = 2);

// Returns {"rule","severity","file","line","column","message","help"}, or a list of such objects.
// Line and column count from 1, and are null for a diagnostic that concerns the whole file.
Json to_json(const Diagnostic& diagnostic);
Json to_json(const Diagnostics& diagnostics);

}  // namespace am
