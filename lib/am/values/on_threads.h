// Processes the blocks of a tensor on all ATen threads of this process.
//
//   on_threads(blocks.size(), [&](size_t thread, size_t number) {
//     use(blocks[number], buffers[thread]);
//     return true;
//   });
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <utility>

namespace am::values {

// Returns the largest number of threads that on_threads() uses. The indices `thread` that
// on_threads() passes to `work` are smaller than this number.
size_t most_threads();

// Calls work(thread, number) once for each number from 0 to count - 1, approximately in ascending
// order, until a call returns false or throws. Rethrows the exception of `work`. The assignment of
// numbers to threads is arbitrary, so `work` must not call collectives.
void on_threads(size_t count, const std::function<bool(size_t thread, size_t number)>& work);

// Collects the results of numbered blocks from several threads, and orders them by block number. A
// floating-point sum in this order has the same bits for any number of threads.
template <typename Found>
class FoundInOrder {
 public:
  void add(size_t number, Found found) {
    const std::lock_guard lock(mutex_);
    found_.emplace(number, std::move(found));
  }
  // Returns the results in the order of the block numbers. All threads must have finished.
  const std::map<size_t, Found>& all() const { return found_; }

 private:
  std::mutex mutex_;
  std::map<size_t, Found> found_;
};

}  // namespace am::values
