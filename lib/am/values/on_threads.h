// Work on the blocks of a tensor by all threads that ATen has in this process.
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

// Numbers of threads are below this.
size_t most_threads();

// Calls work(thread, 0), .. work(thread, count - 1), each number once and in about that order,
// until one says false. What one of them throws ends the rest and is thrown here. Which thread does
// what is chance: work makes no collective calls.
void on_threads(size_t count, const std::function<bool(size_t thread, size_t number)>& work);

// What was found of numbered blocks, by whichever thread, in the order of the numbers: sums of it
// have the same bits on any number of threads.
template <typename Found>
class FoundInOrder {
 public:
  void add(size_t number, Found found) {
    const std::lock_guard lock(mutex_);
    found_.emplace(number, std::move(found));
  }
  // When all threads have ended.
  const std::map<size_t, Found>& all() const { return found_; }

 private:
  std::mutex mutex_;
  std::map<size_t, Found> found_;
};

}  // namespace am::values
