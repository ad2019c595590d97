#include "am/parallel/ep/row_exchange.h"

#include <ATen/ATen.h>

#include <numeric>
#include <utility>

#include "am/base/error.h"

namespace am::parallel::ep {

namespace {

int64_t total(const std::vector<int64_t>& rows) {
  return std::accumulate(rows.begin(), rows.end(), int64_t{0});
}

const at::TensorOptions kOnHost = at::TensorOptions(at::kLong).device(at::kCPU);

}  // namespace

at::Tensor exchange_counts(const std::vector<int64_t>& counts, bool on_meta,
                           const runtime::Group& group) {
  const int64_t ranks = group.size();
  const auto experts = static_cast<int64_t>(counts.size());
  AM_ASSERT(experts % ranks == 0, "the number of ranks does not divide the experts");
  const at::Tensor sent = at::tensor(counts, kOnHost).view({ranks, -1}).to(group.device());
  const at::Tensor received = at::empty_like(sent);
  const std::vector<int64_t> each(static_cast<size_t>(ranks), 1);
  group.all_to_all(received, sent, each, each);
  if (!on_meta) return received.cpu();
  std::vector<int64_t> even;
  for (const int64_t rows : nn::split_evenly(total(counts), ranks)) {
    const std::vector<int64_t> of_rank = nn::split_evenly(rows, experts / ranks);
    even.insert(even.end(), of_rank.begin(), of_rank.end());
  }
  return at::tensor(even, kOnHost).view({ranks, -1});
}

RowExchange::RowExchange(const nn::Placement& placed, const runtime::Group& group)
    : group_(group), received_Pe_(placed.received_Pe) {
  for (auto first = placed.counts.begin(); first != placed.counts.end(); first += experts()) {
    sent_P_.push_back(std::accumulate(first, first + experts(), int64_t{0}));
  }
}

int64_t RowExchange::sent_rows() const { return total(sent_P_); }

int64_t RowExchange::received(int64_t p, int64_t e) const {
  return received_Pe_.const_data_ptr<int64_t>()[p * experts() + e];
}

std::vector<int64_t> RowExchange::rows_of_experts() const {
  std::vector<int64_t> rows(static_cast<size_t>(experts()), 0);
  for (int64_t p = 0; p < ranks(); ++p) {
    for (int64_t e = 0; e < experts(); ++e) rows[static_cast<size_t>(e)] += received(p, e);
  }
  return rows;
}

std::vector<int64_t> RowExchange::received_of_ranks() const {
  std::vector<int64_t> rows(static_cast<size_t>(ranks()), 0);
  for (int64_t p = 0; p < ranks(); ++p) {
    for (int64_t e = 0; e < experts(); ++e) rows[static_cast<size_t>(p)] += received(p, e);
  }
  return rows;
}

RowExchange::Message RowExchange::begin(at::Tensor in, const std::vector<int64_t>& arriving,
                                        const std::vector<int64_t>& leaving) const {
  Message message;
  std::vector<int64_t> sizes = in.sizes().vec();
  sizes[0] = total(arriving);
  message.out = at::empty(sizes, in.options());
  message.in = std::move(in);
  message.pending = group_.all_to_all_async(message.out, message.in, arriving, leaving);
  return message;
}

RowExchange::Message RowExchange::begin_to_experts(at::Tensor rows) const {
  return begin(std::move(rows), received_of_ranks(), sent_P_);
}

std::vector<at::Tensor> RowExchange::end_to_experts(Message message) const {
  const at::Tensor sorted = message.ended([&](const at::Tensor& arrived) {
    const at::IntArrayRef counts(received_Pe_.const_data_ptr<int64_t>(),
                                 static_cast<size_t>(received_Pe_.numel()));
    const std::vector<at::Tensor> blocks = arrived.split_with_sizes(counts);
    std::vector<at::Tensor> ordered;
    for (int64_t e = 0; e < experts(); ++e) {
      for (int64_t p = 0; p < ranks(); ++p) {
        ordered.push_back(blocks[static_cast<size_t>(p * experts() + e)]);
      }
    }
    return at::cat(ordered);
  });
  return sorted.split_with_sizes(rows_of_experts());
}

RowExchange::Message RowExchange::begin_to_sources(at::TensorList of_expert) const {
  std::vector<std::vector<at::Tensor>> parts;  // rows to send back, by expert, then by rank
  for (int64_t e = 0; e < experts(); ++e) {
    std::vector<int64_t> rows;
    for (int64_t p = 0; p < ranks(); ++p) rows.push_back(received(p, e));
    parts.push_back(of_expert[static_cast<size_t>(e)].split_with_sizes(rows));
  }
  std::vector<at::Tensor> ordered;
  for (int64_t p = 0; p < ranks(); ++p) {
    for (const auto& each : parts) ordered.push_back(each[static_cast<size_t>(p)]);
  }
  return begin(at::cat(ordered), sent_P_, received_of_ranks());
}

}  // namespace am::parallel::ep
