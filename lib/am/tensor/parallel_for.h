// ATen's threads for loops of our own.
//
//   parallel_for(0, rows, 64, [&](int64_t begin, int64_t end) { ... rows [begin, end) ... });
//
// at::parallel_for is a template in a header, and runs on one thread wherever it is compiled
// without OpenMP. This is one place that is compiled with it (CMakeLists.txt).
#pragma once

#include <cstdint>
#include <functional>

namespace am::tensor {

// Calls `step` for parts of [begin, end), at once on as many threads as at::get_num_threads() says,
// this one among them, but on no more than there are `grain`s; on this one alone inside of another
// such loop.
// What one of them throws is thrown here, when all have ended.
void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end)>& step);

}  // namespace am::tensor
