// Memory shared by processes of one host, without a file name: nothing remains in /dev/shm if the
// processes are killed, and a container's small /dev/shm does not limit the size.
//
//   auto mine = Segment::create(bytes);             // pages are allocated at the first write
//   store.set("segment", mine->address());
//   auto same = Segment::open(store.get_to_str("segment"), bytes);   // in another process
//
// A segment is a memfd that other processes open as /proc/PID/fd/FD. open() verifies that both
// processes are on one host: their boot ids, pid namespaces and network namespaces must be equal.
// The size of the memfd is sealed, so no process can truncate memory that another process uses.
// open() rejects any file whose size is not sealed.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace am::runtime::shared_memory {

class Segment {
 public:
  // Creates a segment of zeroed memory. Returns nothing if the system does not support this: /proc
  // or memfd is not available, or the memory cannot be mapped.
  static std::optional<Segment> create(size_t bytes);
  // Opens the segment at an address. Returns nothing if the segment cannot be opened: its creator
  // runs on another host or in another container, its address is closed, this process has no
  // permission, or its size is not `bytes`.
  static std::optional<Segment> open(const std::string& address, size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Returns the text with which another process opens the segment; valid until close_address().
  std::string address() const;
  // Closes the file descriptor; the memory stays mapped.
  void close_address();

 private:
  Segment(int fd, std::byte* data, size_t bytes) : fd_(fd), data_(data), bytes_(bytes) {}
  static std::optional<Segment> map(int fd, size_t bytes);

  int fd_ = -1;
  std::byte* data_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace am::runtime::shared_memory
