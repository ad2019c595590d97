#include "am/tensor/parallel_for.h"

#include <ATen/Parallel.h>

#if AT_PARALLEL_OPENMP && !defined(_OPENMP)
#error "at::parallel_for would run on one thread: this file is to be compiled with OpenMP"
#endif

namespace am::tensor {

void parallel_for(int64_t begin, int64_t end, int64_t grain,
                  const std::function<void(int64_t, int64_t)>& step) {
  at::parallel_for(begin, end, grain, step);
}

}  // namespace am::tensor
