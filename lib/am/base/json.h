// The one place that names the JSON library. Objects keep their order.
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
// For objects of many thousand keys (an index of all tensors of a model): `Json` finds a key by
// walking.
using SortedJson = nlohmann::json;
// Thrown by reads of a value that is not there, or of another type. Its text is for programmers.
using JsonError = nlohmann::json::exception;

// Parses a user's file. NaN, Infinity and -Infinity, as Python's json writes them, are numbers. On
// a syntax error adds one diagnostic (rule "json.syntax") with line and column. More than 100
// levels of brackets are an error too: code that walks values may be recursive.
std::optional<Json> parse_json(std::string_view text, const std::string& file, Diagnostics& found);
std::optional<SortedJson> parse_sorted_json(std::string_view text, const std::string& file,
                                            Diagnostics& found);

// A file's one object. Throws Error(kFormat) with the file and the place where there is none.
Json parse_json_object(std::string_view text, const std::string& file);

// What a JSON library's exception says, without the library's name and its counting of places.
std::string json_reason(const std::exception& error);

// Where a top-level key of a JSON object stands in its text: the span of the key, or of the file
// when it is not there.
Span find_json_key(std::string_view text, const std::string& file, std::string_view key);

// JSON text: bytes that are not UTF-8 become U+FFFD, NaN and infinities null, so the result is
// always valid. indent < 0: one line.
std::string dump_json(const Json& json, int indent = 2);
std::string dump_json(const SortedJson& json, int indent = 2);

// The same, in which each byte XX that is not UTF-8 is written as the escape \udcXX, so that a path
// can be opened by what Python's json.loads and os.fsencode make of it. Other readers may refuse
// such a text, as RFC 8259 allows.
std::string dump_json_bytes(const Json& json, int indent = 2);

// {"rule","severity","file","line","column","message","help"}, as INTERFACE fixes it.
Json to_json(const Diagnostic& diagnostic);
Json to_json(const Diagnostics& diagnostics);

}  // namespace am
