// Formats times as dates.
//
//   local_date();                               // "2026-03-01 15:05:32"
//   utc_date("%Y-%m-%d %H:%M UTC");             // "2026-03-01 14:05 UTC"
#pragma once

#include <string>

namespace am {

// Return the current time in a format of strftime(3), at most 63 bytes long.
std::string local_date(const char* format = "%Y-%m-%d %H:%M:%S");
std::string utc_date(const char* format);

}  // namespace am
