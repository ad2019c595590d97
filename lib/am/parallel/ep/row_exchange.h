// Rows of tokens between the ranks that have them and those that have their experts.
//
// A rank's rows lie sorted by expert, so that those for one rank are neighbours; what arrives is
// sorted by rank, and put together expert by expert, for one expert in the order of the ranks. The
// way back is the same with the numbers of the other side. Legend: P ranks, D hidden, e experts of
// a rank, R rows that this rank's tokens take.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/nn/experts/dispatch.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/runtime/group.h"

namespace am::parallel::ep {

// How many rows each rank has for each of this one's experts: int64 [P, e] on the host, of this
// rank's counts for all P e experts. Collective. On the meta device as many as this rank sends, and
// from each rank as many as from the next.
at::Tensor exchange_counts(const std::vector<int64_t>& counts, bool on_meta,
                           const runtime::Group& group);

class RowExchange {
 public:
  RowExchange(const nn::Placement& placed, const runtime::Group& group);

  // A message that is under way. Who waits for it frees what it carried: the threads of a
  // collective hold its tensors until they are scheduled again.
  struct Message {
    at::Tensor out, in;
    runtime::Pending pending;

    // What `make` makes of what has arrived.
    template <typename Make>
    auto ended(const Make& make);
  };
  // rows_R.. that lie sorted by expert -> the ranks of their experts.
  Message begin_to_experts(at::Tensor rows) const;
  // What arrived of it, of each expert here.
  std::vector<at::Tensor> end_to_experts(Message message) const;
  // Rows of each expert here -> R of them where they came from.
  Message begin_to_sources(at::TensorList of_expert) const;

  // R.
  int64_t sent_rows() const;
  // Of each expert here.
  std::vector<int64_t> rows_of_experts() const;

 private:
  int64_t ranks() const { return received_Pe_.size(0); }
  int64_t experts() const { return received_Pe_.size(1); }
  // From a rank, of an expert.
  int64_t received(int64_t p, int64_t e) const;
  std::vector<int64_t> received_of_ranks() const;
  Message begin(at::Tensor in, const std::vector<int64_t>& arriving,
                const std::vector<int64_t>& leaving) const;

  const runtime::Group& group_;
  std::vector<int64_t> sent_P_;
  at::Tensor received_Pe_;
};

template <typename Make>
auto RowExchange::Message::ended(const Make& make) {
  pending.wait();
  free_storage(in, nullptr);
  auto made = make(out);
  free_storage(out, nullptr);
  return made;
}

}  // namespace am::parallel::ep
