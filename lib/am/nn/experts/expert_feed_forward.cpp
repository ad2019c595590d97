#include "am/nn/experts/expert_feed_forward.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <utility>

#include "am/nn/autocast.h"
#include "am/nn/experts/row_chunks.h"
#include "am/nn/experts/weighed_down.h"
#include "am/nn/fused/gated.h"

namespace am::nn {

namespace {

// Returns the output of one expert for rows_RD. Each row of the output is multiplied by its weight
// if weight_R is defined.
at::Tensor passed(const Expert& expert, const at::Tensor& rows_RD, const at::Tensor& weight_R,
                  model::Activation activation, bool keeps_gate, bool unread,
                  RecomputeTape& products) {
  const at::Tensor gate_RF = products.multiply(
      expert.gate_proj, rows_RD, keeps_gate ? Recompute::kSave : Recompute::kRecompute);
  const at::Tensor up_RF = expert.up_proj.product(rows_RD);
  if (expert.down_proj.adapter) {
    const at::Tensor y_RD = products.multiply(
        expert.down_proj, fused::gated(gate_RF, up_RF, activation), Recompute::kRecompute);
    return weight_R.defined() ? y_RD * weight_R.unsqueeze(1) : y_RD;
  }
  return weighed_down(gate_RF, up_RF, weight_R, expert.down_proj.weight->value, activation, unread);
}

// Returns x in the autocast dtype if autocast is on. One cast serves all products that read x.
at::Tensor narrowed(const at::Tensor& x_ND) {
  const auto dtype = current_autocast(x_ND.device().type()).dtype;
  return dtype ? x_ND.to(*dtype) : x_ND;
}

at::Tensor on_host(const std::vector<int64_t>& counts) {
  return at::tensor(counts, at::TensorOptions(at::kLong).device(at::kCPU));
}

}  // namespace

std::vector<int64_t> ExpertFeedForward::counts_of_padding(const at::Tensor& ids_Nk,
                                                          int64_t sequences) const {
  if (padding == 0) return std::vector<int64_t>(static_cast<size_t>(count()));
  const at::Tensor ids_Btk = ids_Nk.unflatten(0, {sequences, -1});
  const at::Tensor behind_Btk = ids_Btk.narrow(1, ids_Btk.size(1) - padding, padding);
  return place_by_expert(behind_Btk.flatten(0, 1), count()).counts;
}

// Chooses each token's experts and their weights. A recomputation reuses the choice of the first
// run, and does not count the tokens again.
ExpertFeedForward::Chosen ExpertFeedForward::choose(const at::Tensor& x_ND, int64_t sequences,
                                                    RecomputeTape& products) const {
  Chosen chosen;
  const SequenceBalance balanced = {balance_factor, sequences, padding, sum_of_sequences};
  const auto make = [&]() -> Tensors {
    const Routing routing = router(x_ND, balanced);
    if (routing.balance.defined()) {
      balance = balance.defined() ? balance + routing.balance : routing.balance;
    }
    chosen.weights_Nk = routing.weights_Nk;
    Placement placed = dispatcher->place(routing.ids_Nk, count());
    counts.resize(placed.routed.size());
    const std::vector<int64_t> nothing = counts_of_padding(routing.ids_Nk, sequences);
    for (size_t e = 0; e < counts.size(); ++e) counts[e] += placed.routed[e] - nothing[e];
    return {routing.ids_Nk,         placed.slot_Nk,     placed.token_R,
            on_host(placed.counts), placed.received_Pe, routing.sequence_weights_BE};
  };
  const Tensors kept = products.chosen(6, make);
  chosen.ids_Nk = kept[0];
  chosen.placed = {.slot_Nk = kept[1], .token_R = kept[2], .received_Pe = kept[4]};
  const auto* first = kept[3].const_data_ptr<int64_t>();
  chosen.placed.counts.assign(first, first + count());
  if (!chosen.weights_Nk.defined()) {
    const Routing known = {.ids_Nk = chosen.ids_Nk, .sequence_weights_BE = kept[5]};
    chosen.weights_Nk = router(x_ND, balanced, known).weights_Nk;
  }
  return chosen;
}

at::Tensor ExpertFeedForward::shared_product(const at::Tensor& x_ND, bool keeps_gate, bool unread,
                                             RecomputeTape& products) const {
  at::Tensor share_N;
  if (shared_weigher) share_N = (*shared_weigher)(x_ND).sigmoid().squeeze(1);
  return passed(*shared, x_ND, share_N, activation, keeps_gate, unread, products);
}

Tensors ExpertFeedForward::routed(const Dispatched& dispatched, int64_t even, bool keeps_gate,
                                  bool unread, RecomputeTape& products) const {
  std::vector<int64_t> counts_here;
  for (const at::Tensor& each : dispatched.rows) counts_here.push_back(each.size(0));
  const std::vector<std::vector<int64_t>> chunks = row_chunks(counts_here, even);
  if (chunks.size() == 1) return computed(dispatched, keeps_gate, unread, products);
  std::vector<Dispatched> parts(chunks.size());
  for (size_t e = 0; e < counts_here.size(); ++e) {
    std::vector<int64_t> lengths;
    for (const auto& chunk : chunks) lengths.push_back(chunk[e]);
    const Tensors rows = dispatched.rows[e].split_with_sizes(lengths);
    const Tensors weights = dispatched.weights[e].split_with_sizes(lengths);
    for (size_t c = 0; c < parts.size(); ++c) {
      parts[c].rows.push_back(rows[c]);
      parts[c].weights.push_back(weights[c]);
    }
  }
  // The first part of the rows runs through all experts, including those without rows, so that
  // every weight has a gradient.
  std::vector<Tensors> made = {computed(parts.front(), keeps_gate, unread, products)};
  for (size_t c = 1; c < parts.size(); ++c) made.push_back(surplus(parts[c], unread));
  Tensors out;
  for (size_t e = 0; e < counts_here.size(); ++e) {
    Tensors of_expert;
    for (const Tensors& part : made) {
      if (part[e].defined()) of_expert.push_back(part[e]);
    }
    out.push_back(of_expert.size() == 1 ? of_expert.front() : at::cat(of_expert));
  }
  return out;
}

bool ExpertFeedForward::trains() const {
  const auto trained = [](const Linear& linear) { return linear.weight->value.requires_grad(); };
  if (stacked) return trained(stacked->gate_up) || trained(stacked->down);
  return std::any_of(experts.begin(), experts.end(), [&](const Expert& each) {
    return trained(each.gate_proj) || trained(each.up_proj) || trained(each.down_proj);
  });
}

Tensors ExpertFeedForward::surplus(const Dispatched& part, bool unread) const {
  std::vector<size_t> some;
  Tensors in;
  for (size_t e = 0; e < part.rows.size(); ++e) {
    if (stacked || part.rows[e].size(0) > 0) some.push_back(e);
  }
  for (const size_t e : some) in.push_back(part.rows[e]);
  for (const size_t e : some) in.push_back(part.weights[e]);
  const Segment run = [this, some, unread, all = part.rows.size()](const Tensors& given,
                                                                   RecomputeTape& products) {
    Dispatched own = {Tensors(all), Tensors(all)};
    for (size_t i = 0; i < some.size(); ++i) {
      own.rows[some[i]] = given[i];
      own.weights[some[i]] = given[some.size() + i];
    }
    Tensors out = computed(own, /*keeps_gate=*/false, unread || products.again(), products);
    std::erase_if(out, [](const at::Tensor& each) { return !each.defined(); });
    return out;
  };
  Tensors made = checkpoint(run, in, trains());
  Tensors out(part.rows.size());
  for (size_t i = 0; i < some.size(); ++i) out[some[i]] = std::move(made[i]);
  return out;
}

Tensors ExpertFeedForward::computed(const Dispatched& part, bool keeps_gate, bool unread,
                                    RecomputeTape& products) const {
  const auto& [rows, weights] = part;
  if (stacked) return stacked->products(rows, weights, unread);
  const auto first = static_cast<size_t>(dispatcher->own(count()).offset);
  Tensors out;
  for (size_t e = 0; e < rows.size(); ++e) {
    out.push_back(rows[e].defined() ? passed(experts[first + e], rows[e], weights[e], activation,
                                             keeps_gate, unread, products)
                                    : at::Tensor());
  }
  return out;
}

Tensors ExpertFeedForward::apart(const at::Tensor& x_BTD, bool keeps_gate, bool unread,
                                 RecomputeTape& products) const {
  const at::Tensor read_BTD = apply_transform(shared->gate_proj.input, x_BTD);
  const at::Tensor rows_ND = read_BTD.reshape({-1, read_BTD.size(-1)});
  Tensors out = {
      passed(*shared, rows_ND, {}, activation, keeps_gate, unread, products).view_as(read_BTD)};
  if (shared_weigher) out.push_back((*shared_weigher)(x_BTD).sigmoid());
  return out;
}

Tensors ExpertFeedForward::product(const at::Tensor& x_all_BTD, bool keeps_gate, bool leaves,
                                   RecomputeTape& products) const {
  const at::Tensor x_BTD = sharder ? sharder->own(x_all_BTD) : x_all_BTD;
  const at::Tensor x_ND = x_BTD.reshape({-1, x_BTD.size(-1)});
  const bool unread = leaves && products.again();
  const Chosen chosen = choose(x_ND, x_BTD.size(0), products);
  const Tensors out = routed(dispatcher->dispatch(narrowed(x_ND), chosen.weights_Nk, chosen.placed),
                             chosen.ids_Nk.numel(), keeps_gate, unread, products);
  at::Tensor added_ND;
  if (shared && !shares_apart()) added_ND = shared_product(x_ND, keeps_gate, unread, products);
  Tensors made = {dispatcher->combine(out, chosen.placed, added_ND, unread).view_as(x_BTD)};
  if (shared && shares_apart()) {
    for (at::Tensor& each : apart(x_all_BTD, keeps_gate, unread, products)) {
      made.push_back(std::move(each));
    }
  }
  return made;
}

at::Tensor ExpertFeedForward::finish(const Tensors& made, int64_t length) const {
  const at::Tensor y_BTD = sharder ? sharder->all(made[0], length) : made[0];
  if (made.size() == 1) return y_BTD;
  const at::Tensor shared_BTD = shared->down_proj.finish(made[1]);
  return y_BTD + (made.size() == 3 ? shared_BTD * made[2] : shared_BTD);
}

std::vector<Linear*> ExpertFeedForward::linears() {
  std::vector<Linear*> all = {&router.gate};
  const auto add = [&all](Expert& expert) {
    all.insert(all.end(), {&expert.gate_proj, &expert.up_proj, &expert.down_proj});
  };
  for (Expert& expert : experts) add(expert);
  if (stacked) all.insert(all.end(), {&stacked->gate_up, &stacked->down});
  if (shared) add(*shared);
  if (shared_weigher) all.push_back(&*shared_weigher);
  return all;
}

}  // namespace am::nn
