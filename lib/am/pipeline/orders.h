// Order of the actions on one rank for each schedule: the formulas behind make_schedule().
//
// F is a forward, B a whole backward, I and W its parts for the input and the weights; `v` is the
// number of virtual stages, `pp` the number of ranks. Lists with bubbles are aligned: column k of
// all lists is one point in time, given that every action takes one slot.
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/action.h"
#include "am/pipeline/shape.h"

namespace am::pipeline {

using SlotList = std::vector<Slot>;

// One stage per rank. Without bubbles, which insert_bubbles() adds.
SlotList gpipe_order(const PipelineShape& shape, int64_t rank);
SlotList one_forward_one_backward_order(const PipelineShape& shape, int64_t rank);

// v stages per rank, assigned round-robin. With bubbles, except interleaved_zero_bubble.
SlotList looped_bfs_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_1f1b_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_zero_bubble_order(const PipelineShape& shape, int64_t rank);

// Two stages per rank, arranged as a V. With only those bubbles that the construction inserts.
SlotList zbv_zero_bubble_order(const PipelineShape& shape, int64_t rank);
SlotList dual_pipe_v_order(const PipelineShape& shape, int64_t rank);

// Returns the lists aligned: with a bubble wherever a rank's next action needs a result that
// another rank computes in this slot or later. Forwards wait for their input; with
// `backwards_wait`, backwards also wait for their output's gradient.
std::vector<SlotList> insert_bubbles(const std::vector<SlotList>& lists, const PipelineShape& shape,
                                     bool backwards_wait);

}  // namespace am::pipeline
