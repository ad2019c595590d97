#include "am/run_folder/process_begin.h"

#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <string>

#include "am/base/text.h"
#include "am/run_folder/job_time.h"

namespace am::run_folder {

int64_t process_begin(int64_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  // The second field is the process's name in parentheses. It may contain blanks and parentheses,
  // so fields are counted from the last parenthesis.
  const size_t name_end = text.rfind(')');
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  // The start time is field 22, which is the 20th after the name.
  constexpr int kStartTime = 20;
  for (int i = 0; i < kStartTime && fields >> field; ++i) {
  }
  return fields ? std::strtoll(field.c_str(), nullptr, 10) : 0;
}

double own_process_began() {
  struct timespec now = {};
  ::clock_gettime(CLOCK_BOOTTIME, &now);
  const double since_boot =
      static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
  const double ticks = static_cast<double>(process_begin(::getpid()));
  return unix_time() - (since_boot - ticks / static_cast<double>(::sysconf(_SC_CLK_TCK)));
}

}  // namespace am::run_folder
