#include "am/base/error.h"

#include <utility>

namespace am {

const char* to_string(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::kUsage:
      return "usage";
    case ErrorKind::kIo:
      return "io";
    case ErrorKind::kFormat:
      return "format";
    case ErrorKind::kPlan:
      return "plan";
    case ErrorKind::kRuntime:
      return "runtime";
    case ErrorKind::kNumeric:
      return "numeric";
    case ErrorKind::kPeer:
      return "peer";
    case ErrorKind::kInternal:
      return "internal";
  }
  return "internal";
}

ErrorKind kind_of(int number) {
  const bool known = number >= 0 && number <= static_cast<int>(ErrorKind::kInternal);
  return known ? static_cast<ErrorKind>(number) : ErrorKind::kRuntime;
}

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
    case ErrorKind::kNumeric:
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
