#include "am/planner/context.h"

namespace am::planner {

mesh::SequenceOrder sequence_order(const config::Plan& plan) {
  return plan.context.method == "ulysses" ? mesh::SequenceOrder::kContiguous
                                          : mesh::SequenceOrder::kHeadTail;
}

mesh::SequenceCut sequence_cut(const config::Plan& plan, const mesh::MeshSizes& sizes,
                               bool sequence_parallel) {
  return mesh::cut_sequence({.length = plan.train.seq_len,
                             .ranks = sizes.cp,
                             .order = sequence_order(plan),
                             .pieces = sequence_parallel ? sizes.tp : 1});
}

}  // namespace am::planner
