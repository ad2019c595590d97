// Describes a decoder as data: its modules, their roles, and the kinds of values that they read and
// return. Parameter names, shapes, tensor-parallel cuts, gradient sums, FLOPs, bytes of saved
// activations and the layers that am-run builds are all computed from this description.
//
//   const DecoderSpec spec = describe(config);
//   const LayerSpec& layer = spec.layer(0);
//   layer.find(Role::kAttentionOut)->name;   // "self_attn.o_proj", "attn.c_proj", ...
//
// A family's file in families/ defines the LayerSpec of the family's layers. All other code reads
// the properties of the layers from this description.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "am/model/config.h"

namespace am::model {

// Initialisation of a parameter. kFanIn is the default of torch.nn.Linear: uniform in
// [-1 / sqrt(n), 1 / sqrt(n)] for a matrix with n columns.
enum class Init { kNormal, kOnes, kZeros, kFanIn };

// Kind of a module, which determines the tensor-parallel styles that can be applied to it.
enum class ModuleKind {
  kEmbedding,
  kLinear,      // a linear layer that every token passes, for example of the shared experts
  kNorm,        // a norm over the hidden state, over queries or keys, or over low-rank vectors
  kExpert,      // a matrix of a routed expert, or the matrices of all experts in one tensor
  kRouter,      // computes scores of routed experts, or the weight of shared experts
  kHeadVector,  // one value per query head (attention sinks); sharded with the queries
};

// Function of a module in its layer, or in the decoder outside the layers. A layer has at most one
// module of each role, except kOther.
enum class Role : uint8_t {
  kEmbedding,
  kPositions,
  kEmbeddingNorm,
  kFinalNorm,
  kHead,
  // Norms over the hidden state.
  kInputNorm,
  kPostAttentionNorm,
  kPreFeedForwardNorm,
  kPostFeedForwardNorm,
  // Attention. Roles with Down are projections to the low-rank vectors of latent attention (MLA),
  // and roles with Up are projections from these vectors.
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
  kRouterCorrection,  // one bias per expert, which affects only the choice of experts
  kExpertGate,
  kExpertUp,
  kExpertGateUp,
  kExpertDown,
  kSharedGate,
  kSharedUp,
  kSharedDown,
  kSharedWeigher,  // computes the gate of the shared experts' output: one number per token
  // A part of a layer that am-plan counts and am-run does not support, for example a matrix of a
  // Mamba layer or a gate of attention's output. A layer may have several modules of this role.
  kOther,
};
inline constexpr size_t kRoles = static_cast<size_t>(Role::kOther) + 1;

// Kind of values that a module reads or returns. The kinds of a module's input and output determine
// how tensor parallelism cuts the module, and on which ranks its gradients are complete.
enum class Space : uint8_t {
  kIds,         // token ids or positions
  kHidden,      // the residual stream
  kLatent,      // low-rank vectors of latent attention, shared by all heads
  kHeads,       // query heads
  kKeyHeads,    // key and value heads
  kWide,        // intermediate activations of the feed-forward
  kRouted,      // hidden states of the tokens that are routed to one expert
  kScores,      // for each token, one number per expert, or one number for the shared experts
  kVocabulary,  // logits
};

// Formula of a norm. With the normalised input x^ and a function cast() that converts to the dtype
// of the input, kRms returns w * cast(x^), kRmsWide returns cast(w * x^), and kRmsPlusOne returns
// cast((1 + w) * x^). kLayer is LayerNorm, and kLayerPlusOne LayerNorm with 1 + w as its weight.
enum class NormKind : uint8_t { kRms, kRmsWide, kRmsPlusOne, kLayer, kLayerPlusOne };
inline bool is_layer_norm(NormKind kind) {
  return kind == NormKind::kLayer || kind == NormKind::kLayerPlusOne;
}

// A slice of a fused matrix along `out`, for example the slice {Role::kQuery, heads * width} of a
// qkv matrix.
struct Slice {
  Role role = Role::kQuery;  // role that the slice would have as a separate module
  int64_t length = 0;

  bool operator==(const Slice&) const = default;
};

// Low-rank adapter of a matrix: y = W x + scale * B (A x), or DoRA's product (lora.h).
struct AdapterSpec {
  int64_t rank = 0;
  double scale = 1.0;
  double dropout = 0.0;  // probability of dropping an element of x, during training
  bool dora = false;     // whether a magnitude per output is trained too

  bool operator==(const AdapterSpec&) const = default;
};

// How tp cuts a module of role kOther under the strategy megatron. kUnknown: not at all, so tp must
// be 1. kReplicated: every tp rank has the whole module. kRows and kColumns: along `out` or `in`.
enum class OtherCut : uint8_t { kUnknown, kReplicated, kRows, kColumns };

struct ModuleSpec {
  Role role = Role::kEmbedding;
  // Name of the module within the layer. In the names of routed experts, * stands for the expert's
  // index, for example "mlp.experts.*.gate_proj".
  std::string name;
  ModuleKind kind = ModuleKind::kLinear;
  int64_t out = 0;  // output size of a matrix; for a vector, its number of elements
  int64_t in = 0;   // input size of a matrix; 0: the weight is a vector, for example a norm's
  bool bias = false;
  bool in_out = false;  // the weight is stored [in, out], for example in GPT-2's Conv1D
  // Whether the module has a weight of its own; false for a tied head and a norm without weights.
  bool stored = true;
  Space from = Space::kHidden;
  Space to = Space::kHidden;
  std::vector<Slice> slices = {};  // slices of a fused matrix; empty: the matrix is not fused
  int64_t grain = 1;  // tp may cut `out` only at multiples of `grain`, for example a head's width
  // Number of equal modules that this description stands for: the experts of a layer, or the
  // channels of a convolution. 1 for all other modules.
  int64_t copies = 1;
  // Whether one tensor with a leading dim [copies, ...] contains all copies, for example the
  // matrices of all experts. A stacked vector with copies = 1 has the shape [1, out].
  bool stacked = false;
  int64_t leading_ones = 0;  // number of leading dims of size 1 of a weight that is not stacked
  // The matrices of all experts are one matrix: the rows of the first expert, then those of the
  // next (DBRX).
  bool joined = false;
  NormKind norm = NormKind::kRms;
  double eps = 0.0;
  Init init = Init::kNormal;
  // Name of the weight within the module. If it is "weight", the bias is named "bias"; otherwise
  // the bias has this name with "_bias" appended.
  std::string_view leaf = "weight";
  std::optional<AdapterSpec> adapter = {};
  OtherCut other_cut = OtherCut::kUnknown;  // used only for the role kOther

  // These functions return the number of elements of the weight, of the bias, and of both together,
  // over all copies.
  int64_t weight_numel() const;
  int64_t bias_numel() const;
  int64_t numel() const { return weight_numel() + bias_numel(); }
  // Returns the number of stored tensors. Experts with separate tensors are counted individually.
  int64_t tensors() const;

  bool operator==(const ModuleSpec&) const = default;
};

// Both sizes of a matrix must be multiples of this number for products in FP8.
inline constexpr int64_t kFp8Multiple = 16;
// Returns whether a plan's key strategy.fp8 applies to the module: the module is a matrix of
// attention or of a dense feed-forward, and both sizes of the matrix are multiples of kFp8Multiple.
bool multiplies_in_fp8(const ModuleSpec& module);

struct AttentionSpec {
  int64_t heads = 0;      // 0: the layer has no attention, for example a Mamba layer
  int64_t key_heads = 0;  // number of key heads; equal to `heads` under latent attention
  int64_t qk_width = 0;   // width of a head's queries and keys
  int64_t v_width = 0;    // width of a head's values
  double scale = 1.0;     // factor of the attention scores
  std::optional<double> softcap = {};  // a softcap c replaces each score by c * tanh(score / c)
  // Number of positions that a token attends to, itself included; absent: itself and all earlier
  // positions.
  std::optional<int64_t> window = {};
  std::optional<double> alibi = {};  // ALiBi's smallest slope is 2^-alibi; absent: no ALiBi
  bool sinks = false;
  bool latent = false;
  bool norms_span_heads = false;   // norms of queries and keys normalise all heads together
  bool norms_follow_rope = false;  // norms of queries and keys are applied after the rotation
  // Whether the query matrix also returns a gate for each element of attention's output.
  bool gated = false;
  int64_t rotated = 0;       // number of elements of qk_width that RoPE rotates
  bool interleaved = false;  // RoPE pairs element 2i with 2i + 1, not i with i + rotated/2
  int rope = 0;              // index into DecoderSpec::ropes; -1: no RoPE
  // Whether one fused matrix computes queries, keys and values, and the order of its rows.
  // kConcatenated: all queries, then all keys, then all values. kByKeyHead: for each key head, its
  // queries, its key and its value.
  enum class Fused : uint8_t { kNo, kConcatenated, kByKeyHead } fused = Fused::kNo;

  bool operator==(const AttentionSpec&) const = default;
};

// Activation function of the MLP. Configs call kGeluTanh "gelu_new" or "gelu_pytorch_tanh". kRelu2
// is the square of ReLU. kClampedSilu is described at LayerSpec::activation_alpha. am-plan can plan
// models with kOther, but am-run cannot run them.
enum class Activation : uint8_t { kSilu, kGeluTanh, kGeluErf, kRelu, kRelu2, kClampedSilu, kOther };

struct RouterSpec {
  int64_t experts = 0;
  int64_t top_k = 0;  // number of experts to which a token is routed
  // Function that converts the router's outputs to routing weights. kSoftmaxOfTaken is a softmax
  // over the top-k experts only.
  enum class Score : uint8_t { kSoftmax, kSigmoid, kSoftmaxOfTaken } score = Score::kSoftmax;
  // Group-limited routing: a token is routed only to experts in the `topk_groups` best of `groups`
  // groups. If group_by_two_best is set, the score of a group is the sum of its two best experts'
  // scores, otherwise the score of its best expert.
  int64_t groups = 1;
  int64_t topk_groups = 1;
  bool group_by_two_best = false;
  bool normalise = false;  // the weights of a token's top-k experts are normalised to sum to 1
  // Normalisation divides each weight by the sum of the token's weights plus this epsilon.
  double normalise_eps = 0.0;
  double scale = 1.0;  // factor of the routing weights, after normalisation

  bool operator==(const RouterSpec&) const = default;
};

// How attention, feed-forward and their norms are connected to the residual stream.
enum class Residual : uint8_t {
  kPreNorm,  // norms are applied to the inputs of attention and feed-forward
  // Norms are applied to the outputs of attention and feed-forward. In openai-gpt, which only
  // am-plan supports, norms are applied to the sums with the residual stream.
  kPostNorm,
  kSandwich,  // norms are applied to the inputs and to the outputs of attention and feed-forward
  kParallelOneNorm,   // attention and feed-forward read the output of the same norm
  kParallelTwoNorms,  // attention and feed-forward read the same input, each through its own norm
};

struct LayerSpec {
  Residual residual = Residual::kPreNorm;
  double residual_scale = 1.0;  // factor of the outputs of attention and feed-forward
  AttentionSpec attention;
  Activation activation = Activation::kSilu;
  // Constants alpha and limit of kClampedSilu. With g = min(gate, limit) and
  // u = clamp(up, -limit, limit), the activation is (u + 1) g sigmoid(alpha g).
  double activation_alpha = 0.0;
  double activation_limit = 0.0;
  bool gated = true;  // the MLP has gate, up and down matrices; otherwise only up and down
  std::optional<RouterSpec> router = {};  // absent: the layer has no routed experts
  std::vector<ModuleSpec> modules = {};   // modules in the order of torch's named_parameters()

  const ModuleSpec* find(Role role) const;  // null if the layer has no such module
  bool has(Role role) const { return find(role) != nullptr; }
  int hidden_norms() const;  // returns the number of norms over the hidden state
  // Whether the layer is one block after one norm, for example Mamba, or attention or an MLP alone.
  bool single() const { return !parallel() && hidden_norms() == 1; }
  // Returns the number of weights in matrices of role kOther that a token is multiplied with. If
  // `cut` is set, only matrices that tp cuts are counted.
  double other_weights(bool cut = false) const;
  bool parallel() const {
    return residual == Residual::kParallelOneNorm || residual == Residual::kParallelTwoNorms;
  }

  bool operator==(const LayerSpec&) const = default;
};

// Names of the modules before and after a decoder's layers, and of the list of layers.
struct ModuleNames {
  std::string_view embedding = "model.embed_tokens";
  std::string_view positions = "";       // embedding of learned positions; empty: there is none
  std::string_view embedding_norm = "";  // norm of the embeddings; empty: there is none
  std::string_view layers = "model.layers";
  std::string_view norm = "model.norm";  // empty: there is no norm after the layers
  std::string_view head = "lm_head";

  bool operator==(const ModuleNames&) const = default;
};

using RopeSpec = RopeConfig;

struct DecoderSpec {
  std::vector<LayerSpec> kinds;    // distinct descriptions of layers, in order of first appearance
  std::vector<int> kind_of_layer;  // for each layer: the index of its description in `kinds`
  // Modules before the layers: the embedding and, if the model has them, learned positions and the
  // embedding's norm.
  std::vector<ModuleSpec> before;
  std::vector<ModuleSpec> after;  // modules after the layers: the final norm and the head
  ModuleNames names;
  // Rotary embeddings. If there are two, the second applies to layers with a sliding window and the
  // first to all other layers.
  std::vector<RopeSpec> ropes;
  double embedding_scale = 1.0;            // factor of the embeddings
  bool rounds_embedding_scale = false;     // embedding_scale is rounded to the computation's dtype
  int64_t positions_offset = 0;            // row of position 0 in the table of learned positions
  std::optional<int64_t> padding_id = {};  // token whose embedding row gets no gradient
  std::optional<double> logit_softcap = {};  // a softcap c replaces each logit x by c * tanh(x / c)
  double logit_scale = 1.0;                  // factor of the logits
  bool tied = false;  // the head has no weight of its own and uses the embedding's

  const LayerSpec& layer(int64_t layer) const {
    return kinds[static_cast<size_t>(kind_of_layer[static_cast<size_t>(layer)])];
  }
  // Returns the module that has this role and belongs to no layer; null if there is none.
  const ModuleSpec* find(Role role) const;

  bool operator==(const DecoderSpec&) const = default;
};

DecoderSpec describe(const ModelConfig& config);
// Returns the description of the layer with index `layer`, in [0, num_hidden_layers).
LayerSpec describe(const ModelConfig& config, int64_t layer);

// Returns the slopes of ALiBi (Press et al., 2022), one per query head. If the number n of heads is
// a power of two, the slopes are 2^(-exponent * i / n) for i = 1 .. n. Otherwise, with the next
// power of two m, the slopes are the first n values of 2^(-exponent * i / m) for i = 2, 4, .. m,
// 1, 3, .. m - 1.
std::vector<double> alibi_slopes(int64_t heads, double exponent);

// Returns the number of weights that one token is multiplied with in the layer: those of the
// projections, the dense feed-forward, the experts to which the token is routed, the shared
// experts, the router and the matrices of role kOther. Biases and norm weights are not counted.
double matmul_parameters(const LayerSpec& layer);

}  // namespace am::model
