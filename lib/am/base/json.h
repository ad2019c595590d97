// JSON values, as types of nlohmann's library, which no other header includes. Objects of type Json
// keep the order of their keys.
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
// Type of objects with many thousand keys, for example an index of all tensors of a model. `Json`
// searches keys linearly.
using SortedJson = nlohmann::json;
// Exception for reading a missing value or a value of another type. Its message is for developers.
using JsonError = nlohmann::json::exception;

// Parses a user's file. NaN, Infinity and -Infinity, as written by Python's json, are numbers. An
// error adds one diagnostic (rule "json.syntax"), with line and column except for a number out of
// range. Nesting deeper than 100 levels is an error, because callers process values recursively.
std::optional<Json> parse_json(std::string_view text, const std::string& file, Diagnostics& found);
std::optional<SortedJson> parse_sorted_json(std::string_view text, const std::string& file,
                                            Diagnostics& found);

// Returns whether brackets nest deeper than the 100 levels that parse_json() accepts.
bool nests_too_deeply(std::string_view text);

// Parses a file that consists of one object. Throws Error(kFormat) with the file for any other
// text, and with the location of a syntax error.
Json parse_json_object(std::string_view text, const std::string& file);

// Returns the message of a JSON library's exception, without the library's name and location.
std::string json_reason(const std::exception& error);

// Returns the location of a top-level key in a JSON object's text. If the key is missing, the
// location is the file as a whole.
Span find_json_key(std::string_view text, const std::string& file, std::string_view key);

// Serialises to valid JSON: bytes that are not UTF-8 become U+FFFD, NaN and infinities become null.
// A negative `indent` writes everything on one line.
std::string dump_json(const Json& json, int indent = 2);
std::string dump_json(const SortedJson& json, int indent = 2);

// Like dump_json, but writes each byte XX that is not UTF-8 as the escape \udcXX, so that Python
// recovers a path by json.loads and os.fsencode. Other readers may reject such a text, as RFC 8259
// allows.
std::string dump_json_bytes(const Json& json, int indent = 2);

// Returns {"rule","severity","file","line","column","message","help"}, or a list of such objects.
// Line and column count from 1, and are null for a finding that concerns the whole file.
Json to_json(const Diagnostic& diagnostic);
Json to_json(const Diagnostics& diagnostics);

}  // namespace am
