#include "am/base/read_ahead.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <exception>
#include <utility>

namespace am {

#ifndef MADV_POPULATE_READ
constexpr int MADV_POPULATE_READ = 22;  // Linux 5.14
#endif

void populate(std::span<const std::byte> part) {
  if (part.empty()) return;
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto begin = reinterpret_cast<uintptr_t>(part.data()) / page * page;
  const size_t bytes = reinterpret_cast<uintptr_t>(part.data()) + part.size() - begin;
  auto* pages = reinterpret_cast<void*>(begin);  // NOLINT(performance-no-int-to-ptr)
  // The first call starts large reads, the second waits for them and maps the pages.
  ::madvise(pages, bytes, MADV_WILLNEED);
  ::madvise(pages, bytes, MADV_POPULATE_READ);
}

ReadAhead::ReadAhead(size_t count, std::function<void(size_t)> touch, size_t window)
    : count_(count), window_(window), touch_(std::move(touch)), thread_([this] { run(); }) {}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_one();
  thread_.join();
}

void ReadAhead::reached(size_t number) {
  {
    const std::lock_guard lock(mutex_);
    reached_ = number;
  }
  changed_.notify_one();
}

void ReadAhead::run() {
  try {
    for (size_t i = 1; i < count_; ++i) {
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [&] { return over_ || i <= reached_ + window_; });
        if (over_) return;
        if (i <= reached_) continue;  // the caller of reached() is already at i
      }
      touch_(i);
    }
  } catch (const std::exception&) {
    // The error is ignored, because the thread that reads the same data reports it.
  }
}

}  // namespace am
