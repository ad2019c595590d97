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
  const size_t name_end = text.rfind(')');  // the process name may contain any character
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kStartTime = 20;  // field 22, counted from the state, which is the third
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
