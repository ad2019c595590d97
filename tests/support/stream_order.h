// Detects races on a device's memory with vector clocks, like PyTorch's CUDA sanitizer.
//
// Operations on one stream are ordered. Waiting for an event orders all operations before the
// event's recording before those after the wait. A race is a pair of unordered operations on one
// allocation, at least one of which writes: the values then depend on timing. Freeing an allocation
// counts as a write on the allocation's own stream, because the allocator reuses memory in that
// stream's order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

namespace am::test {

// Detects the races of one device. Streams are numbered from 0. Thread-safe.
class StreamOrder {
 public:
  // A point in the order: for each stream, the number of its operations before this point.
  using Clock = std::vector<uint64_t>;

  // Records an operation of `stream` that reads and writes allocations. Each address is inside one
  // allocation; addresses outside of all allocations are ignored.
  void work(size_t stream, const std::string& name, const std::vector<const void*>& read,
            const std::vector<const void*>& written);

  // Adds an allocation whose own stream is `stream`.
  void allocate(const void* start, size_t bytes, size_t stream);
  // Never throws; take_races() returns a race that freeing causes.
  void free(const void* start);

  // Returns the clock of an event that is recorded on the stream now.
  Clock record(size_t stream);
  // Orders all operations that `until` counts before the next operation of the stream.
  void wait(size_t stream, const Clock& until);
  // Restarts the count of waits between streams, and makes the n-th wait from now on, counted from
  // 1, have no effect. For n = 0, all waits have an effect.
  void lose_wait(uint64_t n);
  // Returns the number of waits between streams since lose_wait(). A wait that adds no ordering is
  // not counted.
  uint64_t waits();
  // Orders all operations that `until` counts before the next operation of every stream.
  void host_waits(const Clock& until);
  // Returns whether the host has waited for all operations that `clock` counts.
  bool host_knows(const Clock& clock);

  // Returns the races in order of discovery, one sentence each, and clears the list.
  std::vector<std::string> take_races();

 private:
  struct Access {
    uint64_t time = 0;  // 0: no access yet
    std::string name;
  };
  struct Allocation {
    size_t bytes = 0;
    size_t stream = 0;
    size_t writer = 0;
    Access write;
    std::map<size_t, Access> reads;  // last read of each stream
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
