// Reads data from disk on a separate thread, before the calling thread needs the data.
//
//   ReadAhead ahead(blocks.size(), [&](size_t i) { populate(bytes_of(blocks[i])); });
//   for (size_t i = 0; i < blocks.size(); ++i) {
//     ahead.reached(i);     // a thread prefetches i + 1 and i + 2 while this one uses block i
//     use(blocks[i]);
//   }
#pragma once

#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <span>
#include <thread>

namespace am {

// Reads a part of a mapped file from disk and maps all pages of the part, which avoids a page fault
// per page. Ignores errors, because they occur again when the part is used.
void populate(std::span<const std::byte> part);

// Calls touch(1), touch(2), ..., touch(count - 1) on a separate thread, at most `window` ahead of
// the last number passed to reached(). Numbers up to the last number passed to reached() are
// skipped. An exception of `touch` ends only the separate thread.
class ReadAhead {
 public:
  ReadAhead(size_t count, std::function<void(size_t)> touch, size_t window = 2);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  // Waits for the call of `touch` that is in progress.
  ~ReadAhead();

  void reached(size_t number);

 private:
  void run();

  const size_t count_;
  const size_t window_;
  const std::function<void(size_t)> touch_;
  std::mutex mutex_;
  std::condition_variable changed_;
  size_t reached_ = 0;
  bool over_ = false;
  std::thread thread_;
};

}  // namespace am
