// Loops on ATen's threads.
//
//   parallel_for(0, rows, 64, [&](int64_t begin, int64_t end) { .. });   // rows [begin, end)
//
// at::parallel_for is a template in a header, and runs on one thread in a file that is compiled
// without OpenMP. Only parallel_for.cpp is compiled with OpenMP (CMakeLists.txt).
#pragma once

#include <cstdint>
#include <functional>

namespace am::tensor {

// Calls `step` for parts of [begin, end) concurrently, on at most at::get_num_threads() threads
// (including the calling thread), and on at most one thread per `grain` indices. Inside the `step`
// of another parallel_for(), only the calling thread runs `step`. Rethrows an exception of `step`
// after all threads have finished.
void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t begin, int64_t end)>& step);

}  // namespace am::tensor
