#include "am/parallel/ep/all_to_all_dispatcher.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "am/base/fault.h"
#include "am/parallel/ep/row_exchange.h"

namespace am::parallel::ep {

namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

// Saves the rows' routing, which the autograd nodes of dispatch and combine read in backward.
void save(const nn::Placement& placed, const runtime::Group& group, AutogradContext& context) {
  context.save_for_backward({placed.slot_Nk, placed.token_R});
  context.saved_data["counts"] = placed.counts;
  context.saved_data["received"] = placed.received_Pe;
  context.saved_data["group"] = reinterpret_cast<int64_t>(&group);
}

nn::Placement saved_placement(AutogradContext& context) {
  const variable_list saved = context.get_saved_variables();
  auto& data = context.saved_data;
  return {.slot_Nk = saved[0],
          .token_R = saved[1],
          .counts = data["counts"].toIntVector(),
          .received_Pe = data["received"].toTensor()};
}

const runtime::Group& saved_group(AutogradContext& context) {
  return *reinterpret_cast<const runtime::Group*>(context.saved_data["group"].toInt());
}

// Autograd node that sends rows of tokens and their routing weights to the experts' ranks, in two
// messages that overlap.
struct DispatchOver : torch::autograd::Function<DispatchOver> {
  static variable_list forward(AutogradContext* context, const at::Tensor& x_ND,
                               const at::Tensor& weights_Nk, const nn::Placement* placed,
                               const runtime::Group* group) {
    save(*placed, *group, *context);
    context->saved_data["width"] = x_ND.size(1);
    context->saved_data["rows_dtype"] = x_ND.scalar_type();
    context->saved_data["weights_dtype"] = weights_Nk.scalar_type();
    const RowExchange exchange(*placed, *group);
    auto rows = exchange.begin_to_experts(x_ND.index_select(0, placed->token_R));
    auto weights = exchange.begin_to_experts(
        nn::by_slot(weights_Nk, placed->slot_Nk, placed->token_R.size(0)));
    variable_list all = exchange.end_to_experts(std::move(rows));
    for (at::Tensor& each : exchange.end_to_experts(std::move(weights))) {
      all.push_back(std::move(each));
    }
    return all;
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const nn::Placement placed = saved_placement(*context);
    const RowExchange exchange(placed, saved_group(*context));
    auto& data = context->saved_data;
    const at::TensorOptions options = placed.slot_Nk.options();
    const std::vector<int64_t> counts = exchange.rows_of_experts();
    const size_t experts = counts.size();
    variable_list all = gradients;
    for (size_t e = 0; e < experts; ++e) {  // replaces undefined gradients by zeros
      at::Tensor &rows = all[e], &weights = all[experts + e];
      if (!rows.defined()) {
        rows = at::zeros({counts[e], data["width"].toInt()},
                         options.dtype(data["rows_dtype"].toScalarType()));
      }
      if (!weights.defined()) {
        weights = at::zeros({counts[e]}, options.dtype(data["weights_dtype"].toScalarType()));
      }
    }
    auto rows = exchange.begin_to_sources(at::TensorList(all).slice(0, experts));
    auto weights = exchange.begin_to_sources(at::TensorList(all).slice(experts, experts));
    variable_list of(4);
    of[0] = rows.ended(
        [&](const at::Tensor& arrived) { return nn::sum_of_slots(arrived, placed.slot_Nk); });
    of[1] = weights.ended([&](const at::Tensor& arrived) {
      return arrived.index_select(0, placed.slot_Nk.view(-1)).view_as(placed.slot_Nk);
    });
    return of;
  }
};

// Autograd node that sends the experts' results back to the tokens' ranks, and returns the sum of
// each token's rows, plus `added_ND` if present. If `unread`, nothing reads the values of the sums:
// forward sends nothing and returns zeros.
struct CombineOver : torch::autograd::Function<CombineOver> {
  static at::Tensor forward(AutogradContext* context, at::TensorList rows,
                            const std::optional<at::Tensor>& added_ND, const nn::Placement* placed,
                            const runtime::Group* group, bool unread) {
    save(*placed, *group, *context);
    context->saved_data["adds"] = added_ND.has_value();
    if (unread) {
      return at::zeros({}, rows[0].options()).expand({placed->slot_Nk.size(0), rows[0].size(1)});
    }
    auto message = RowExchange(*placed, *group).begin_to_sources(rows);
    return message.ended([&](const at::Tensor& arrived) {
      at::Tensor slot_Nk = placed->slot_Nk;
      if (fault::is_planted(fault::Fault::kEpUnpermute)) {
        slot_Nk = at::arange(slot_Nk.numel(), slot_Nk.options()).view_as(slot_Nk);
      }
      return nn::sum_of_slots(arrived, slot_Nk, added_ND.value_or(at::Tensor()));
    });
  }

  static variable_list backward(AutogradContext* context, const variable_list& gradients) {
    const nn::Placement placed = saved_placement(*context);
    const RowExchange exchange(placed, saved_group(*context));
    variable_list of = exchange.end_to_experts(
        exchange.begin_to_experts(gradients[0].index_select(0, placed.token_R)));
    of.push_back(context->saved_data["adds"].toBool() ? gradients[0] : at::Tensor());
    of.insert(of.end(), 3, at::Tensor());
    return of;
  }
};

}  // namespace

mesh::Extent AllToAllDispatcher::own(int64_t experts) const {
  return mesh::chunk(experts, group_.size(), group_.index());
}

nn::Placement AllToAllDispatcher::place(const at::Tensor& ids_Nk, int64_t experts) const {
  nn::Placement placed = nn::place_by_expert(ids_Nk, experts);
  placed.received_Pe = exchange_counts(placed.counts, ids_Nk.is_meta(), group_);
  return placed;
}

nn::Dispatched AllToAllDispatcher::dispatch(const at::Tensor& x_ND, const at::Tensor& weights_Nk,
                                            const nn::Placement& placed) const {
  const variable_list all = DispatchOver::apply(x_ND, weights_Nk, &placed, &group_);
  const auto middle = all.begin() + static_cast<std::ptrdiff_t>(all.size() / 2);
  return {{all.begin(), middle}, {middle, all.end()}};
}

at::Tensor AllToAllDispatcher::combine(const std::vector<at::Tensor>& rows,
                                       const nn::Placement& placed, const at::Tensor& added_ND,
                                       bool unread) const {
  std::optional<at::Tensor> added;
  if (added_ND.defined()) added = added_ND;
  return CombineOver::apply(at::TensorList(rows), added, &placed, &group_, unread);
}

}  // namespace am::parallel::ep
