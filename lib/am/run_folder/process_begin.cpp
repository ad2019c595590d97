#include "am/run_folder/process_begin.h"

#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "am/base/text.h"

namespace am::run_folder {

int64_t process_begin(int64_t pid) {
  std::ifstream file(cat("/proc/", pid, "/stat"));
  std::string text;
  std::getline(file, text);
  const size_t name_end = text.rfind(')');  // a process may be called anything
  if (name_end == std::string::npos) return 0;
  std::istringstream fields(text.substr(name_end + 1));
  std::string field;
  constexpr int kStartTime = 20;  // field 22, counted from the state, which is the third
  for (int i = 0; i < kStartTime && fields >> field; ++i) {
  }
  return fields ? std::strtoll(field.c_str(), nullptr, 10) : 0;
}

}  // namespace am::run_folder
