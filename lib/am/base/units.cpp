#include "am/base/units.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace am {

std::string format_fixed(double value, int decimals) {
  std::array<char, 400> buffer;  // DBL_MAX has 309 digits before the point
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*f", decimals, value);
  return {buffer.data(), static_cast<size_t>(length)};
}

std::string format_general(double value, int digits) {
  std::array<char, 400> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*g", digits, value);
  return {buffer.data(), static_cast<size_t>(length)};
}

std::string format_scientific(double value, int decimals) {
  std::array<char, 400> buffer;
  const int length = std::snprintf(buffer.data(), buffer.size(), "%.*e", decimals, value);
  return {buffer.data(), static_cast<size_t>(length)};
}

namespace {

// Formats the value in the smallest unit in which its number, rounded to two decimals, is less than
// `step`, or else in the largest unit. `step` is the ratio of neighbouring units.
template <size_t kUnits>
std::string scaled(double value, double step, const std::array<const char*, kUnits>& units) {
  size_t unit = 0;
  while (unit + 1 < kUnits && std::abs(value) >= step - (unit == 0 ? 0.0 : 0.005)) {
    value /= step;
    ++unit;
  }
  if (unit == 0) return format_general(value, 17) + units[0];
  return format_fixed(value, 2) + units[unit];
}

}  // namespace

std::string format_bytes(int64_t bytes) {
  static constexpr std::array<const char*, 7> kUnits = {" B",   " KiB", " MiB", " GiB",
                                                        " TiB", " PiB", " EiB"};
  return scaled(static_cast<double>(bytes), 1024.0, kUnits);
}

std::string format_count(int64_t count) {
  const std::string digits = std::to_string(count);
  const size_t first = digits[0] == '-' ? 1 : 0;
  std::string out;
  for (size_t i = 0; i < digits.size(); ++i) {
    if (i > first && (digits.size() - i) % 3 == 0) out += ' ';
    out += digits[i];
  }
  return out;
}

std::string format_short_count(double count) {
  if (!std::isfinite(count)) return format_general(count, 3);
  if (std::abs(count) < 1000.0) {
    return count == std::floor(count) ? format_fixed(count, 0) : format_general(count, 3);
  }
  static constexpr std::array<const char*, 5> kUnits = {"", " K", " M", " B", " T"};
  return scaled(count, 1000.0, kUnits);
}

std::string format_duration(double seconds) {
  if (!std::isfinite(seconds)) return format_general(seconds, 3);
  if (seconds < 0) return "-" + format_duration(-seconds);
  // Each limit is the smallest value that would round to "60.0 s", "1000 ms", "10.00 ms" or "1000
  // us".
  if (seconds == 0) return "0 s";
  if (seconds < 0.9995e-3) return format_fixed(seconds * 1e6, 0) + " us";
  if (seconds < 0.9995) return format_fixed(seconds * 1e3, seconds < 9.995e-3 ? 2 : 0) + " ms";
  if (seconds < 59.95) return format_fixed(seconds, 1) + " s";
  constexpr double kDay = 86400.0;
  const double rounded = std::round(seconds);
  const double days = std::floor(rounded / kDay);
  const auto rest = static_cast<int>(rounded - days * kDay);
  std::array<char, 32> clock;
  std::snprintf(clock.data(), clock.size(), "%d:%02d:%02d", rest / 3600, rest / 60 % 60, rest % 60);
  return days > 0 ? format_fixed(days, 0) + " d " + clock.data() : clock.data();
}

std::string format_step_time(double seconds) {
  constexpr double kMinute = 59.95, kLong = 9999.5;
  if (!(seconds >= kMinute && seconds < kLong)) return format_duration(seconds);
  return format_fixed(seconds, seconds < 999.95 ? 1 : 0) + " s";
}

}  // namespace am
