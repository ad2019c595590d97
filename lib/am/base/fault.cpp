#include "am/base/fault.h"

#include <algorithm>
#include <array>

namespace am::fault {
namespace {

constexpr std::array<Description, 40> kFaults = {{
    {Fault::kTpInputSum, "tp_input_sum",
     "the gradient of column-wise layers' input is not summed over tp"},
    {Fault::kTpHeadNormSum, "tp_head_norm_sum",
     "the gradient of a norm over each head is not summed over tp"},
    {Fault::kTpKeyHeadSum, "tp_key_head_sum",
     "the gradient of a key head that several tp ranks hold is not summed over them"},
    {Fault::kTpBiasEach, "tp_bias_each", "each tp rank adds a row-wise layer's bias to its part"},
    {Fault::kTpVocabOffset, "tp_vocab_offset", "a rank's vocabulary lookups are off by one row"},
    {Fault::kSpNormSum, "sp_norm_sum",
     "the gradient of norms under sequence parallelism is not summed over tp"},
    {Fault::kMlaRopeKey, "mla_rope_key",
     "the gradient of latent attention's rotated key is not summed over tp"},
    {Fault::kCpPositions, "cp_positions", "each cp rank counts its positions from 0"},
    {Fault::kCpRingOrder, "cp_ring_order",
     "keys from one neighbour of the ring are treated as those of the other"},
    {Fault::kCpLse, "cp_lse",
     "a query that sees no key of a block counts a softmax sum of 1 for the block"},
    {Fault::kCpKeyHome, "cp_key_home",
     "gradients of keys and values stop one hop before the rank of these keys"},
    {Fault::kCpSinks, "cp_sinks", "attention sinks are counted with each block of keys"},
    {Fault::kDpDivide, "dp_divide",
     "gradients are divided by the number of ranks that hold the shards"},
    {Fault::kAccumulateLast, "accumulate_last",
     "a micro-batch's gradient overwrites the accumulated one"},
    {Fault::kPpTiedSum, "pp_tied_sum", "the gradients of a tied head's two copies are not summed"},
    {Fault::kPpSwap, "pp_swap", "the gradient of a micro-batch goes to the next micro-batch"},
    {Fault::kPpWeightLost, "pp_weight_lost",
     "the last deferred weight gradient of backward is zero"},
    {Fault::kPpLossTwice, "pp_loss_twice",
     "the loss is also divided by the number of micro-batches"},
    {Fault::kEpUnpermute, "ep_unpermute", "the experts' outputs are not put back into token order"},
    {Fault::kEpRouterSum, "ep_router_sum", "the gradient of routers is not summed over tp"},
    {Fault::kEpDivide, "ep_divide",
     "the gradients of experts are divided by the number of ep ranks"},
    {Fault::kEpPadding, "ep_padding", "padding tokens are counted in the experts' loads"},
    {Fault::kNormReplicas, "norm_replicas",
     "the gradient norm counts replicated parameters once per replica"},
    {Fault::kNormExperts, "norm_experts",
     "the gradient norm counts only the first ep rank's experts"},
    {Fault::kLoraSharedSum, "lora_shared_sum",
     "the gradient of an adapter's unsharded matrix is not summed over tp"},
    {Fault::kInitLocal, "init_local", "initial values depend on the index within the shard"},
    {Fault::kHsdpReplicas, "hsdp_replicas", "gradients are not summed over the replicas"},
    {Fault::kWindowLocal, "window_local",
     "attention windows are measured in local indices instead of positions"},
    {Fault::kReplicaBit, "replica_bit",
     "one element of a parameter has the wrong sign in all replicas except the first"},
    {Fault::kFp8LocalScale, "fp8_local_scale",
     "scales of FP8 products are computed from each tp rank's shard alone"},
    {Fault::kLabelsOfRank, "labels_of_rank",
     "each data-parallel rank divides its loss by the number of labels in its own sequences"},
    {Fault::kLabelsOfMicroBatch, "labels_of_micro_batch",
     "the loss of each micro-batch is divided by the number of labels in it"},
    {Fault::kLabelsOfCpPart, "labels_of_cp_part",
     "each cp rank divides its loss by the number of labels in its part of the sequences"},
    {Fault::kLabelsOfPadding, "labels_of_padding", "padding counts as labels in the divisor"},
    {Fault::kMaskShifted, "mask_shifted", "the mask of counted labels is shifted by a token"},
    {Fault::kValidationTwice, "validation_twice",
     "the labels of validation batches are counted twice"},
    {Fault::kUncheckedId, "unchecked_id",
     "a batch of the third step has an id outside the vocabulary, which the host does not check"},
    {Fault::kSlowRank, "slow_rank", "the last rank sleeps for 20 ms in each step"},
    {Fault::kSlowData, "slow_data",
     "the last data-parallel rank needs 20 ms more to read each micro-batch"},
    {Fault::kSlowDisk, "slow_disk", "the last rank needs 200 ms more to write a checkpoint"},
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
