#include "am/base/date.h"

#include <array>
#include <ctime>

namespace am {
namespace {

std::string format_date(const char* format, std::tm* (*parts_of)(const std::time_t*, std::tm*)) {
  const std::time_t now = std::time(nullptr);
  std::tm parts = {};
  std::array<char, 64> text = {};
  return {text.data(), std::strftime(text.data(), text.size(), format, parts_of(&now, &parts))};
}

}  // namespace

std::string local_date(const char* format) { return format_date(format, ::localtime_r); }
std::string utc_date(const char* format) { return format_date(format, ::gmtime_r); }

}  // namespace am
