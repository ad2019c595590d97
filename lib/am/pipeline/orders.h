// The order of passes on one rank, schedule by schedule: the formulas behind make_schedule().
//
// F, B, I, W stand for forward, whole backward, and its parts for input and weights; `v` for
// virtual stages, `pp` for ranks. "Side by side" ranks are aligned in slots: column k of all lists
// is one moment, when every pass takes one slot.
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/action.h"
#include "am/pipeline/shape.h"

namespace am::pipeline {

using SlotList = std::vector<Slot>;

// One stage a rank. No bubbles: insert_bubbles() finds them.
SlotList gpipe_order(const PipelineShape& shape, int64_t rank);
SlotList one_forward_one_backward_order(const PipelineShape& shape, int64_t rank);

// v stages a rank, assigned round. With their bubbles, but for interleaved_zero_bubble.
SlotList looped_bfs_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_1f1b_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_zero_bubble_order(const PipelineShape& shape, int64_t rank);

// Two stages a rank, laid as a V. With those bubbles that their construction knows.
SlotList zbv_zero_bubble_order(const PipelineShape& shape, int64_t rank);
SlotList dual_pipe_v_order(const PipelineShape& shape, int64_t rank);

// Aligns the lists in slots: a bubble wherever a rank's next pass needs something that another rank
// makes only in this slot or later. `backwards_wait`: backwards look for the gradient that they
// need, not only forwards for their input.
std::vector<SlotList> insert_bubbles(const std::vector<SlotList>& lists, const PipelineShape& shape,
                                     bool backwards_wait);

}  // namespace am::pipeline
