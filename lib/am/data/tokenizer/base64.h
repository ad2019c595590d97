// Decodes base64 (RFC 4648), the form in which some tokenizer files store byte strings.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace am::data {

// Returns the bytes; nullopt if the text is not base64. Padding may be missing.
std::optional<std::string> base64_bytes(std::string_view text);

}  // namespace am::data
