// Memory shared by processes of one host, without a name: nothing remains in /dev/shm if they are
// killed, and a container's small /dev/shm does not limit it.
//
//   auto mine = Segment::create(bytes);             // pages are allocated at the first write
//   store.set("segment", mine->address());
//   auto same = Segment::open(store.get_to_str("segment"), bytes);   // in another process
//
// It is a memfd that others open as /proc/PID/fd/FD. open() verifies that both processes are on one
// host: same boot, same namespaces of process ids and networks, and the segment opens. Its size is
// sealed, so that no process can truncate memory that another uses; and only memory of sealed size
// is opened, whatever an address names.
#pragma once

#include <cstddef>
#include <optional>
#include <string>

namespace am::runtime::shared_memory {

class Segment {
 public:
  // The memory is zeroed. Returns nothing if the system does not support it.
  static std::optional<Segment> create(size_t bytes);
  // Opens the segment at that address. Returns nothing if it cannot be reached: another host,
  // container or user, a closed segment, another size.
  static std::optional<Segment> open(const std::string& address, size_t bytes);

  Segment(Segment&& other) noexcept;
  Segment& operator=(Segment&& other) noexcept;
  ~Segment();

  std::byte* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  // Returns the text by which another process opens the segment; valid until close_address().
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
