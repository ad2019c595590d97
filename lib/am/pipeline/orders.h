// The order of one rank's actions in each schedule: the formulas behind make_schedule().
//
// F is a forward, B a whole backward, I and W its parts for the input and the weights; `v` is the
// number of virtual stages, `pp` the number of ranks. Lists with all their bubbles are aligned:
// column k of all lists is one point in time if every action takes one slot.
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/action.h"
#include "am/pipeline/shape.h"

namespace am::pipeline {

using SlotList = std::vector<Slot>;

// Orders with one stage per rank. They have no bubbles: insert_bubbles() adds them.
SlotList gpipe_order(const PipelineShape& shape, int64_t rank);
SlotList one_forward_one_backward_order(const PipelineShape& shape, int64_t rank);

// Orders with v stages per rank, assigned round-robin. They contain bubbles; insert_bubbles() adds
// further bubbles to interleaved_zero_bubble only.
SlotList looped_bfs_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_1f1b_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_zero_bubble_order(const PipelineShape& shape, int64_t rank);

// Orders with two stages per rank, arranged as a V. They contain their own bubbles;
// insert_bubbles() is not applied.
SlotList zbv_zero_bubble_order(const PipelineShape& shape, int64_t rank);
SlotList dual_pipe_v_order(const PipelineShape& shape, int64_t rank);

// Returns the lists with bubbles inserted: one in each slot in which a rank waits for a result that
// another rank has not yet computed. Forwards wait for their input. Backwards wait for the gradient
// of their output only if `backwards_wait`.
std::vector<SlotList> insert_bubbles(const std::vector<SlotList>& lists, const PipelineShape& shape,
                                     bool backwards_wait);

}  // namespace am::pipeline
