#include "am/values/on_threads.h"

#include <ATen/Parallel.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "am/tensor/parallel_for.h"

namespace am::values {

size_t most_threads() { return static_cast<size_t>(std::max(at::get_num_threads(), 1)); }

void on_threads(size_t count, const std::function<bool(size_t thread, size_t number)>& work) {
  const size_t threads = std::min(count, most_threads());
  std::atomic<size_t> next = 0;
  std::atomic<bool> over = false;
  const auto run = [&](size_t thread) {
    try {
      for (size_t number = next++; number < count && !over; number = next++) {
        if (!work(thread, number)) over = true;
      }
    } catch (...) {
      over = true;
      throw;
    }
  };
  tensor::parallel_for(0, static_cast<int64_t>(threads), 1, [&](int64_t first, int64_t end) {
    for (int64_t thread = first; thread < end; ++thread) run(static_cast<size_t>(thread));
  });
}

}  // namespace am::values
