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

// Upper bound of the thread numbers.
size_t most_threads();

// Calls work(thread, 0), .. work(thread, count - 1), each number once and approximately in order,
// until a call returns false. An exception from `work` ends the rest and is rethrown here. The
// assignment of numbers to threads is arbitrary, so `work` must not make collective calls.
void on_threads(size_t count, const std::function<bool(size_t thread, size_t number)>& work);

// Results of numbered blocks, added by any thread and kept in the order of the numbers: their sums
// have the same bits on any number of threads.
template <typename Found>
class FoundInOrder {
 public:
  void add(size_t number, Found found) {
    const std::lock_guard lock(mutex_);
    found_.emplace(number, std::move(found));
  }
  // Call only after all threads have finished.
  const std::map<size_t, Found>& all() const { return found_; }

 private:
  std::mutex mutex_;
  std::map<size_t, Found> found_;
};

}  // namespace am::values
