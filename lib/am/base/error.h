// Exceptions of the library, and the assertion that marks a bug.
//
// Errors in a plan or a model's config are not exceptions: functions return them together, as
// `Diagnostic`s (base/diagnostic.h). An `am::Error` ends an operation, for example because of a
// wrong command line, a full disk, a lost peer or an inconsistent file.
//
//   throw am::Error(am::ErrorKind::kIo, cat(path, ": cannot write: ", reason), "free some space");
#pragma once

#include <stdexcept>
#include <string>

namespace am {

enum class ErrorKind {
  kUsage,     // the command line is wrong                            exit 2
  kIo,        // a file or folder cannot be read or written           exit 2
  kFormat,    // a file's bytes violate the file's format             exit 2
  kPlan,      // the plan or request is not valid                     exit 1
  kRuntime,   // the job failed: a rank, a collective, a library      exit 1
  kNumeric,   // a loss, gradient or parameter is not finite          exit 1
  kPeer,      // a collective failed: the cause is in another rank    exit 1
  kInternal,  // a bug in automesh                                    exit 1
};

// Returns "usage", "io", "format", "plan", "runtime", "numeric", "peer" or "internal".
const char* to_string(ErrorKind kind);
// Returns the kind for a number that another process sent; kRuntime if the number is unknown.
ErrorKind kind_of(int number);

class Error : public std::runtime_error {
 public:
  Error(ErrorKind kind, const std::string& message, std::string hint = {});

  ErrorKind kind() const { return kind_; }
  // Advice to the user; may be empty.
  const std::string& hint() const { return hint_; }
  // Returns the exit status of a tool that ends with this error: 1 or 2.
  int exit_status() const;

 private:
  ErrorKind kind_;
  std::string hint_;
};

[[noreturn]] void assertion_failed(const char* condition, const char* file, int line,
                                   const std::string& message);

}  // namespace am

// Asserts a condition that only a bug in automesh can violate. Throws am::Error(kInternal).
#define AM_ASSERT(condition, message)                                    \
  do {                                                                   \
    if (!(condition)) {                                                  \
      ::am::assertion_failed(#condition, __FILE__, __LINE__, (message)); \
    }                                                                    \
  } while (false)
