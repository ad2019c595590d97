// Defines the command `attention`, which runs a forward pass and reports how the heads of each
// layer spread their attention over tokens.
#include "am/nn/attention/attention.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/text.h"
#include "am/nn/attention/entropy.h"
#include "am/values/commands/forward.h"
#include "am/values/commands/functions.h"
#include "am/values/language.h"

namespace am::values {
namespace {

// Sums the attention entropy of each head of a layer over the queries of all forward passes that
// run while the object exists.
class EntropyWatch {
 public:
  // Counts only the first `length` queries of each sequence; later queries are padding.
  EntropyWatch(nn::DecoderLayer& layer, int64_t length) : layer_(layer) {
    layer.self_attn.core = std::make_shared<const nn::AttentionCore>(
        [this, length](const nn::Qkv& heads, const nn::AttentionParams& params,
                       const std::optional<at::Tensor>& sinks_H) {
          const at::Tensor all_BHT = nn::attention_entropy(heads, params, sinks_H);
          const at::Tensor entropy_BHT = all_BHT.narrow(2, 0, std::min(length, all_BHT.size(2)));
          const at::Tensor sum_H = entropy_BHT.sum(at::IntArrayRef{0, 2}, false, at::kDouble).cpu();
          sum_ = sum_.defined() ? sum_ + sum_H : sum_H;
          queries_ += static_cast<double>(entropy_BHT.size(0) * entropy_BHT.size(2));
          return nn::attention(heads, params, sinks_H);
        });
  }
  EntropyWatch(const EntropyWatch&) = delete;
  EntropyWatch& operator=(const EntropyWatch&) = delete;
  ~EntropyWatch() { layer_.self_attn.core.reset(); }

  const at::Tensor& sum_H() const { return sum_; }
  double queries() const { return queries_; }

 private:
  nn::DecoderLayer& layer_;
  at::Tensor sum_;  // [heads of this rank], float64; undefined before the first forward
  double queries_ = 0.0;
};

// Runs a forward pass. Returns the mean entropy of each head, [layers, heads], over all queries of
// all ranks. Stores the description of the data in `of`. Collective.
at::Tensor entropies_of(Session& session, const std::optional<std::vector<int64_t>>& tokens,
                        std::string& of) {
  ParameterView& view = values_of(session);
  parallel::ParallelModel& model = view.runnable();
  const runtime::DeviceMesh& mesh = model.mesh();
  if (mesh.layout().sizes().cp > 1) {
    throw Error(ErrorKind::kUsage, "`attention` needs whole sequences, and cp_size is more than 1",
                "open the checkpoint under a plan without context parallelism");
  }
  const int64_t layers = model.config().num_hidden_layers;
  const int64_t heads = model.config().num_attention_heads;
  at::Tensor own = at::zeros({layers, heads, 2}, at::kDouble);  // last dim: sum, queries
  std::vector<std::pair<int64_t, std::unique_ptr<EntropyWatch>>> watches;
  const int64_t length = tokens ? std::ssize(*tokens) : std::numeric_limits<int64_t>::max();
  for (const auto& [number, stage] : model.stages()) {
    int64_t index = stage->range().first;
    for (nn::DecoderLayer& layer : stage->decoder().layers()) {
      watches.emplace_back(index++, std::make_unique<EntropyWatch>(layer, length));
    }
  }
  of = run_forward_of(session, tokens);
  for (const auto& [layer, watch] : watches) {
    const at::Tensor& sum_H = watch->sum_H();
    if (!sum_H.defined()) continue;
    const bool shards_heads = sum_H.numel() < heads;
    if (!counts_here(model, tokens.has_value(), shards_heads)) continue;
    const int64_t first = shards_heads ? mesh.group("tp").index() * sum_H.numel() : 0;
    const at::Tensor part = own[layer].narrow(0, first, sum_H.numel());
    part.select(1, 0).copy_(sum_H);
    part.select(1, 1).fill_(watch->queries());
  }
  const at::Tensor sums = view.gather(own.reshape({-1})).sum(0).view({layers, heads, 2});
  return sums.select(2, 0) / sums.select(2, 1);
}

}  // namespace

Result run_attention(Session& session, const Arguments& arguments) {
  const auto tokens = prepare_forward(session, arguments);
  std::string of;
  const at::Tensor entropies = entropies_of(session, tokens, of).contiguous();
  Rows rows({{"layer", {}, RowKind::kCount},
             {"entropy", {}, RowKind::kNumber},
             {"lowest", {}, RowKind::kText},
             {"highest", {}, RowKind::kText}});
  Json layers = Json::array();
  for (int64_t layer = 0; layer < entropies.size(0); ++layer) {
    const auto* first = entropies.const_data_ptr<double>() + layer * entropies.size(1);
    const std::vector<double> heads(first, first + entropies.size(1));
    const double mean = entropies[layer].mean().item<double>();
    const auto head_text = [&](auto head) {
      return cat("head ", head - heads.begin(), ": ", format_general(*head, 3));
    };
    Json of_heads = Json::array();
    for (const double each : heads) of_heads.push_back(number_or_null(each));
    layers.push_back({{"layer", layer}, {"entropy", number_or_null(mean)}, {"heads", of_heads}});
    rows.add({{"layer", layer},
              {"entropy", number_or_null(mean)},
              {"lowest", head_text(std::min_element(heads.begin(), heads.end()))},
              {"highest", head_text(std::max_element(heads.begin(), heads.end()))}});
  }
  Result result;
  rows.give(result, "layers", session, layers);
  result.json["of"] = of;
  result.text += cat("entropy of attention's probabilities in nats, ", of,
                     "; 0: each query reads one token\n");
  return result;
}

}  // namespace am::values
