// Descriptor owns a file descriptor and closes it on destruction.
#pragma once

#include <unistd.h>

#include <utility>

namespace am {

// The destructor ignores errors of close(). A caller that must detect write errors calls fsync()
// first.
class Descriptor {
 public:
  explicit Descriptor(int fd = -1) : fd_(fd) {}
  Descriptor(Descriptor&& other) noexcept : fd_(other.release()) {}
  Descriptor& operator=(Descriptor&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }

  // Returns the descriptor, or -1 if this object owns none.
  int get() const { return fd_; }
  // Returns the descriptor, or -1 if this object owns none. The caller then owns the descriptor.
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
};

}  // namespace am
