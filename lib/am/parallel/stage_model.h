// What one process computes of a model: all of it, or a pipeline stage's part, under the plan's
// data and tensor parallelism. parallel_model.h has the model that is made of them.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "am/config/plan.h"
#include "am/mesh/shard.h"
#include "am/model/config.h"
#include "am/nn/decoder.h"
#include "am/parallel/data_parallel.h"
#include "am/planner/layout.h"
#include "am/planner/stage_layout.h"
#include "am/runtime/device_mesh.h"

namespace am::parallel {

// Labels with this value are not counted, as in PyTorch.
inline constexpr int64_t kIgnoreIndex = -100;

class StageModel {
 public:
  // Collective among the ranks of the stage. `layout`: of its parameters alone (stage_layout), or
  // the whole model's; it is copied. `mesh` must outlive this. `strategy`: a registered one, or a
  // plugin's (strategy.h). Parameters start as zeros.
  StageModel(const config::Plan& plan, const model::ModelConfig& config,
             const planner::Layout& layout, const planner::StageRange& range,
             const runtime::DeviceMesh& mesh, const std::string& strategy);
  StageModel(const StageModel&) = delete;
  StageModel& operator=(const StageModel&) = delete;

  // ids_BT (int64, the same on every tp rank) -> logits_BTv; v is this rank's slice of the
  // vocabulary when vocabulary_slice() says so. positions_BT, and a stage's hidden_BTD: see
  // nn::Decoder.
  at::Tensor forward(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {},
                     const at::Tensor& hidden_BTD = {});
  // Sum of cross-entropies over this rank's counted labels, float32; the same on every tp rank.
  at::Tensor loss_sum(const at::Tensor& logits_BTv, const at::Tensor& labels_BT) const;
  // Under context parallelism logits are those of this rank's part of each sequence: its labels, of
  // labels_BT of whole sequences; its length, padded; and the whole sequences' logits (or what else
  // has them), on every cp rank, without gradient.
  at::Tensor own_labels(const at::Tensor& labels_BT) const;
  int64_t own_length(int64_t length) const { return decoder_.sequence_part().own_length(length); }
  at::Tensor whole_sequences(const at::Tensor& logits_BTv) const;
  // Logits of the whole vocabulary, on every tp rank; no gradient.
  at::Tensor full_logits(const at::Tensor& logits_BTv) const;

  nn::Decoder& decoder() { return decoder_; }
  // What it computes.
  const planner::StageRange& range() const { return decoder_.range(); }
  const mesh::Extent& vocabulary_slice() const { return vocabulary_slice_; }
  DataParallel& data_parallel() { return *data_parallel_; }
  const DataParallel& data_parallel() const { return *data_parallel_; }
  // Of its parameters.
  const planner::Layout& layout() const { return layout_; }

  // Of a parameter that it has: what `flat_of` gives for its group, from all ranks of the stage
  // that hold a part. Collective among them. Absent where the rank has no part of it: it is of
  // another stage, or an expert of another rank.
  std::optional<at::Tensor> gather(
      const std::string& name, const std::function<at::Tensor(const ParamGroup&)>& flat_of) const;

 private:
  model::ModelConfig config_;
  planner::Layout layout_;
  const runtime::DeviceMesh& mesh_;
  nn::Decoder decoder_;
  std::unique_ptr<DataParallel> data_parallel_;
  mesh::Extent vocabulary_slice_;
  std::optional<at::ScalarType> output_dtype_;
};

}  // namespace am::parallel
