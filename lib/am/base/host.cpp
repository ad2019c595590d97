#include "am/base/host.h"

#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <fstream>

#include "am/base/error.h"
#include "am/base/random.h"

namespace am {

std::string unique_id() {
  uint64_t value = 0;
  ssize_t got = 0;
  do {
    got = ::getrandom(&value, sizeof value, 0);  // reads of this size are never partial
  } while (got < 0 && errno == EINTR);
  if (got != static_cast<ssize_t>(sizeof value)) {
    throw Error(ErrorKind::kRuntime,
                std::string("cannot read random numbers from the system: ") + std::strerror(errno));
  }
  return hash_text(value);
}

std::string boot_id() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string text;
  std::getline(file, text);
  return text;
}

std::string host_name() {
  std::array<char, 256> name = {};
  const bool known = ::gethostname(name.data(), name.size() - 1) == 0 && name[0] != '\0';
  return known ? name.data() : "localhost";
}

}  // namespace am
