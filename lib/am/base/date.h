// Formats the current time as a date.
//
//   local_date();                               // "2026-03-01 15:05:32"
//   utc_date("%Y-%m-%d %H:%M UTC");             // "2026-03-01 14:05 UTC"
#pragma once

#include <string>

namespace am {

// Return the current local or UTC time in a format of strftime(3). Return an empty string if the
// formatted time would be longer than 63 bytes.
std::string local_date(const char* format = "%Y-%m-%d %H:%M:%S");
std::string utc_date(const char* format);

}  // namespace am
