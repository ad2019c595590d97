#include "am/base/fault.h"

#include <algorithm>
#include <array>

namespace am::fault {
namespace {

constexpr std::array<Description, 30> kFaults = {{
    {Fault::kTpInputSum, "tp_input_sum",
     "the gradient of column-wise layers' input is not summed over tp"},
    {Fault::kTpHeadNormSum, "tp_head_norm_sum",
     "the gradient of a norm over each head is not summed over tp"},
    {Fault::kTpKeyHeadSum, "tp_key_head_sum",
     "the gradient of a key head that several tp ranks have is not summed over them"},
    {Fault::kTpBiasEach, "tp_bias_each", "each tp rank adds a row-wise layer's bias to its part"},
    {Fault::kTpVocabOffset, "tp_vocab_offset",
     "a rank looks ids up one row beside its slice of the vocabulary"},
    {Fault::kSpNormSum, "sp_norm_sum",
     "the gradient of norms under sequence parallelism is not summed over tp"},
    {Fault::kMlaRopeKey, "mla_rope_key",
     "the gradient of latent attention's rotated key is not summed over tp"},
    {Fault::kCpPositions, "cp_positions", "each cp rank counts its positions from 0"},
    {Fault::kCpRingOrder, "cp_ring_order",
     "keys that came round the ring are taken for those of the rank on the other side"},
    {Fault::kCpLse, "cp_lse", "a query that saw no key of a block counts as one with a sum of 1"},
    {Fault::kCpKeyHome, "cp_key_home", "gradients of keys and values stop one hop before home"},
    {Fault::kCpSinks, "cp_sinks", "attention sinks are counted with each block of keys"},
    {Fault::kDpDivide, "dp_divide", "gradients are divided by the ranks that share the shards"},
    {Fault::kAccumulateLast, "accumulate_last",
     "a micro-batch's gradient takes the place of those before it"},
    {Fault::kPpTiedSum, "pp_tied_sum", "the gradients of a tied head's two copies stay apart"},
    {Fault::kPpSwap, "pp_swap", "the gradient of a micro-batch goes to the next one"},
    {Fault::kPpWeightLost, "pp_weight_lost",
     "the last product that backward owes to the weights is lost"},
    {Fault::kPpLossTwice, "pp_loss_twice", "the loss is divided by the micro-batches too"},
    {Fault::kEpUnpermute, "ep_unpermute", "what experts made goes back in the experts' order"},
    {Fault::kEpRouterSum, "ep_router_sum", "the gradient of routers is not summed over tp"},
    {Fault::kEpDivide, "ep_divide", "the gradients of experts are divided by the ep ranks"},
    {Fault::kEpPadding, "ep_padding", "tokens that stand for nothing count as taken by experts"},
    {Fault::kNormReplicas, "norm_replicas",
     "the gradient norm counts what several ranks hold several times"},
    {Fault::kNormExperts, "norm_experts",
     "the gradient norm counts the first rank's experts alone"},
    {Fault::kLoraSharedSum, "lora_shared_sum",
     "the gradient of an adapter's whole matrix is not summed over tp"},
    {Fault::kInitLocal, "init_local", "initial values are drawn by the index in the shard"},
    {Fault::kHsdpReplicas, "hsdp_replicas", "gradients are not summed over the replicas"},
    {Fault::kWindowLocal, "window_local", "windows are counted from the keys at hand"},
    {Fault::kReplicaBit, "replica_bit",
     "a value's sign is another one on the ranks that hold its parameter once more"},
    {Fault::kUncheckedId, "unchecked_id",
     "a batch of the third step has an id outside the vocabulary, which nobody looks for on the "
     "host"},
}};

}  // namespace

std::span<const Description> all() { return kFaults; }

const Description& describe(Fault fault) { return kFaults[static_cast<size_t>(fault)]; }

std::optional<Fault> find(std::string_view name) {
  const auto* found = std::find_if(kFaults.begin(), kFaults.end(),
                                   [&](const Description& each) { return each.name == name; });
  if (found == kFaults.end()) return std::nullopt;
  return found->fault;
}

}  // namespace am::fault
