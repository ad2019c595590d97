// The part of a pipeline stage (without a pipeline, of the whole model) that this rank computes
// under the plan's parallelism. A ParallelModel (parallel_model.h) has one StageModel for each
// stage of the rank.
//
// Legend: B sequences, T positions of each sequence, t the positions that this rank computes (all T
// without context parallelism), v this rank's slice of the vocabulary, D hidden size.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/data/samples.h"
#include "am/layout/layout.h"
#include "am/layout/stage_layout.h"
#include "am/mesh/shard.h"
#include "am/model/config.h"
#include "am/nn/decoder.h"
#include "am/nn/fused/cross_entropy.h"
#include "am/parallel/data_parallel.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// Labels with this value do not count towards the loss, as in PyTorch.
inline constexpr int64_t kIgnoreIndex = data::kIgnoredLabel;

class StageModel {
 public:
  // Collective over the ranks of the stage. `layout`: the layout of the stage (stage_layout) or,
  // without a pipeline, of the whole model. The object copies `config` and `layout`; `mesh` must
  // outlive the object. `strategy`: name of a registered strategy or of a plugin (strategy.h).
  // Parameters start as zeros.
  StageModel(const config::Plan& plan, const model::ModelConfig& config,
             const layout::Layout& layout, const layout::StageRange& range,
             const runtime::DeviceMesh& mesh, const std::string& strategy);
  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  // Returns logits_BTv for ids_BT (int64, equal on all tp ranks). A stage without the head returns
  // hidden states instead of logits. `positions_BT`: undefined means 0, 1, 2, ... in every row.
  // `hidden_BTD`: output of the previous stage; undefined on the first stage. Under context
  // parallelism, `ids_BT` and `positions_BT` cover whole sequences, but logits and hidden states
  // cover only the t positions of this rank.
  at::Tensor forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {},
                     const at::Tensor& hidden_BTD = {});
  // Returns the sum of the cross-entropies of this rank's labels, without labels equal to
  // kIgnoreIndex, in float32 (float64 for float64 logits). The sum is equal on all tp ranks.
  // `labels_BT`: labels at the positions of the logits, as own_labels() returns them. The gradient
  // includes the terms of train.label_smoothing and train.z_loss.
  at::Tensor loss_sum(const at::Tensor& logits_BTv, const at::Tensor& labels_BT) const;
  // Under context parallelism, a rank computes the logits of its part of each sequence.
  // own_labels() returns the labels of this part, selected from labels_BT of whole sequences.
  // own_length() returns the number of positions of this part, padding included, for sequences of
  // `length`. whole_sequences() returns the logits of whole sequences on every cp rank, without
  // gradient; the argument may be another tensor whose first two dims are B and t.
  at::Tensor own_labels(const at::Tensor& labels_BT) const;
  int64_t own_length(int64_t length) const { return decoder_.sequence_part().own_length(length); }
  at::Tensor whole_sequences(const at::Tensor& logits_BTv) const;
  // Returns the logits of the whole vocabulary on every tp rank, without gradient.
  at::Tensor full_logits(const at::Tensor& logits_BTv) const;

  nn::Decoder& decoder() { return decoder_; }
  // Returns the layers of the stage, and whether the stage computes the embedding and the head.
  const layout::StageRange& range() const { return decoder_.range(); }
  const mesh::Extent& vocabulary_slice() const { return vocabulary_slice_; }
  DataParallel& data_parallel() { return *data_parallel_; }
  const DataParallel& data_parallel() const { return *data_parallel_; }
  // Returns the layout of the stage's parameters.
  const layout::Layout& layout() const { return layout_; }

 private:
  model::ModelConfig config_;
  layout::Layout layout_;
  const runtime::DeviceMesh& mesh_;
  nn::Decoder decoder_;
  std::unique_ptr<DataParallel> data_parallel_;
  mesh::Extent vocabulary_slice_;
  nn::fused::LossTerms loss_terms_;
  std::optional<at::ScalarType> output_dtype_;
};

}  // namespace am::parallel
