#include "am/nn/decoder.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>
#include <vector>

#include "am/base/error.h"
#include "am/base/fault.h"
#include "am/base/random.h"
#include "am/base/text.h"
#include "am/layout/runs.h"
#include "am/model/rope_config.h"
#include "am/nn/autocast.h"
#include "am/nn/build.h"
#include "am/nn/fused/device.h"
#include "am/nn/fused/dropout.h"
#include "am/nn/fused/look_up.h"
#include "am/nn/fused/softcap.h"
#include "am/tensor/memory_meter.h"
#include "am/tensor/token_check.h"

namespace am::nn {

namespace {

// Returns the positions 0 to length - 1. at::empty allocates the tensor, because at::arange would
// resize an empty tensor, and on the meta device the memory meter does not count a resized tensor.
at::Tensor positions_up_to(int64_t length, const at::TensorOptions& options) {
  at::Tensor positions = at::empty({length}, options);
  return at::arange_out(positions, length);
}

// Returns `config`, or throws if the model cannot run. am-plan and am-run check the model earlier
// and report the line of the config; this check is for programs that build a Decoder directly.
const model::ModelConfig& checked(const model::ModelConfig& config) {
  Diagnostics found;
  layout::check_runnable(config, found);
  if (found.ok()) return config;
  throw Error(ErrorKind::kPlan, found.items().front().message, found.items().front().help);
}

}  // namespace

mesh::SequenceCut SequencePart::cut(int64_t length) const {
  return mesh::cut_sequence({length, ranks, order, pieces});
}

int64_t SequencePart::padding_of_experts(int64_t length) const {
  if (fault::is_planted(fault::Fault::kEpPadding)) return 0;
  const mesh::SequenceCut whole = cut(length);
  int64_t real = 0;
  for (const mesh::Extent& run : whole.parts(index)) {
    real += std::clamp<int64_t>(length - run.offset, 0, run.size);
  }
  const mesh::Extent piece = mesh::chunk(whole.local(), dealt_pieces, dealt_piece);
  return piece.size - std::clamp<int64_t>(real - piece.offset, 0, piece.size);
}

at::Tensor SequencePart::padded(const at::Tensor& x, double padding) const {
  const mesh::SequenceCut whole = cut(x.size(-1));
  if (whole.padded == whole.length) return x;
  std::vector<int64_t> sizes = x.sizes().vec();
  sizes.back() = whole.padded - whole.length;
  return at::cat({x, at::full(sizes, padding, x.options())}, -1);
}

at::Tensor SequencePart::of(const at::Tensor& x, double padding) const {
  if (ranks == 1) return x.narrow(-1, first, x.size(-1) - first);
  const at::Tensor all = padded(x, padding);
  std::vector<at::Tensor> runs;
  for (const mesh::Extent& run : cut(x.size(-1)).parts(index)) {
    runs.push_back(all.narrow(-1, run.offset, run.size));
  }
  return at::cat(runs, -1);
}

Decoder::Decoder(const model::ModelConfig& config, const model::Inventory& inventory)
    : Decoder(config, inventory, layout::StageRange::whole(config.num_hidden_layers)) {}

Decoder::Decoder(const model::ModelConfig& config, const model::Inventory& inventory,
                 const layout::StageRange& range)
    : config_(checked(config)),
      range_(range),
      embedding_scale_(inventory.spec.embedding_scale),
      rounds_embedding_scale_(inventory.spec.rounds_embedding_scale),
      positions_offset_(inventory.spec.positions_offset),
      logit_softcap_(inventory.spec.logit_softcap),
      logit_scale_(inventory.spec.logit_scale) {
  for (const model::RopeSpec& rope : inventory.spec.ropes) {
    ropes_.push_back({.spec = rope});
  }
  for (const model::LayerSpec& kind : inventory.spec.kinds) {
    if (kind.attention.rope < 0) continue;
    ropes_[static_cast<size_t>(kind.attention.rope)].rotated = kind.attention.rotated;
  }
  for (const auto& spec : inventory.parameters) {
    parameters_.push_back(std::make_shared<Parameter>(Parameter{spec.name, {}}));
    by_name_[spec.name] = parameters_.back();
  }
  bind(inventory);
}

void Decoder::bind(const model::Inventory& inventory) {
  const model::DecoderSpec& spec = inventory.spec;
  const model::ModuleSpec& embedding = *spec.find(model::Role::kEmbedding);
  embed_tokens_.name = embedding.name;
  embed_tokens_.padding = spec.padding_id;
  if (range_.embedding || (range_.head && spec.tied)) {
    embed_tokens_.weight = parameters_[inventory.weight_of(model::Role::kEmbedding)];
  }
  if (range_.embedding && spec.find(model::Role::kPositions) != nullptr) {
    positions_ = parameters_[inventory.weight_of(model::Role::kPositions)];
  }
  if (range_.embedding && spec.find(model::Role::kEmbeddingNorm) != nullptr) {
    embedding_norm_ = build_norm(*spec.find(model::Role::kEmbeddingNorm), "", by_name_);
  }
  for (int64_t i = range_.first; i < range_.end; ++i) {
    layers_.push_back(build_layer(spec.layer(i), cat(spec.names.layers, ".", i, "."), by_name_));
  }
  for (DecoderLayer& layer : layers_) {
    for (Linear* each : layer.linears()) linears_[each->name] = each;
  }
  if (range_.head) bind_head(inventory);
  bind_units(layout::stage_units(inventory), spec.tied);
}

void Decoder::bind_head(const model::Inventory& inventory) {
  const model::DecoderSpec& spec = inventory.spec;
  norm_ = build_norm(*spec.find(model::Role::kFinalNorm), "", by_name_);
  const model::ModuleSpec& head = *spec.find(model::Role::kHead);
  if (head.stored) {
    lm_head_ = build_linear(head, "", by_name_);
  } else {
    lm_head_.name = head.name;
    lm_head_.weight = embed_tokens_.weight;
    if (head.bias) lm_head_.bias = by_name_.at(head.name + ".bias");
  }
  linears_[lm_head_.name] = &lm_head_;
}

void Decoder::bind_units(const std::vector<model::Unit>& units, bool tied) {
  const auto unit_of = [&](model::UnitKind kind, int64_t layer = -1) {
    const auto found = std::find_if(units.begin(), units.end(), [&](const model::Unit& unit) {
      return unit.kind == kind && (kind != model::UnitKind::kLayer || unit.layer == layer);
    });
    AM_ASSERT(found != units.end(), "a decoder has a unit of each kind");
    return static_cast<int>(found - units.begin());
  };
  if (range_.embedding) {
    unit_uses_.push_back({unit_of(model::UnitKind::kEmbedding),
                          /*backward_reads_parameters=*/embedding_norm_.weight != nullptr});
  }
  for (int64_t i = range_.first; i < range_.end; ++i) {
    unit_uses_.push_back({unit_of(model::UnitKind::kLayer, i)});
  }
  if (!range_.head) return;
  unit_uses_.push_back({unit_of(model::UnitKind::kRoot)});
  unit_uses_.push_back({unit_of(tied ? model::UnitKind::kEmbedding : model::UnitKind::kHead)});
}

std::vector<int64_t> Decoder::take_expert_counts() {
  std::vector<int64_t> counts;
  for (int64_t layer = range_.first; layer < range_.end; ++layer) {
    if (!layers_[static_cast<size_t>(layer - range_.first)].experts) continue;
    const std::vector<int64_t> of_layer = take_expert_counts(layer);
    counts.insert(counts.end(), of_layer.begin(), of_layer.end());
  }
  return counts;
}

std::vector<int64_t> Decoder::take_expert_counts(int64_t layer) {
  ExpertFeedForward& experts = *layers_.at(static_cast<size_t>(layer - range_.first)).experts;
  std::vector<int64_t> counts = std::exchange(experts.counts, {});
  counts.resize(static_cast<size_t>(experts.count()));
  return counts;
}

void Decoder::set_balance_factor(double factor) {
  for (DecoderLayer& layer : layers_) {
    if (layer.experts) layer.experts->balance_factor = factor;
  }
}

at::Tensor Decoder::take_balance() {
  at::Tensor sum;
  for (DecoderLayer& layer : layers_) {
    if (!layer.experts) continue;
    const at::Tensor one = std::exchange(layer.experts->balance, {});
    if (one.defined()) sum = sum.defined() ? sum + one : one;
  }
  return sum;
}

void Decoder::set_adapter_dropout(double p, int64_t part) {
  if (p == 0.0) return;
  dropout_part_ = part;
  for (const auto& [name, linear] : linears_) {
    if (linear->adapter) linear->adapter->dropout = {p, hash_name(name)};
  }
}

void Decoder::set_embedding_noise(double alpha, int64_t part) {
  embedding_noise_ = alpha;
  if (alpha > 0.0) dropout_part_ = part;
}

void Decoder::begin_dropout(uint64_t seed, int64_t step, int64_t first_sequence) {
  if (!dropout_part_) return;
  dropout_ = DropoutPass{.seed = seed,
                         .step = static_cast<uint64_t>(step),
                         .rows = {.first_sequence = first_sequence, .part = *dropout_part_}};
}

void Decoder::end_dropout() { dropout_.reset(); }

at::Tensor Decoder::enter(size_t use, at::Tensor x) const {
  if (hooks_ != nullptr) hooks_->before_unit(use, {&x, 1});
  return x;
}

at::Tensor Decoder::leave(size_t use, at::Tensor x) const {
  if (hooks_ != nullptr) hooks_->after_unit(use, {&x, 1});
  return x;
}

void Decoder::place_documents(const at::Tensor& positions_BT, const at::Tensor& like) {
  const tensor::MemoryUse memory(tensor::TensorUse::kOther);
  unrotated_.document_BT = at::Tensor();
  unrotated_.document_starts = nullptr;
  if (!positions_BT.defined() || ignores_packing_ || positions_BT.size(1) == 1) return;
  const at::Tensor later_BT = positions_BT.narrow(1, 1, positions_BT.size(1) - 1);
  if (!later_BT.eq(0).any().item<bool>()) return;
  // Padding after the sequence has position 0, so that each padding token is a document by itself.
  const at::Tensor all_BT = part_.padded(positions_BT, 0);
  unrotated_.document_BT = fused::uploaded(documents(all_BT), like.device());
  if (!fused::on_gpu(like)) return;
  unrotated_.document_starts =
      std::make_shared<const std::vector<int64_t>>(document_starts(all_BT.cpu()));
}

at::Tensor Decoder::own_positions(int64_t length, const at::Tensor& positions_BT,
                                  const at::Tensor& ids_BT) const {
  if (positions_BT.defined()) {
    return fused::uploaded(part_.of(positions_BT, 0), ids_BT.device());
  }
  if (part_.is_whole()) return {};
  if (fault::is_planted(fault::Fault::kCpPositions)) {
    return positions_up_to(part_.cut(length).local(), ids_BT.options());
  }
  return part_.of(positions_up_to(length, ids_BT.options()), 0);
}

void Decoder::place(int64_t length, const at::Tensor& own_positions, const at::Tensor& like) {
  const tensor::MemoryUse use(tensor::TensorUse::kOther);
  for (Rope& rope : ropes_) {
    if (rope.rotated == 0) continue;
    const at::Tensor& cos_TK = rope.table.cos_TK;
    const bool fits = cos_TK.defined() && cos_TK.size(0) == length &&
                      cos_TK.scalar_type() == like.scalar_type() &&
                      cos_TK.device() == like.device();
    if (!fits) {
      const Rotation made =
          make_rotation(rope_inverse_frequencies(rope.spec, rope.rotated, length), 0, length,
                        like.scalar_type(), model::attention_factor(rope.spec));
      rope.table = {made.cos_TK.to(like.device()), made.sin_TK.to(like.device())};
    }
    rope.placed = own_positions.defined() ? gather_rotation(rope.table, own_positions) : rope.table;
    rope.placed.document_BT = unrotated_.document_BT;
    rope.placed.document_starts = unrotated_.document_starts;
  }
}

bool Decoder::turns_alike(int64_t length, int64_t other) const {
  return std::all_of(ropes_.begin(), ropes_.end(), [&](const Rope& rope) {
    return rope.rotated == 0 || at::equal(rope_inverse_frequencies(rope.spec, rope.rotated, length),
                                          rope_inverse_frequencies(rope.spec, rope.rotated, other));
  });
}

const Rotation& Decoder::rotation_of(size_t layer) const {
  const int rope = layers_[layer].self_attn.rope;
  return rope < 0 ? unrotated_ : ropes_[static_cast<size_t>(rope)].placed;
}

layout::SavedSet Decoder::kept_by(size_t i) const {
  const int64_t layer = range_.first + static_cast<int64_t>(i);
  const bool checkpointed = (layer + 1) % checkpointing_every_ == 0;
  return layout::kept_under(checkpointed ? checkpointing_ : config::ActivationCheckpointing::kOff,
                            layers_[i].residual);
}

at::Tensor Decoder::embed(const at::Tensor& ids_BT, const at::Tensor& positions_BT) const {
  at::Tensor x_BTD = embed_tokens_(ids_BT);
  if (dropout_ && embedding_noise_ > 0.0) {
    const int64_t elements = dropout_->rows.length * x_BTD.size(-1);
    x_BTD = fused::with_noise(
        x_BTD,
        {.largest = embedding_noise_ / std::sqrt(static_cast<double>(elements)),
         .key = fused::dropout_key(dropout_->seed, dropout_->step, hash_name(embed_tokens_.name)),
         .rows = dropout_->rows});
  }
  if (positions_) {
    at::Tensor positions =
        positions_BT.defined() ? positions_BT : positions_up_to(ids_BT.size(1), ids_BT.options());
    if (positions_offset_ != 0) positions = positions + positions_offset_;
    return x_BTD +
           fused::look_up(positions_->value, apply_transform(piece_of_positions_, positions));
  }
  if (embedding_norm_.weight) return embedding_norm_(x_BTD);
  if (embedding_scale_ == 1.0) return x_BTD;
  if (!rounds_embedding_scale_) return x_BTD * embedding_scale_;
  // The factor is rounded to the computation's dtype, as in Hugging Face's models.
  return x_BTD * at::scalar_tensor(embedding_scale_, x_BTD.scalar_type()).item();
}

at::Tensor Decoder::operator()(const at::Tensor& ids_BT, const at::Tensor& positions_BT,
                               const at::Tensor& hidden_BTD) {
  AM_ASSERT(hidden_BTD.defined() != range_.embedding, "only later stages read hidden_BTD");
  if (range_.embedding) tensor::check_tokens(ids_BT, "token id", config_.vocab_size);
  if (dropout_) {
    dropout_->rows.sequences = ids_BT.size(0);
    dropout_->rows.length = ids_BT.size(1);
    if (part_.ranks > 1) dropout_->rows.runs = part_.cut(ids_BT.size(1)).parts(part_.index);
  }
  const DropoutScope dropout(dropout_);
  std::optional<AutocastScope> autocast;
  if (autocast_) autocast.emplace(Autocast{ids_BT.device().type(), autocast_});
  for (DecoderLayer& layer : layers_) {
    if (layer.experts) layer.experts->padding = part_.padding_of_experts(ids_BT.size(1));
  }
  const at::Tensor positions = own_positions(ids_BT.size(1), positions_BT, ids_BT);
  size_t use = 0;
  at::Tensor x_BTD = hidden_BTD;
  if (range_.embedding) {
    x_BTD = leave(use, embed(enter(use, part_.of(ids_BT, 0)), positions));
    ++use;
  }
  place_documents(positions_BT, x_BTD);
  place(ids_BT.size(1), positions, x_BTD);
  for (size_t i = 0; i < layers_.size(); ++i, ++use) {
    x_BTD = enter(use, x_BTD);
    x_BTD = leave(use, layers_[i](x_BTD, rotation_of(i), kept_by(i)));
  }
  if (!range_.head) return x_BTD;
  x_BTD = leave(use, norm_(enter(use, x_BTD)));
  // Scales the head's input instead of the logits, because the input is the smaller tensor.
  if (logit_scale_ != 1.0) x_BTD = x_BTD * logit_scale_;
  const at::Tensor head_input = enter(++use, x_BTD);
  const tensor::MemoryUse memory(tensor::TensorUse::kLogits);
  const at::Tensor logits = leave(use, lm_head_(head_input));
  // The cap runs outside of the head's FSDP unit, so that the cap's backward ends before the head's
  // parameters are gathered.
  return logit_softcap_ ? fused::soft_cap(logits, *logit_softcap_) : logits;
}

}  // namespace am::nn
