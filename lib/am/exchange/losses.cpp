#include "am/exchange/losses.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "am/base/text.h"

namespace am::exchange {
namespace {

enum class Off {
  kUsual,   // false, none, 0 and their like
  kDegree,  // 1 and -1 too
};

// Globs over the last part of a key, or over all of it where they have a dot.
struct Loss {
  std::string_view pattern;
  Off off;
  std::string_view what;
};

constexpr std::string_view kLayout = "the layout";
constexpr std::string_view kEightBits = "products in 8 or 4 bits";
constexpr std::string_view kHost = "what is kept on the host or on disk";

constexpr std::array<Loss, 28> kLosses = {{
    {"*parallel*degree*", Off::kDegree, kLayout},
    {"*parallel*size*", Off::kDegree, kLayout},
    {"*parallel_layout", Off::kDegree, kLayout},
    {"*parallel_layers_per_stage", Off::kUsual, kLayout},
    {"*pipeline*num_layers", Off::kUsual, kLayout},
    {"*virtual_pipeline*", Off::kDegree, kLayout},
    {"sequence_parallel", Off::kUsual, kLayout},
    {"*tp_pp_dp*", Off::kUsual, kLayout},
    {"*mics_shard_size", Off::kUsual, kLayout},
    {"num_distributed_optimizer_instances", Off::kDegree, kLayout},
    {"?p_size", Off::kDegree, kLayout},
    {"*float8*", Off::kUsual, kEightBits},
    {"*fp8*", Off::kUsual, kEightBits},
    {"*fp4*", Off::kUsual, kEightBits},
    {"*mxfp*", Off::kUsual, kEightBits},
    {"*{fp8,float8,fp4,mxfp8}*.enabled", Off::kUsual, kEightBits},
    {"*converters", Off::kUsual, "how products are computed"},
    {"*quantiz*", Off::kUsual, "quantized values"},
    {"*load_in_?bit", Off::kUsual, "quantized values"},
    {"*autocast*.enabled", Off::kUsual, "the precision"},
    {"*offload*.device", Off::kUsual, kHost},
    {"*offload*_device", Off::kUsual, kHost},
    {"*offload", Off::kUsual, kHost},
    {"*offload_params", Off::kUsual, kHost},
    {"*cpu_offloading", Off::kUsual, kHost},
    {"*optimizer_state_dtype", Off::kUsual, "the precision of the optimizer's state"},
    {"*peft.{_target_,dim,r}", Off::kUsual, "adapters: the plan would train the whole model"},
    {"*peft.use_dora", Off::kUsual, "adapters with magnitudes (DoRA), which a plan has not"},
}};

// "--use-fp8" and "use_fp8" are one name.
std::string folded(std::string_view key) {
  std::string out;
  for (const char c : key) {
    out += c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return out;
}

bool is_off(const Json& value, Off off) {
  if (value.is_null() || value == false) return true;
  if (value.is_structured()) return value.empty();
  if (value.is_number()) {
    const double size = std::abs(value.get<double>());
    return size == 0.0 || (off == Off::kDegree && size == 1.0);
  }
  if (!value.is_string()) return false;
  static constexpr std::array<std::string_view, 7> kWords = {"",     "none",     "no",     "off",
                                                             "null", "disabled", "default"};
  const std::string word = folded(value.get<std::string>());
  return std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

}  // namespace

std::optional<std::string_view> what_is_lost(std::string_view key, const Json& value) {
  const std::string whole = folded(key);
  const std::string leaf = whole.substr(whole.rfind('.') + 1);
  for (const Loss& loss : kLosses) {
    const bool by_path = loss.pattern.find('.') != std::string_view::npos;
    if (glob_match(loss.pattern, by_path ? whole : leaf) && !is_off(value, loss.off)) {
      return loss.what;
    }
  }
  return std::nullopt;
}

}  // namespace am::exchange
