#include "support/stream_order.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <utility>

#include "am/base/text.h"

namespace am::test {

namespace {

void join_clocks(StreamOrder::Clock& clock, const StreamOrder::Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size(), 0);
  for (size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

}  // namespace

// Returns the clock of all operations that are ordered before the stream's next operation. These
// include all operations for which the host has waited, because they finish before the host
// enqueues the next operation.
StreamOrder::Clock& StreamOrder::clock(size_t stream) {
  Clock& clock = clocks_[stream];
  if (clock.size() <= stream) clock.resize(stream + 1, 0);
  join_clocks(clock, host_);
  return clock;
}

StreamOrder::Allocation* StreamOrder::find(const void* address) {
  const auto* byte = static_cast<const char*>(address);
  auto next = allocations_.upper_bound(byte);
  if (next == allocations_.begin()) return nullptr;
  auto& [start, allocation] = *std::prev(next);
  return std::less<>()(byte, start + allocation.bytes) ? &allocation : nullptr;
}

void StreamOrder::check(size_t stream, const Access& before, size_t by, const std::string& name) {
  const Clock& known = clock(stream);
  if (by == stream || before.time <= (by < known.size() ? known[by] : 0)) return;
  races_.push_back(cat(name, " on stream ", stream, " does not wait for ", before.name,
                       " on stream ", by, " of the same memory"));
}

void StreamOrder::check_reads(const Allocation& allocation, size_t stream,
                              const std::string& name) {
  for (const auto& [reader, access] : allocation.reads) check(stream, access, reader, name);
}

void StreamOrder::work(size_t stream, const std::string& name, const std::vector<const void*>& read,
                       const std::vector<const void*>& written) {
  const std::lock_guard lock(mutex_);
  const Access access = {++clock(stream)[stream], name};
  for (const void* address : read) {
    Allocation* allocation = find(address);
    if (allocation == nullptr) continue;
    check(stream, allocation->write, allocation->writer, name);
    allocation->reads[stream] = access;
  }
  for (const void* address : written) {
    Allocation* allocation = find(address);
    if (allocation == nullptr) continue;
    check(stream, allocation->write, allocation->writer, name);
    check_reads(*allocation, stream, name);
    allocation->reads.clear();
    allocation->writer = stream;
    allocation->write = access;
  }
}

void StreamOrder::allocate(const void* start, size_t bytes, size_t stream) {
  const std::lock_guard lock(mutex_);
  allocations_[static_cast<const char*>(start)] = {bytes, stream, stream, {}, {}};
}

void StreamOrder::free(const void* start) {
  const std::lock_guard lock(mutex_);
  const auto found = allocations_.find(static_cast<const char*>(start));
  if (found == allocations_.end()) return;
  const Allocation& allocation = found->second;
  check(allocation.stream, allocation.write, allocation.writer, "the end of an allocation");
  check_reads(allocation, allocation.stream, "the end of an allocation");
  allocations_.erase(found);
}

StreamOrder::Clock StreamOrder::record(size_t stream) {
  const std::lock_guard lock(mutex_);
  return clock(stream);
}

void StreamOrder::wait(size_t stream, const Clock& until) {
  const std::lock_guard lock(mutex_);
  Clock& known = clock(stream);
  Clock joined = known;
  join_clocks(joined, until);
  if (joined == known) return;
  if (++waits_ != lost_) known = std::move(joined);
}

void StreamOrder::lose_wait(uint64_t n) {
  const std::lock_guard lock(mutex_);
  waits_ = 0;
  lost_ = n;
}

uint64_t StreamOrder::waits() {
  const std::lock_guard lock(mutex_);
  return waits_;
}

void StreamOrder::host_waits(const Clock& until) {
  const std::lock_guard lock(mutex_);
  join_clocks(host_, until);
}

bool StreamOrder::host_knows(const Clock& clock) {
  const std::lock_guard lock(mutex_);
  host_.resize(std::max(host_.size(), clock.size()), 0);
  return std::equal(clock.begin(), clock.end(), host_.begin(), std::less_equal<>());
}

std::vector<std::string> StreamOrder::take_races() {
  const std::lock_guard lock(mutex_);
  return std::exchange(races_, {});
}

}  // namespace am::test
