// Memory that the processes of one host share, without a name: nothing is left in /dev/shm,
// whatever kills them, and a container's small /dev/shm is no limit.
//
//   auto mine = Segment::create(bytes);             // pages are taken as they are first written
//   store.set("segment", mine->address());
//   auto same = Segment::open(store.get("segment"), bytes);     // in another process; or nothing
//
// It is a memfd that others open as /proc/PID/fd/FD. Whether two processes are on one host is not
// believed but tried: the same boot, the same namespaces of process ids and of networks, and the
// segment opens. Its size is fixed for ever, so that no process can take memory from another that
// uses it; and only memory of a fixed size is ever opened, whatever an address names.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace am::runtime::shared_memory {

class Segment {
 public:
  // Zeroed. Nothing where the system has no such memory.
  static std::optional<Segment> create(size_t bytes);
  // The segment of that address. Nothing where it cannot be reached from here: another host, a
  // container of its own, another user, no longer there, another size.
  static std::optional<Segment> open(const std::string& address, size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // What another process opens it by, until close_address().
  std::string address() const;
  // Frees the file descriptor; the memory stays.
  void close_address();

 private:
  Segment(int fd, std::byte* data, size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}
  static std::optional<Segment> map(int fd, size_t bytes);

  int fd_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace am::runtime::shared_memory
