// Defines the names of tensor-parallel styles: those of PyTorch and of Hugging Face, old and new.
#include <algorithm>
#include <array>
#include <utility>

#include "am/base/text.h"
#include "am/model/tp_plan.h"

namespace am::model {
namespace {

struct StyleName {
  std::string_view name;
  TpStyle style;
};

// Legal names of the styles. to_string() returns the first name of each style.
constexpr std::array<StyleName, 10> kStyleNames = {{
    {"colwise", TpStyle::kColwise},
    {"rowwise", TpStyle::kRowwise},
    {"packed_colwise", TpStyle::kPackedColwise},
    {"colwise_rep", TpStyle::kColwiseRep},
    {"rowwise_rep", TpStyle::kRowwiseRep},
    {"sequence_parallel", TpStyle::kSequenceParallel},
    {"replicated_with_grad_allreduce", TpStyle::kReplicatedWithGradAllreduce},
    {"colwise_gather_output", TpStyle::kColwiseRep},
    {"rowwise_split_input", TpStyle::kRowwiseRep},
    {"embedding_rowwise", TpStyle::kRowwiseRep},
}};

// Styles of Hugging Face transformers that automesh does not support, in addition to the styles
// whose names begin with "ep_" or "megamoe_".
constexpr std::array<std::string_view, 13> kForeignStyles = {
    "packed_rowwise", "local_packed_rowwise",
    "local_colwise",  "local_rowwise",
    "local",          "gather",
    "grouped_gemm",   "moe_tp_experts",
    "all_reduce",     "moe_identity_expert",
    "mla_kv_a_proj",  "isolated",
    "replicate"};

bool is_foreign(std::string_view name) {
  const bool listed =
      std::find(kForeignStyles.begin(), kForeignStyles.end(), name) != kForeignStyles.end();
  return listed || starts_with(name, "ep_") || starts_with(name, "megamoe_");
}

}  // namespace

std::optional<TpStyle> parse_tp_style(std::string_view name) {
  const auto found = std::find_if(kStyleNames.begin(), kStyleNames.end(),
                                  [&](const StyleName& known) { return known.name == name; });
  if (found == kStyleNames.end()) return std::nullopt;
  return found->style;
}

const char* to_string(TpStyle style) {
  const auto found = std::find_if(kStyleNames.begin(), kStyleNames.end(),
                                  [&](const StyleName& known) { return known.style == style; });
  return found->name.data();
}

const std::vector<std::string>& parallel_style_names() {
  static const std::vector<std::string> names = [] {
    std::vector<std::string> all;
    for (const StyleName& known : kStyleNames) all.emplace_back(known.name);
    return all;
  }();
  return names;
}

std::string unknown_style_help(std::string_view name) {
  const std::string known = cat("known styles: ", join(parallel_style_names(), ", "));
  if (is_foreign(name)) {
    return cat("\"", name,
               "\" is a style of Hugging Face transformers that automesh does not support; ",
               known);
  }
  const auto near = nearest(name, parallel_style_names());
  return near.has_value() ? cat("did you mean \"", *near, "\"? ", known) : known;
}

}  // namespace am::model
