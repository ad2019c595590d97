#include "am/compat/parallel_style.h"

#include "am/base/error.h"
#include "am/base/text.h"

namespace am::compat {

TorchParallelStyle translate_to_torch_parallel_style(std::string_view name) {
  using mesh::Placement;
  using model::TpStyle;
  const auto style = model::parse_tp_style(name);
  if (!style) {
    throw Error(ErrorKind::kUsage, cat("\"", name, "\" is not a tensor-parallel style"),
                model::unknown_style_help(name));
  }
  const Placement whole = Placement::replicate();
  const Placement features = Placement::shard(-1);
  const Placement sequence = Placement::shard(1);
  switch (*style) {
    case TpStyle::kColwise:
    case TpStyle::kPackedColwise:
      return {*style, "ColwiseParallel", whole, features};
    case TpStyle::kColwiseRep:
      return {*style, "ColwiseParallel", whole, whole};
    case TpStyle::kRowwise:
      return {*style, "RowwiseParallel", features, whole};
    case TpStyle::kRowwiseRep:
      return {*style, "RowwiseParallel", whole, whole};
    case TpStyle::kSequenceParallel:
      return {*style, "SequenceParallel", sequence, sequence};
    case TpStyle::kReplicatedWithGradAllreduce:
      break;
  }
  return {*style, "", whole, whole};
}

}  // namespace am::compat
