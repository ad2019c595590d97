// Description of a decoder as data: its modules with their roles, and the spaces of their inputs
// and outputs. Names, shapes, cuts over tp, gradient sums, FLOPs, saved bytes and the layers that
// am-run builds are functions of it.
//
//   const DecoderSpec spec = describe(config);
//   const LayerSpec& layer = spec.layer(0);
//   layer.find(Role::kAttentionOut)->name;   // "self_attn.o_proj", "attn.c_proj", ...
//
// A family's file (families/) returns the LayerSpec of each layer; no other file contains knowledge
// about a family's layers.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"

namespace am::model {

// kFanIn: uniform in +-1 / sqrt(columns), the default of torch.nn.Linear.
enum class Init { kNormal, kOnes, kZeros, kFanIn };

// Kind of the owning module; determines which parallel styles fit.
enum class ModuleKind {
  kEmbedding,
  kLinear,      // including shared experts, because every token passes them
  kNorm,        // over the hidden state, or over queries and keys
  kExpert,      // a matrix of a routed expert, or one tensor with all experts' on dim 0
  kRouter,      // computes experts' scores or weights
  kHeadVector,  // one value per query head (attention sinks); sharded with the queries
};

// Function of a module in its layer or in the decoder. Each occurs at most once in a layer.
enum class Role : uint8_t {
  kEmbedding,
  kPositions,
  kFinalNorm,
  kHead,
  // Norms over the hidden state.
  kInputNorm,
  kPostAttentionNorm,
  kPreFeedForwardNorm,
  kPostFeedForwardNorm,
  // Attention. Down and Up: projections to and from the low-rank vectors of latent attention.
  kQuery,
  kKey,
  kValue,
  kQkv,
  kQueryDown,
  kQueryDownNorm,
  kQueryUp,
  kKeyValueDown,
  kKeyValueDownNorm,
  kKeyValueUp,
  kQueryNorm,
  kKeyNorm,
  kSinks,
  kAttentionOut,
  // Dense feed-forward, which every token passes.
  kGate,
  kUp,
  kGateUp,
  kDown,
  // Experts.
  kRouter,
  kRouterCorrection,
  kExpertGate,
  kExpertUp,
  kExpertGateUp,
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedWeigher,
};
inline constexpr size_t kRoles = static_cast<size_t>(Role::kSharedWeigher) + 1;

// Space of a module's input or output; determines how tp cuts the module and which ranks have its
// whole gradient.
enum class Space : uint8_t {
  kIds,
  kHidden,    // the residual stream
  kLatent,    // low-rank vectors of latent attention, shared by all heads
  kHeads,     // query heads
  kKeyHeads,  // key and value heads
  kWide,      // the feed-forward's intermediate activations
  kRouted,    // the tokens routed to one expert
  kScores,    // one number per expert
  kVocabulary,
};

// Outputs, in this order: w * cast(x^), cast(w * x^), cast((1 + w) * x^), LayerNorm with a bias. x^
// is the normalised input; cast converts to the input's dtype.
enum class NormKind : uint8_t { kRms, kRmsWide, kRmsPlusOne, kLayer };

// A slice of a fused matrix along `out`: {Role::kQuery, heads * width}.
struct Slice {
  Role role = Role::kQuery;  // role it would have as a separate module
  int64_t length = 0;

  bool operator==(const Slice&) const = default;
};

// Low-rank adapter of a matrix: y = W x + scale * B (A x) (lora.h).
struct AdapterSpec {
  int64_t rank = 0;
  double scale = 1.0;
  double dropout = 0.0;  // of x, during training

  bool operator==(const AdapterSpec&) const = default;
};

struct ModuleSpec {
  Role role = Role::kEmbedding;
  std::string name;  // relative to the layer; for a routed expert: "mlp.experts.*.gate_proj"
  ModuleKind kind = ModuleKind::kLinear;
  int64_t out = 0;  // a norm or a vector has this size only
  int64_t in = 0;   // 0: a vector
  bool bias = false;
  bool in_out = false;  // stored [in, out]: GPT-2's Conv1D, gpt-oss's experts
  bool stored = true;   // false: its weight is another module's (tied head)
  Space from = Space::kHidden;
  Space to = Space::kHidden;
  std::vector<Slice> slices = {};  // empty: one slice
  int64_t grain = 1;     // a tp cut along `out` must fall on multiples of this (a head's width)
  int64_t copies = 1;    // number of experts
  bool stacked = false;  // all copies in one tensor [copies, ...]
  NormKind norm = NormKind::kRms;
  double eps = 0.0;
  Init init = Init::kNormal;
  // Leaf name of the parameter. The bias is "bias", or this name with "_bias" if it is not
  // "weight".
  std::string_view leaf = "weight";
  std::optional<AdapterSpec> adapter = {};

  // Elements of the weight or the bias, in all copies.
  int64_t weight_numel() const;
  int64_t bias_numel() const;
  int64_t numel() const { return weight_numel() + bias_numel(); }
  int64_t tensors() const;  // number of stored tensors; unstacked experts count separately

  bool operator==(const ModuleSpec&) const = default;
};

struct AttentionSpec {
  int64_t heads = 0;
  int64_t key_heads = 0;  // as attention reads them: equal to `heads` under latent attention
  int64_t qk_width = 0;
  int64_t v_width = 0;                 // differs from qk_width under latent attention only
  double scale = 1.0;                  // factor of the attention scores
  std::optional<double> softcap = {};  // c: scores become c * tanh(score / c)
  std::optional<int64_t> window = {};  // number of positions a token attends to, itself included
  bool sinks = false;
  bool latent = false;
  bool norms_span_heads = false;  // q and k norms over all heads together
  int64_t rotated = 0;            // number of rotated elements of qk_width
  bool interleaved = false;       // RoPE rotates adjacent pairs instead of halves
  int rope = 0;                   // index into DecoderSpec::ropes; -1: no RoPE
  // Arrangement of queries, keys and values in one matrix.
  enum class Fused : uint8_t { kNo, kConcatenated, kByKeyHead } fused = Fused::kNo;

  bool operator==(const AttentionSpec&) const = default;
};

// "gelu_new" and "gelu_pytorch_tanh" are both kGeluTanh. kOther can be planned but not run.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf, kClampedSilu, kOther };

struct RouterSpec {
  int64_t experts = 0;
  int64_t top_k = 0;  // top-k: experts per token
  enum class Score : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfTaken } score = Score::kSoftmax;
  // Group-limited routing: a token is routed within the `topk_groups` of `groups` with the best
  // score, which is the sum of the group's two best expert scores, or its best one.
  int64_t groups = 1;
  int64_t topk_groups = 1;
  bool group_by_two_best = false;
  bool normalise = false;  // normalise the top-k weights to sum to 1
  double normalise_eps = 0.0;
  double scale = 1.0;  // factor of the weights, after normalisation

  bool operator==(const RouterSpec&) const = default;
};

// Connection of attention, feed-forward and their norms to the residual stream.
enum class Residual : uint8_t {
  kPreNorm,
  kPostNorm,  // norms are applied to the outputs of attention and feed-forward
  kSandwich,  // norms before and after
  kParallelOneNorm,
  kParallelTwoNorms,
};

struct LayerSpec {
  Residual residual = Residual::kPreNorm;
  AttentionSpec attention;
  Activation activation = Activation::kSilu;
  // kClampedSilu: with g = min(gate, limit) and u = clamp(up, -limit, limit), computes
  // (u + 1) g sigmoid(alpha g).
  double activation_alpha = 0.0;
  double activation_limit = 0.0;
  bool gated = true;                      // gate, up and down; else up and down
  std::optional<RouterSpec> router = {};  // present: the layer has experts
  std::vector<ModuleSpec> modules = {};   // in the order of named_parameters()

  const ModuleSpec* find(Role role) const;  // null if the layer has no such module
  bool has(Role role) const { return find(role) != nullptr; }
  // Number of norms over the hidden state.
  int hidden_norms() const;
  bool parallel() const {
    return residual == Residual::kParallelOneNorm || residual == Residual::kParallelTwoNorms;
  }

  bool operator==(const LayerSpec&) const = default;
};

// Names of the modules that every decoder has.
struct ModuleNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = "";  // learned positions; empty: none
  std::string_view layers = "model.layers";
  std::string_view norm = "model.norm";
  std::string_view head = "lm_head";
};

using RopeSpec = RopeConfig;

struct DecoderSpec {
  std::vector<LayerSpec> kinds;    // distinct layers, in order of first appearance
  std::vector<int> kind_of_layer;  // per layer: index into `kinds`
  std::vector<ModuleSpec> before;  // modules before the layers: the embedding, learned positions
  std::vector<ModuleSpec> after;   // modules after the layers: the final norm and the head
  ModuleNames names;
  // The first rope applies to all layers; a second one replaces it in layers with a window.
  std::vector<RopeSpec> ropes;
  double embedding_scale = 1.0;
  std::optional<int64_t> padding_id = {};  // token whose embedding row gets no gradient
  std::optional<double> logit_softcap = {};
  bool tied = false;  // the head uses the embedding's weight and is not `stored`

  const LayerSpec& layer(int64_t layer) const {
    return kinds[static_cast<size_t>(kind_of_layer[static_cast<size_t>(layer)])];
  }
  const ModuleSpec* find(Role role) const;  // modules outside the layers only
};

DecoderSpec describe(const ModelConfig& config);
// Description of one layer, in [0, num_hidden_layers).
LayerSpec describe(const ModelConfig& config, int64_t layer);

// Weights that one token is multiplied with: projections, the dense feed-forward, the experts it is
// routed to, shared experts, the router. Biases and norm weights are not counted.
double matmul_parameters(const LayerSpec& layer);

}  // namespace am::model
