// Formats numbers for people: bytes, counts, durations, rates.
#pragma once

#include <cstdint>
#include <string>

namespace am {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;

// Returns for example "1.21 KiB" for 1234: two decimals, in the unit that keeps the number below
// 1024.
std::string format_bytes(int64_t bytes);
// Returns for example "8 030 261 248" for 8030261248.
std::string format_count(int64_t count);
// Returns for example "8.03 B" for 8030261248: thousands K, millions M, billions B, trillions T.
std::string format_short_count(double count);
// Formats seconds, for example as "812 ms", "4.2 s" or "1:59:06".
std::string format_duration(double seconds);
// Like printf's %.*f.
std::string format_fixed(double value, int decimals);
// Like printf's %.*g.
std::string format_general(double value, int digits);
// Like printf's %.*e.
std::string format_scientific(double value, int decimals);

}  // namespace am
