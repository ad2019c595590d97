// What a decoder is made of, as data: each module with its role, and in which space its input and
// output lie. Names, shapes, cuts over tp, gradient sums, operations and saved bytes are functions
// of it, and so are the layers that am-run builds.
//
//   const DecoderSpec spec = describe(config);
//   const LayerSpec& layer = spec.layer(0);
//   layer.find(Role::kAttentionOut)->name;   // "self_attn.o_proj", "attn.c_proj", ...
//
// A family's file (families/) gives the LayerSpec of a layer; nothing else is said about it
// anywhere.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"

namespace am::model {

// kFanIn: uniform within +-1 / sqrt(columns), as torch.nn.Linear begins.
enum class Init { kNormal, kOnes, kZeros, kFanIn };

// What the owning module is: it decides which parallel styles fit.
enum class ModuleKind {
  kEmbedding,
  kLinear,      // shared experts too: every token passes them
  kNorm,        // over the hidden state, or over queries and keys
  kExpert,      // a routed expert's matrix, or one tensor with all experts' on dim 0
  kRouter,      // what chooses experts and weighs them
  kHeadVector,  // one value a query head (attention sinks): cut exactly as the queries are
};

// What a module is to its layer, or to the decoder; each at most once in a layer.
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
  // Attention. Down and up: latent attention's narrow vectors and what is made of them.
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
  // The feed-forward that every token passes.
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

// In which space a module's input or output lies: it decides how tp cuts the module, and which
// ranks have its whole gradient.
enum class Space : uint8_t {
  kIds,
  kHidden,    // the residual stream
  kLatent,    // latent attention's narrow vectors, one for all heads
  kHeads,     // query heads
  kKeyHeads,  // key and value heads
  kWide,      // between up and down
  kRouted,    // the tokens of one expert
  kScores,    // a number for each expert
  kVocabulary,
};

// w * cast(x^), cast(w * x^), cast((1 + w) * x^), LayerNorm with a bias.
enum class NormKind : uint8_t { kRms, kRmsWide, kRmsPlusOne, kLayer };

// Of a fused matrix, along `out`: {Role::kQuery, heads * width}.
struct Slice {
  Role role = Role::kQuery;  // what it would be as a module of its own
  int64_t length = 0;

  bool operator==(const Slice&) const = default;
};

// Of a low-rank adapter beside a matrix: y = W x + scale * B (A x) (lora.h).
struct AdapterSpec {
  int64_t rank = 0;
  double scale = 1.0;
  double dropout = 0.0;  // of x, in training

  bool operator==(const AdapterSpec&) const = default;
};

struct ModuleSpec {
  Role role = Role::kEmbedding;
  std::string name;  // relative to the layer; a routed expert's: "mlp.experts.*.gate_proj"
  ModuleKind kind = ModuleKind::kLinear;
  int64_t out = 0;  // a norm's, or a vector's, only size
  int64_t in = 0;   // 0: a vector
  bool bias = false;
  bool in_out = false;  // stored [in, out]: GPT-2's Conv1D, gpt-oss's experts
  bool stored = true;   // false: its weight is another's (a tied head)
  Space from = Space::kHidden;
  Space to = Space::kHidden;
  std::vector<Slice> slices = {};  // empty: one
  int64_t grain = 1;     // a cut over tp falls on multiples of it along `out`: a head's width
  int64_t copies = 1;    // experts: as many
  bool stacked = false;  // ... in one tensor [copies, ...]
  NormKind norm = NormKind::kRms;
  double eps = 0.0;
  Init init = Init::kNormal;
  // The parameter's own name; its bias is "bias", or this with "_bias" where it is not "weight".
  std::string_view leaf = "weight";
  std::optional<AdapterSpec> adapter = {};

  // Elements of the weight and the bias, of all copies.
  int64_t weight_numel() const;
  int64_t bias_numel() const;
  int64_t numel() const { return weight_numel() + bias_numel(); }
  int64_t tensors() const;  // as files have them: an expert's own one by one

  bool operator==(const ModuleSpec&) const = default;
};

struct AttentionSpec {
  int64_t heads = 0;
  int64_t key_heads = 0;  // as attention reads them: all of them under latent attention
  int64_t qk_width = 0;
  int64_t v_width = 0;                 // differs from qk_width under latent attention only
  double scale = 1.0;                  // of the scores
  std::optional<double> softcap = {};  // c: scores become c * tanh(score / c)
  std::optional<int64_t> window = {};  // looks back at most so many positions, itself included
  bool sinks = false;
  bool latent = false;
  bool norms_span_heads = false;  // q and k norms over all heads together
  int64_t rotated = 0;            // of qk_width
  bool interleaved = false;       // neighbours turn together, not halves
  int rope = 0;                   // index into DecoderSpec::ropes; -1: heads are not rotated
  // How queries, keys and values lie in one matrix.
  enum class Fused : uint8_t { kNo, kConcatenated, kByKeyHead } fused = Fused::kNo;

  bool operator==(const AttentionSpec&) const = default;
};

// "gelu_new" and "gelu_pytorch_tanh" are kGeluTanh. kOther can be planned.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf, kClampedSilu, kOther };

struct RouterSpec {
  int64_t experts = 0;
  int64_t taken = 0;  // of them by each token
  enum class Score : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfTaken } score = Score::kSoftmax;
  // A token takes its experts out of `taken_groups` of `groups`, those with the best score: the sum
  // of their two best experts', or their best one's.
  int64_t groups = 1;
  int64_t taken_groups = 1;
  bool group_by_two_best = false;
  bool normalise = false;  // the weights of the taken ones add up to 1
  double normalise_eps = 0.0;
  double scale = 1.0;  // of the weights, after that

  bool operator==(const RouterSpec&) const = default;
};

// How attention, the feed-forward and their norms meet the residual stream.
enum class Residual : uint8_t {
  kPreNorm,
  kPostNorm,  // the norm of what attention and the feed-forward give
  kSandwich,  // both
  kParallelOneNorm,
  kParallelTwoNorms,
};

struct LayerSpec {
  Residual residual = Residual::kPreNorm;
  AttentionSpec attention;
  Activation activation = Activation::kSilu;
  // Of kClampedSilu: with g = min(gate, limit) and u = up within the limit, (u + 1) g sigmoid(alpha
  // g).
  double activation_alpha = 0.0;
  double activation_limit = 0.0;
  bool gated = true;                      // gate, up and down; else up and down
  std::optional<RouterSpec> router = {};  // a layer of experts
  std::vector<ModuleSpec> modules = {};   // in the order of named_parameters()

  const ModuleSpec* find(Role role) const;  // null: it has none
  bool has(Role role) const { return find(role) != nullptr; }
  // Norms over the hidden state.
  int hidden_norms() const;
  bool parallel() const {
    return residual == Residual::kParallelOneNorm || residual == Residual::kParallelTwoNorms;
  }

  bool operator==(const LayerSpec&) const = default;
};

// The names of the parts that every decoder has.
struct ModuleNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = "";  // learned positions; empty: none
  std::string_view layers = "model.layers";
  std::string_view norm = "model.norm";
  std::string_view head = "lm_head";
};

using RopeSpec = RopeConfig;

struct DecoderSpec {
  std::vector<LayerSpec> kinds;    // distinct, in order of first appearance
  std::vector<int> kind_of_layer;  // by layer: index into `kinds`
  std::vector<ModuleSpec> before;  // the layers: the embedding, learned positions
  std::vector<ModuleSpec> after;   // the last norm and the head
  ModuleNames names;
  std::vector<RopeSpec> ropes;  // all layers' first, then that of layers with a window
  double embedding_scale = 1.0;
  std::optional<int64_t> padding_id = {};  // whose row look-ups do not train
  std::optional<double> logit_softcap = {};
  bool tied = false;  // the head's weight is the embedding's, and the head is not `stored`

  const LayerSpec& layer(int64_t layer) const {
    return kinds[static_cast<size_t>(kind_of_layer[static_cast<size_t>(layer)])];
  }
  const ModuleSpec* find(Role role) const;  // of those outside of the layers
};

DecoderSpec describe(const ModelConfig& config);
// Of one layer, in [0, num_hidden_layers).
LayerSpec describe(const ModelConfig& config, int64_t layer);

// Weights that one token is multiplied with: projections, the dense feed-forward, the experts that
// it takes, shared experts, the router. Biases and norms are not multiplied with a matrix.
double matmul_parameters(const LayerSpec& layer);

}  // namespace am::model
