// A decoder, built from its description (model/spec.h): which ones, says planner/runs.h.
//
// Written for one device. Strategies act through three seams: the parameters' values, the layers'
// transforms, and `UnitHooks` around each FSDP unit (hooks.h).
// Legend: B batch, T sequence, D hidden, H query heads, G key/value heads, K head_dim, V
// vocabulary, F feed-forward.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "am/nn/decoder_layer.h"
#include "am/nn/hooks.h"
#include "am/nn/layers.h"
#include "am/nn/rope.h"
#include "am/nn/sequence_part.h"
#include "am/planner/stage_layout.h"

namespace am::nn {

class Decoder {
 public:
  // Parameters are made without values; a strategy gives them.
  Decoder(const model::ModelConfig& config, const model::Inventory& inventory);
  // A pipeline stage: the layers of `range`, and embedding and head where it has them. The
  // inventory is the stage's (planner/stage_layout.h).
  Decoder(const model::ModelConfig& config, const model::Inventory& inventory,
          const planner::StageRange& range);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // ids_BT (int64; one outside the vocabulary throws Error(kUsage)) -> logits_BTV. Under tensor
  // parallelism the last dim may be this rank's slice of V. positions_BT (int64, below T): of the
  // tokens, where they are not 0 to T - 1. Where they start again at 0 within a sequence several
  // are packed into it, and attention stays inside each. A GPU's ids may have them on the host:
  // then nothing waits for the GPU, and attention knows where documents begin.
  //
  // Under context parallelism ids and positions are those of whole sequences, on every rank, and
  // the logits this rank's part of them (sequence_part()).
  //
  // A stage without embedding continues from hidden_BTD, which the stage before it gave for the
  // same ids (under sequence parallelism a part of T); one without head gives hidden_BTD.
  at::Tensor operator()(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {},
                        const at::Tensor& hidden_BTD = {});

  // In the inventory's order.
  const std::vector<ParameterPtr>& parameters() const { return parameters_; }
  const model::ModelConfig& config() const { return config_; }
  const planner::StageRange& range() const { return range_; }

  // What layers keep until backward (planner/saved_activations.h): of `every` layers the last one,
  // the others all that autograd saves.
  void set_checkpointing(config::ActivationCheckpointing checkpointing, int64_t every = 1) {
    checkpointing_ = checkpointing;
    checkpointing_every_ = every;
  }
  // The dtype that the forward runs under autocast in; absent: no autocast.
  void set_autocast(std::optional<at::ScalarType> dtype) { autocast_ = dtype; }
  // Attention looks across sequences that are packed into one, and positions are not looked at
  // (transformers' attention under AutoModel's patch_is_packed_sequence).
  void ignore_packing() { ignores_packing_ = true; }

  // What a strategy may reach: every Linear, Embedding and Norm by its module name. A stage's
  // embedding() has a weight where the stage has one, to look up in or as the weight of its head.
  const std::map<std::string, Linear*, std::less<>>& linears() { return linears_; }
  Embedding& embedding() { return embed_tokens_; }
  Linear& head() { return lm_head_; }
  std::vector<DecoderLayer>& layers() { return layers_; }
  // Which positions of each sequence this rank computes. Attention needs a core that sees the
  // others (Attention::core).
  void set_sequence_part(const SequencePart& part) { part_ = part; }
  const SequencePart& sequence_part() const { return part_; }
  // Whether a position turns heads alike in sequences of both lengths; some models turn long ones
  // otherwise.
  bool turns_alike(int64_t length, int64_t other) const;
  // What the embedding gives is a part of these again: `own` takes it of positions, on their last
  // dim.
  void set_own_positions(TransformPtr own) { piece_of_positions_ = std::move(own); }
  // How many tokens took each expert, layer after layer of those that have experts, in all forward
  // passes since the last call. Empty: the model has none.
  std::vector<int64_t> take_expert_counts();
  // Of one layer with experts, by its number in the whole model.
  std::vector<int64_t> take_expert_counts(int64_t layer);
  // Of all layers with experts: ExpertFeedForward's balance_factor, and the sum of their balances
  // since the last call, undefined where there was none.
  void set_balance_factor(double factor);
  at::Tensor take_balance();
  // Tokens take experts in turn, whatever their scores (Router::in_turn).
  void take_experts_in_turn();
  // Adapters drop so much of what they read, from begin_dropout to end_dropout. `part`: which
  // shard of each sequence this rank has, where it has shards.
  void set_adapter_dropout(double p, int64_t part);
  // The forward passes, and their backward, that train on sequences of the global batch from
  // `first_sequence` on; what is dropped depends on these three, the adapter, the token and the
  // column.
  void begin_dropout(uint64_t seed, int64_t step, int64_t first_sequence);
  void end_dropout();
  void set_hooks(UnitHooks* hooks) { hooks_ = hooks; }
  UnitHooks* hooks() const { return hooks_; }
  // The units in the order in which the forward pass uses them.
  const std::vector<UnitUse>& unit_uses() const { return unit_uses_; }

 private:
  void bind(const model::Inventory& inventory);
  // Of this rank's positions. positions_BT: see own_positions.
  at::Tensor embed(const at::Tensor& ids_BT, const at::Tensor& positions_BT) const;
  // Where this rank's tokens are: [B, t], or [t] where all sequences have the same; undefined: 0,
  // 1, and so on in all of them. Takes those of whole sequences of `length` tokens.
  at::Tensor own_positions(int64_t length, const at::Tensor& positions_BT,
                           const at::Tensor& ids_BT) const;
  void bind_head(const model::Inventory& inventory);
  // What layers()[i] keeps.
  planner::SavedSet kept_by(size_t i) const;
  void bind_units(const std::vector<model::Unit>& units, bool tied);
  // The hooks of the unit that is used next; of the one that was.
  at::Tensor enter(size_t use, at::Tensor x) const;
  at::Tensor leave(size_t use, at::Tensor x) const;
  // Sets the document of each token of whole sequences at positions_BT, which is undefined where
  // each is one.
  void place_documents(const at::Tensor& positions_BT, const at::Tensor& like);
  // Makes the rotations of sequences of `length` positions, at own_positions where that is defined,
  // in the dtype and on the device of `like`.
  void place(int64_t length, const at::Tensor& own_positions, const at::Tensor& like);
  // Of a layer, for the batch that was placed.
  const Rotation& rotation_of(size_t layer) const;

  model::ModelConfig config_;
  planner::StageRange range_;
  std::vector<ParameterPtr> parameters_;
  std::map<std::string, ParameterPtr, std::less<>> by_name_;
  std::map<std::string, Linear*, std::less<>> linears_;
  Embedding embed_tokens_;
  ParameterPtr positions_;  // [P, D], learned; null: none
  SequencePart part_;
  TransformPtr piece_of_positions_;
  std::vector<DecoderLayer> layers_;
  Norm norm_;
  Linear lm_head_;
  UnitHooks* hooks_ = nullptr;
  config::ActivationCheckpointing checkpointing_ = config::ActivationCheckpointing::kOff;
  int64_t checkpointing_every_ = 1;
  std::optional<at::ScalarType> autocast_;
  bool ignores_packing_ = false;
  std::optional<int64_t> dropout_part_;  // of a sequence that this rank has; absent: adapters drop
                                         // nothing
  std::optional<DropoutPass> dropout_;   // of the batch in training
  // The embedding, the layers, the final norm, the head: those of the stage.
  std::vector<UnitUse> unit_uses_;
  struct Rope {
    model::RopeSpec spec;
    int64_t rotated = 0;   // elements of a head; 0: no layer turns by this one
    Rotation table = {};   // of positions from 0
    Rotation placed = {};  // of the batch
  };
  std::vector<Rope> ropes_;  // of model::DecoderSpec::ropes
  Rotation unrotated_;       // of the batch, for layers that do not rotate
  double embedding_scale_ = 1.0;
  std::optional<double> logit_softcap_;
};

}  // namespace am::nn
