#include "am/runtime/shared_memory/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <string_view>
#include <utility>
#include <vector>

#include "am/base/host.h"
#include "am/base/memory_file.h"
#include "am/base/number.h"
#include "am/base/text.h"

namespace am::runtime::shared_memory {

namespace {

// Returns the boot id and the namespaces of process ids and networks; empty if /proc has no such
// entries. A process id is unique only within one pid namespace; processes in different network
// namespaces count as different hosts.
std::string host_identity() {
  std::string text = boot_id();
  for (const char* space : {"/proc/self/ns/pid", "/proc/self/ns/net"}) {
    std::array<char, 64> name = {};
    const auto length = ::readlink(space, name.data(), name.size());
    if (text.empty() || length <= 0) return {};
    text += cat(" ", std::string(name.data(), static_cast<size_t>(length)));
  }
  return text;
}

bool is_number(std::string_view text) {
  return !text.empty() && text.front() != '-' && parse_integer(text).has_value();
}

// Returns whether the text has the form "PID/fd/FD". Without this check, an address in the store
// could make this process open a file outside of /proc/PID/fd.
bool names_descriptor(const std::string& file) {
  const std::vector<std::string> parts = split(file, '/');
  return parts.size() == 3 && is_number(parts[0]) && parts[1] == "fd" && is_number(parts[2]);
}

// Returns whether the file has this size, and a seal that fixes the size. Other files rarely have
// this seal.
bool is_segment(int fd, size_t bytes) {
  struct stat status = {};
  return ::fstat(fd, &status) == 0 && status.st_size == static_cast<off_t>(bytes) &&
         has_fixed_size(fd);
}

}  // namespace

std::optional<Segment> Segment::map(int fd, size_t bytes) {
  if (fd < 0) return std::nullopt;
  void* const at = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    ::close(fd);
    return std::nullopt;
  }
  return Segment(fd, static_cast<std::byte*>(at), bytes);
}

std::optional<Segment> Segment::create(size_t bytes) {
  if (host_identity().empty()) return std::nullopt;
  const int fd = open_memory_file("automesh", FileSize::kFixed);
  if (fd >= 0 && !fix_size(fd, static_cast<long>(bytes))) {
    ::close(fd);
    return std::nullopt;
  }
  return map(fd, bytes);
}

std::optional<Segment> Segment::open(const std::string& address, size_t bytes) {
  const std::string here = host_identity() + " ";
  if (here.size() < 2 || !starts_with(address, here)) return std::nullopt;
  const std::string file = address.substr(here.size());
  if (!names_descriptor(file)) return std::nullopt;
  const int fd = ::open(cat("/proc/", file).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  if (fd >= 0 && !is_segment(fd, bytes)) {
    ::close(fd);
    return std::nullopt;
  }
  return map(fd, bytes);
}

Segment::Segment(Segment&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)),
      data_(std::exchange(other.data_, nullptr)),
      bytes_(other.bytes_) {}

Segment& Segment::operator=(Segment&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

Segment::~Segment() {
  if (data_ != nullptr) ::munmap(data_, bytes_);
  close_address();
}

std::string Segment::address() const { return cat(host_identity(), " ", ::getpid(), "/fd/", fd_); }

void Segment::close_address() {
  if (const int fd = std::exchange(fd_, -1); fd >= 0) ::close(fd);
}

}  // namespace am::runtime::shared_memory
