// All-to-all exchange of tokens' rows between the ranks of the tokens and the ranks of their
// experts.
//
// A rank sorts its rows by expert, so that the rows for one rank are contiguous. Rows arrive sorted
// by source rank and are regrouped by expert, each expert's rows in the order of the source ranks.
// On the way back, sent and received counts are swapped. Legend: P ranks, D hidden, e experts of a
// rank, R rows of this rank's tokens, one per token and chosen expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/nn/experts/dispatch.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/runtime/group.h"

namespace am::parallel::ep {

// Returns the number of rows that each rank sends to each of this rank's experts: int64 [P, e] on
// the host. `counts`: number of this rank's rows for each of all P * e experts. Collective. On the
// meta device, received counts have no values: the result then is the number of rows that this rank
// sends, distributed evenly over ranks and experts.
at::Tensor exchange_counts(const std::vector<int64_t>& counts, bool on_meta,
                           const runtime::Group& group);

class RowExchange {
 public:
  RowExchange(const nn::Placement& placed, const runtime::Group& group);

  // A message in progress. ended() waits for it and frees the memory of both buffers explicitly,
  // because the threads of a collective keep references to its tensors until these threads are
  // scheduled again.
  struct Message {
    at::Tensor out, in;
    runtime::Pending pending;

    // Waits for the message and returns make(received rows).
    template <typename Make>
    auto ended(const Make& make);
  };
  // Sends rows, which are sorted by expert, to the ranks of their experts.
  Message begin_to_experts(at::Tensor rows) const;
  // Returns the received rows of each local expert.
  std::vector<at::Tensor> end_to_experts(Message message) const;
  // Sends the rows of each local expert back to the ranks that they came from; each rank receives
  // its R rows.
  Message begin_to_sources(at::TensorList of_expert) const;

  // Returns R, the number of rows of this rank's tokens.
  int64_t sent_rows() const;
  // Returns the number of rows of each local expert.
  std::vector<int64_t> rows_of_experts() const;

 private:
  int64_t ranks() const { return received_Pe_.size(0); }
  int64_t experts() const { return received_Pe_.size(1); }
  // Returns the number of rows from rank p for local expert e.
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
