// All-to-all exchange of tokens' rows between the ranks of the tokens and the ranks of their
// experts.
//
// A rank sorts its rows by expert, so that the rows for one rank are contiguous. Rows arrive sorted
// by source rank and are regrouped by expert, each expert's rows in the order of the source ranks.
// On the way back, every rank returns to each rank as many rows as it received from that rank.
// Legend: P ranks, e experts of a rank, R rows of this rank's tokens, one per token and chosen
// expert.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <vector>

#include "am/nn/experts/dispatch.h"
#include "am/parallel/param_group/freed_storage.h"
#include "am/runtime/group.h"

namespace am::parallel::ep {

// Returns the number of rows that each rank sends to each of this rank's experts: int64 [P, e] on
// the host. `counts`: number of this rank's rows for each of all P * e experts. Collective. If
// `on_meta`, the tokens are on the meta device and have no values: returns the total of `counts`
// instead, split evenly over ranks and experts.
at::Tensor exchange_counts(const std::vector<int64_t>& counts, bool on_meta,
                           const runtime::Group& group);

class RowExchange {
 public:
  RowExchange(const nn::Placement& placed, const runtime::Group& group);

  // An all-to-all in progress. ended() frees the memory of both buffers explicitly, because a
  // thread of the collective may keep references to them for some time after the collective has
  // ended.
  struct Message {
    at::Tensor out, in;  // buffers of the received rows and of the sent rows
    runtime::Pending pending;

    // Waits for the message and returns make(received rows).
    template <typename Make>
    auto ended(const Make& make);
  };
  // Starts to send rows, which are sorted by expert, to the ranks of their experts.
  Message begin_to_experts(at::Tensor rows) const;
  // Waits for a message of begin_to_experts(). Returns the received rows of each local expert.
  std::vector<at::Tensor> end_to_experts(Message message) const;
  // Starts to send the rows of each local expert back to their source ranks. Each rank receives its
  // R rows.
  Message begin_to_sources(at::TensorList of_expert) const;

  // Returns R, the number of rows of this rank's tokens.
  int64_t sent_rows() const;
  // Returns, for each local expert, the number of rows from all ranks together.
  std::vector<int64_t> rows_of_experts() const;

 private:
  int64_t ranks() const { return received_Pe_.size(0); }
  int64_t experts() const { return received_Pe_.size(1); }
  // Returns the number of rows from rank p for local expert e.
  int64_t received(int64_t p, int64_t e) const;
  // Returns, for each rank, the number of rows from that rank for all local experts together.
  std::vector<int64_t> received_of_ranks() const;
  // Starts an all-to-all of the rows `in`. `arriving`, `leaving`: number of rows from and to each
  // rank.
  Message begin(at::Tensor in, const std::vector<int64_t>& arriving,
                const std::vector<int64_t>& leaving) const;

  const runtime::Group& group_;
  std::vector<int64_t> sent_P_;  // number of this rank's rows for the experts of each rank
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
