#include "am/model/gradient_sum.h"

#include "am/base/fault.h"

namespace am::model {
namespace {

bool is_cut(const ModuleSpec& module, bool bias, TpStyle style) {
  switch (style) {
    case TpStyle::kColwise:
    case TpStyle::kPackedColwise:
    case TpStyle::kColwiseRep:
      return true;
    case TpStyle::kRowwise:
    case TpStyle::kRowwiseRep:
      // The bias of a row-wise module is added once, after the sum over tp, so it is replicated.
      return !bias || module.kind == ModuleKind::kEmbedding;
    case TpStyle::kSequenceParallel:
    case TpStyle::kReplicatedWithGradAllreduce:
      break;
  }
  return false;
}

bool is_on_heads(const ModuleSpec& module) {
  return module.from == Space::kHeads || module.from == Space::kKeyHeads;
}

// Whether a fault that a test injected suppresses the sum of this module's gradient over tp.
bool is_forgotten(const ModuleSpec& module) {
  if (module.role == Role::kRouter) return fault::is_planted(fault::Fault::kEpRouterSum);
  if (module.kind != ModuleKind::kNorm) return false;
  return fault::is_planted(is_on_heads(module) ? fault::Fault::kTpHeadNormSum
                                               : fault::Fault::kSpNormSum);
}

}  // namespace

int64_t ranks_of_a_head(int64_t tp, int64_t heads) {
  return heads > 0 && tp > heads && tp % heads == 0 ? tp / heads : 1;
}

bool gradient_sum(const ModuleSpec& module, bool bias, const TpUse& use) {
  if (is_forgotten(module)) return false;
  if (use.style == TpStyle::kSequenceParallel) return true;
  if (use.style == TpStyle::kReplicatedWithGradAllreduce) return true;
  // A vector with one value per head (attention sinks) is sharded like the heads. Its gradient
  // needs no sum: each rank applies its shard of the vector to all tokens, because the projections
  // before attention gather the tokens.
  if (module.kind == ModuleKind::kHeadVector) return false;
  const bool routes = module.role == Role::kRouter || module.role == Role::kRouterCorrection ||
                      module.kind == ModuleKind::kExpert;
  if (routes && use.deals_tokens) return true;
  if (is_on_heads(module) && module.kind == ModuleKind::kNorm) {
    return use.heads_are_cut && !use.spans_heads;
  }
  if (use.style.has_value() && is_cut(module, bias, *use.style)) return false;
  return use.sequence_parallel;
}

bool gradient_sum(AdapterPart part, const TpUse& use) {
  if (fault::is_planted(fault::Fault::kLoraSharedSum)) return false;
  if (!use.style.has_value()) return use.sequence_parallel;
  switch (*use.style) {
    case TpStyle::kColwise:
    case TpStyle::kPackedColwise:
    case TpStyle::kColwiseRep:
      return part == AdapterPart::kA;
    case TpStyle::kRowwise:
    case TpStyle::kRowwiseRep:
      return part != AdapterPart::kA;
    case TpStyle::kSequenceParallel:
    case TpStyle::kReplicatedWithGradAllreduce:
      break;
  }
  return true;
}

}  // namespace am::model
