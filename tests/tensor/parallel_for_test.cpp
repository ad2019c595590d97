#include "am/tensor/parallel_for.h"

#include <ATen/Parallel.h>

#include <atomic>
#include <catch2/catch.hpp>
#include <mutex>
#include <set>
#include <thread>

#include "am/base/error.h"

using namespace am;

TEST_CASE("loops of our own run on several threads") {
  const int before = at::get_num_threads();
  at::set_num_threads(3);
  std::mutex mutex;
  std::set<std::thread::id> seen;
  std::atomic<int64_t> sum = 0;
  tensor::parallel_for(0, 300, 1, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) sum += i;
    const std::lock_guard lock(mutex);
    seen.insert(std::this_thread::get_id());
  });
  CHECK(sum == 300 * 299 / 2);
  CHECK(seen.size() == 3);
  CHECK_THROWS_AS(tensor::parallel_for(0, 300, 1,
                                       [](int64_t begin, int64_t) {
                                         if (begin > 0) throw Error(ErrorKind::kUsage, "enough");
                                       }),
                  Error);
  at::set_num_threads(before);
}
