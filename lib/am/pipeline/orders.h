// The order of one rank's actions in each schedule: the formulas behind make_schedule(). `rank` is
// an index along pp.
//
// In lists that contain all their bubbles (empty slots), slot k is the same point in time on all
// ranks, if every action takes one slot. Legend: v virtual stages, the number of stages of each
// rank.
#pragma once

#include <cstdint>
#include <vector>

#include "am/pipeline/action.h"
#include "am/pipeline/shape.h"

namespace am::pipeline {

using SlotList = std::vector<Slot>;

// Orders with one stage per rank. They contain no bubbles; make_schedule() adds the bubbles with
// insert_bubbles().
SlotList gpipe_order(const PipelineShape& shape, int64_t rank);
SlotList one_forward_one_backward_order(const PipelineShape& shape, int64_t rank);

// Orders with v stages per rank, assigned round-robin. They contain bubbles. make_schedule() adds
// further bubbles, with insert_bubbles(), to interleaved_zero_bubble only.
SlotList looped_bfs_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_1f1b_order(const PipelineShape& shape, int64_t rank);
SlotList interleaved_zero_bubble_order(const PipelineShape& shape, int64_t rank);

// Orders with two stages per rank, arranged as a V. They contain all their bubbles; make_schedule()
// adds none.
SlotList zbv_zero_bubble_order(const PipelineShape& shape, int64_t rank);
SlotList dual_pipe_v_order(const PipelineShape& shape, int64_t rank);

// Returns the lists with bubbles inserted: one in each slot in which a rank waits for a result that
// is not computed yet. Forwards wait for their input. Backwards wait for the gradient of their
// output only if `backwards_wait`.
std::vector<SlotList> insert_bubbles(const std::vector<SlotList>& lists, const PipelineShape& shape,
                                     bool backwards_wait);

}  // namespace am::pipeline
