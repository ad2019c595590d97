// Detects races on a device's memory with vector clocks, like PyTorch's CUDA sanitizer.
//
// Work of one stream is ordered; waiting for an event orders the work before its recording before
// the work after the wait. Two unordered pieces of work on one allocation, at least one of which
// writes, are a race: the values depend on timing. An allocation is reused in the order of its own
// stream, so freeing it counts as a write there.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace am::test {

// Tracks one device. Streams are numbered from 0. Thread-safe.
class StreamOrder {
 public:
  using Clock = std::vector<uint64_t>;  // number of finished pieces of work, by stream

  // Work of `stream` on allocations, each by an address inside of it. Addresses outside of any are
  // passed over.
  void work(size_t stream, const std::string& name, const std::vector<const void*>& read,
            const std::vector<const void*>& written);

  void allocate(const void* start, size_t bytes, size_t stream);
  // Never throws: a race is kept for take_races().
  void free(const void* start);

  Clock record(size_t stream);
  void wait(size_t stream, const Clock& until);
  // Restarts the count of streams' waits; the n-th from now on, counted from 1, has no effect. 0:
  // all have.
  void lose_wait(uint64_t n);
  // Returns the number of streams' waits since lose_wait(). A wait without new work is not counted.
  uint64_t waits();
  void host_waits(const Clock& until);
  // Whether the host has waited for all work of `clock`.
  bool host_knows(const Clock& clock);

  // Returns and clears the races, a sentence each, in order of discovery.
  std::vector<std::string> take_races();

 private:
  struct Access {
    uint64_t time = 0;  // 0: none
    std::string name;
  };
  struct Allocation {
    size_t bytes = 0;
    size_t stream = 0;
    size_t writer = 0;
    Access write;
    std::map<size_t, Access> reads;  // last read, by stream
  };

  Clock& clock(size_t stream);
  Allocation* find(const void* address);
  void check(size_t stream, const Access& before, size_t by, const std::string& name);
  void check_reads(const Allocation& allocation, size_t stream, const std::string& name);

  std::mutex mutex_;
  std::map<size_t, Clock> clocks_;
  Clock host_;
  uint64_t waits_ = 0;
  uint64_t lost_ = 0;
  std::map<const char*, Allocation> allocations_;
  std::vector<std::string> races_;
};

}  // namespace am::test
