// Formats numbers for people: bytes, counts and durations.
#pragma once

#include <cstdint>
#include <string>

namespace am {

constexpr double kMiB = 1024.0 * 1024.0;
constexpr double kGiB = 1024.0 * kMiB;

// Formats a number of bytes, for example 1234 as "1.21 KiB", in the unit that keeps the number
// below 1024, with two decimals from 1 KiB on.
std::string format_bytes(int64_t bytes);
// Formats a count in groups of three digits, for example "8 030 261 248".
std::string format_count(int64_t count);
// Formats a count with a suffix, for example 8030261248 as "8.03 B": K for thousands, M for
// millions, B for billions, T for trillions.
std::string format_short_count(double count);
// Formats seconds, for example as "812 ms", "4.2 s" or "1:59:06".
std::string format_duration(double seconds);
// Formats the time of a step, or of a part of a step, like format_duration(). Times from one minute
// to 9999 s are in seconds, so that they can be compared: "63.1 s", "1204 s".
std::string format_step_time(double seconds);
// Like printf's %.*f.
std::string format_fixed(double value, int decimals);
// Like printf's %.*g.
std::string format_general(double value, int digits);
// Like printf's %.*e.
std::string format_scientific(double value, int decimals);

}  // namespace am
