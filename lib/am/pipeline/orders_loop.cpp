// gpipe (Huang et al., 2019), 1f1b (Narayanan et al., 2021), looped_bfs (Lamy-Poirier, 2022).
#include <algorithm>

#include "am/pipeline/orders.h"

namespace am::pipeline {
namespace {

Action pass(Kind kind, int64_t stage, int64_t micro_batch) {
  return {kind, static_cast<int32_t>(stage), static_cast<int32_t>(micro_batch)};
}

}  // namespace

SlotList gpipe_order(const PipelineShape& shape, int64_t rank) {
  SlotList order;
  for (const Kind kind : {Kind::kForward, Kind::kBackward}) {
    for (int64_t m = 0; m < shape.microbatches; ++m) order.emplace_back(pass(kind, rank, m));
  }
  return order;
}

// A rank first runs one forward for each stage from its own stage to the last stage, both included
// (or all forwards, if there are fewer). After that, backwards and forwards alternate.
SlotList one_forward_one_backward_order(const PipelineShape& shape, int64_t rank) {
  const int64_t filling = std::min(shape.microbatches, shape.pp - rank);
  SlotList order;
  for (int64_t m = 0; m < filling; ++m) order.emplace_back(pass(Kind::kForward, rank, m));
  for (int64_t m = 0; m < shape.microbatches; ++m) {
    order.emplace_back(pass(Kind::kBackward, rank, m));
    const int64_t next = filling + m;
    if (next < shape.microbatches) order.emplace_back(pass(Kind::kForward, rank, next));
  }
  return order;
}

// A rank runs a stage on all micro-batches before it continues with its next stage.
SlotList looped_bfs_order(const PipelineShape& shape, int64_t rank) {
  SlotList order(static_cast<size_t>(rank));
  for (int64_t lap = 0; lap < shape.virtual_stages; ++lap) {
    for (int64_t m = 0; m < shape.microbatches; ++m) {
      order.emplace_back(pass(Kind::kForward, lap * shape.pp + rank, m));
    }
  }
  order.resize(order.size() + static_cast<size_t>(2 * (shape.pp - 1 - rank)));
  for (int64_t lap = shape.virtual_stages - 1; lap >= 0; --lap) {
    for (int64_t m = shape.microbatches - 1; m >= 0; --m) {
      order.emplace_back(pass(Kind::kBackward, lap * shape.pp + rank, m));
    }
  }
  return order;
}

}  // namespace am::pipeline
