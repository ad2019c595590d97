// A decoder model, built from its description (model/spec.h). layout/runs.h lists the families that
// can run.
//
// The code is written for one device. Parallel strategies adapt a Decoder by setting parameters'
// values, transforms of layers (layers.h), `UnitHooks` around each FSDP unit (hooks.h),
// Attention::core and token dispatchers (experts/token_dispatcher.h). Legend: B batch, T sequence,
// t the part of T that a rank computes, D hidden, V vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "am/config/strategy_config.h"
#include "am/layout/stage_layout.h"
#include "am/mesh/sequence_cut.h"
#include "am/model/config.h"
#include "am/model/inventory.h"
#include "am/nn/decoder_layer.h"
#include "am/nn/hooks.h"
#include "am/nn/layers.h"
#include "am/nn/rope.h"

namespace am::nn {

// Positions of each sequence that a rank computes: all positions, those of a context-parallel rank,
// or those after the positions in a key/value cache. Layers outside of attention treat the part as
// a shorter sequence.
struct SequencePart {
  int64_t ranks = 1, index = 0;
  mesh::SequenceOrder order = mesh::SequenceOrder::kHeadTail;
  int64_t pieces = 1;  // number of sequence-parallel shards into which the part is cut
  int64_t first = 0;   // first position after those in a key/value cache; 0: no cache
  // The part is cut into `dealt_pieces` chunks (as by torch.chunk), and this rank routes only the
  // tokens of chunk `dealt_piece` to experts.
  int64_t dealt_pieces = 1, dealt_piece = 0;

  mesh::SequenceCut cut(int64_t length) const;
  bool is_whole() const { return ranks == 1 && first == 0; }
  // Number of positions of a sequence of `length` that this rank computes, padding included.
  int64_t own_length(int64_t length) const { return cut(length).local() - first; }
  // Number of padding tokens among the tokens of a sequence of `length` that this rank routes to
  // experts. The padding tokens are the last of these tokens.
  int64_t padding_of_experts(int64_t length) const;
  // Returns x_..T padded with the value `padding`, so that the ranks' parts have equal lengths.
  // Returns x itself if no padding is needed.
  at::Tensor padded(const at::Tensor& x, double padding) const;
  // Returns this rank's part of padded(x_..T). The result is a new tensor if there are several
  // ranks, otherwise a view.
  at::Tensor of(const at::Tensor& x, double padding) const;
};

class Decoder {
 public:
  // Creates the parameters without values; a parallel strategy provides the values. Throws
  // Error(kPlan) if the model cannot run.
  Decoder(const model::ModelConfig& config, const model::Inventory& inventory);
  // Creates a pipeline stage: the layers of `range`, with the embedding and the head if the range
  // includes them. `inventory` must be the stage's inventory (layout/stage_layout.h).
  Decoder(const model::ModelConfig& config, const model::Inventory& inventory,
          const layout::StageRange& range);
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  // Returns logits_BTV for ids_BT (int64). Throws Error(kUsage) for an id outside the vocabulary.
  // On a GPU, an assertion stops the process instead (tensor/token_check.h). Under tensor
  // parallelism the last dim of the logits may be this rank's slice of V. positions_BT (int64,
  // below T) is required only if positions are not 0 to T - 1. A position 0 inside a sequence
  // begins a new packed document, and attention stays within each document. If ids are on a GPU,
  // positions may stay on the host, so that finding the documents' starts does not synchronise the
  // GPU.
  //
  // Under context parallelism every rank passes ids and positions of whole sequences; the logits
  // cover this rank's positions only (sequence_part()).
  //
  // A pipeline stage without an embedding reads hidden_BTD, the previous stage's output for these
  // ids. If the sequence is sharded over ranks, hidden_BTD covers this rank's part of T. A stage
  // without a head returns the output of its last layer, [B, T, D], instead of logits.
  at::Tensor operator()(const at::Tensor& ids_BT, const at::Tensor& positions_BT = {},
                        const at::Tensor& hidden_BTD = {});

  // Returns the parameters in the inventory's order.
  const std::vector<ParameterPtr>& parameters() const { return parameters_; }
  const model::ModelConfig& config() const { return config_; }
  const layout::StageRange& range() const { return range_; }

  // Sets the activations that layers keep until backward (layout/saved_activations.h). Every
  // `every`-th layer of the model is checkpointed; all other layers keep everything that autograd
  // saves.
  void set_checkpointing(config::ActivationCheckpointing checkpointing, int64_t every = 1) {
    checkpointing_ = checkpointing;
    checkpointing_every_ = every;
  }
  // Sets the autocast dtype of the forward pass. If `dtype` is empty, the forward pass runs in the
  // caller's autocast state.
  void set_autocast(std::optional<at::ScalarType> dtype) { autocast_ = dtype; }
  // Makes attention ignore document borders: each token attends to earlier tokens of all documents
  // in its packed sequence (as transformers' attention does under AutoModel's
  // patch_is_packed_sequence).
  void ignore_packing() { ignores_packing_ = true; }

  // Return the modules that a strategy may modify: every Linear by module name, the embedding, the
  // head and the layers. embedding() has a weight only if the stage embeds ids or has a head that
  // is tied to the embedding.
  const std::map<std::string, Linear*, std::less<>>& linears() { return linears_; }
  Embedding& embedding() { return embed_tokens_; }
  Linear& head() { return lm_head_; }
  std::vector<DecoderLayer>& layers() { return layers_; }
  // Sets the positions of each sequence that this rank computes. If the part is not the whole
  // sequence, each layer needs an Attention::core that obtains the keys and values of the other
  // positions.
  void set_sequence_part(const SequencePart& part) { part_ = part; }
  const SequencePart& sequence_part() const { return part_; }
  // Whether RoPE's angles are equal in sequences of `length` and of `other` tokens. The angles may
  // differ under longrope, which has separate scaling factors for short and for long sequences.
  bool turns_alike(int64_t length, int64_t other) const;
  // Sets the transform that selects this rank's slice of the last dim of the positions. Learned
  // position embeddings need this transform under sequence parallelism, which shards the token
  // embeddings over the sequence.
  void set_own_positions(TransformPtr own) { piece_of_positions_ = std::move(own); }
  // Returns the number of tokens routed to each expert, layer by layer, summed over all forward
  // passes since the last call. Empty if the model has no experts.
  std::vector<int64_t> take_expert_counts();
  // Overload for one layer with experts, by its index in the whole model.
  std::vector<int64_t> take_expert_counts(int64_t layer);
  // set_balance_factor() sets ExpertFeedForward::balance_factor in all layers with experts.
  // take_balance() returns the sum of these layers' auxiliary losses since its last call, or an
  // undefined tensor if there were none.
  void set_balance_factor(double factor);
  at::Tensor take_balance();
  // Sets the dropout probability of adapters. Dropout is active from begin_dropout() to
  // end_dropout(). Where sequences are sharded, `part` is the index of this rank's shard of each
  // sequence.
  void set_adapter_dropout(double p, int64_t part);
  // Sets NEFTune's noise on the embeddings of tokens: uniform in +-alpha / sqrt(T D). The noise is
  // active from begin_dropout() to end_dropout(). `part`: see set_adapter_dropout().
  void set_embedding_noise(double alpha, int64_t part);
  // Activates dropout and noise for the next forward pass. `first_sequence` is the index, in the
  // global batch, of that pass's first sequence. The random number of an element depends on the
  // seed, the step, the module, the token's position in the global batch, and the column.
  void begin_dropout(uint64_t seed, int64_t step, int64_t first_sequence);
  void end_dropout();
  void set_hooks(UnitHooks* hooks) { hooks_ = hooks; }
  UnitHooks* hooks() const { return hooks_; }
  // Returns the uses of FSDP units in the order of the forward pass.
  const std::vector<UnitUse>& unit_uses() const { return unit_uses_; }

 private:
  void bind(const model::Inventory& inventory);
  // Returns the embeddings of this rank's positions. positions_BT is own_positions()'s result.
  at::Tensor embed(const at::Tensor& ids_BT, const at::Tensor& positions_BT) const;
  // Returns the positions of this rank's tokens: [B, t], or [t] if the positions are equal in all
  // sequences. Returns an undefined tensor if positions_BT is undefined and this rank computes
  // whole sequences. positions_BT covers whole sequences of `length` tokens.
  at::Tensor own_positions(int64_t length, const at::Tensor& positions_BT,
                           const at::Tensor& ids_BT) const;
  void bind_head(const model::Inventory& inventory);
  // Returns the set of activations that layers()[i] keeps until backward.
  layout::SavedSet kept_by(size_t i) const;
  void bind_units(const std::vector<model::Unit>& units, bool tied);
  // Call the hook before (enter) or after (leave) the use of an FSDP unit. Return x, or the tensor
  // with which the hook has replaced x.
  at::Tensor enter(size_t use, at::Tensor x) const;
  at::Tensor leave(size_t use, at::Tensor x) const;
  // Sets the document index of each token, on the device of `like`. positions_BT covers whole
  // sequences. If positions_BT is undefined, each sequence is one document.
  void place_documents(const at::Tensor& positions_BT, const at::Tensor& like);
  // Computes the rotations for sequences of `length` positions, in the dtype and on the device of
  // `like`. The rotations are for own_positions if defined, otherwise for all positions.
  void place(int64_t length, const at::Tensor& own_positions, const at::Tensor& like);
  // Returns the rotation of a layer for the current batch.
  const Rotation& rotation_of(size_t layer) const;

  model::ModelConfig config_;
  layout::StageRange range_;
  std::vector<ParameterPtr> parameters_;
  std::map<std::string, ParameterPtr, std::less<>> by_name_;
  std::map<std::string, Linear*, std::less<>> linears_;
  Embedding embed_tokens_;
  ParameterPtr positions_;  // [positions, D]; null without learned position embeddings
  Norm embedding_norm_;     // norm of the embeddings; its weight is null if there is no norm
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
  // Index of this rank's shard of each sequence; empty: neither adapter dropout nor noise.
  std::optional<int64_t> dropout_part_;
  std::optional<DropoutPass> dropout_;  // dropout of the training batch; empty outside of training
  // Uses of the units of the embedding, the layers, the final norm and the head, in this order. A
  // stage has only the uses of its own modules.
  std::vector<UnitUse> unit_uses_;
  struct Rope {
    model::RopeSpec spec;
    int64_t rotated = 0;   // number of rotated elements of a head; 0: no layer uses this rotation
    Rotation table = {};   // rotation for the positions from 0 on
    Rotation placed = {};  // rotation for the current batch
  };
  std::vector<Rope> ropes_;  // one for each of model::DecoderSpec::ropes
  Rotation unrotated_;       // for layers without RoPE: document indices, but no tables
  double embedding_scale_ = 1.0;
  bool rounds_embedding_scale_ = false;
  int64_t positions_offset_ = 0;
  double embedding_noise_ = 0.0;  // alpha of set_embedding_noise(); 0: no noise
  std::optional<double> logit_softcap_;
  double logit_scale_ = 1.0;
};

}  // namespace am::nn
