#include "am/layout/context.h"

#include <algorithm>
#include <numeric>

namespace am::layout {

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

int64_t key_head_copies(int64_t ranks, int64_t key_heads) {
  return ranks / std::gcd(ranks, std::max<int64_t>(1, key_heads));
}

ContextBytes context_bytes(std::string_view method, const mesh::SequenceCut& cut,
                           const ContextAttention& a) {
  constexpr double kWide = 4.0;
  const auto ranks = static_cast<double>(cut.ranks);
  const double rows = a.batch * static_cast<double>(cut.local());
  const double pair = rows * a.key_heads * (a.key_width + a.value_width);
  if (method == "ulysses") {
    const auto copies =
        static_cast<double>(key_head_copies(cut.ranks, static_cast<int64_t>(a.key_heads)));
    const double whole = rows * a.heads * (a.key_width + a.value_width) + copies * pair;
    const double sent = whole * (ranks - 1.0) / ranks * a.element_bytes;
    return {sent, sent};
  }
  if (method == "all_gather") {
    const double gathered = (ranks - 1.0) * pair * a.element_bytes;
    return {gathered, gathered + (ranks - 1.0) * pair * kWide};
  }
  const auto steps = static_cast<double>(mesh::ring_steps(cut, a.window).size());
  const double passed = (steps - 1.0) * pair * a.element_bytes;
  return {passed, passed + (steps > 1.0 ? steps * pair * kWide : 0.0)};
}

}  // namespace am::layout
