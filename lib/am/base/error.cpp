#include "am/base/error.h"

#include <utility>

namespace am {

Error::Error(ErrorKind kind, const std::string& message, std::string hint)
    : std::runtime_error(message), kind_(kind), hint_(std::move(hint)) {}

int Error::exit_status() const {
  switch (kind_) {
    case ErrorKind::kUsage:
    case ErrorKind::kIo:
    case ErrorKind::kFormat:
      return 2;
    case ErrorKind::kPlan:
    case ErrorKind::kRuntime:
    case ErrorKind::kPeer:
    case ErrorKind::kInternal:
      return 1;
  }
  return 1;
}

void assertion_failed(const char* condition, const char* file, int line,
                      const std::string& message) {
  throw Error(ErrorKind::kInternal, std::string("bug in automesh: ") + message + " (" + condition +
                                        " at " + file + ":" + std::to_string(line) + ")");
}

}  // namespace am
