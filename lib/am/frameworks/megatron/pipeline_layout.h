// The language of Megatron-LM's --pipeline-model-parallel-layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace am::frameworks {

// Returns the number of decoder layers of each stage; nullopt if the text is not a layout. For
// example, "Ett|(tt|)*2,tL" has stages with 2, 2, 2 and 1 decoder layers. A stage is a sequence of
// the modules `E`, `t`, `m` and `L`, of which `t` is a decoder layer; `|` separates stages, `x*n`
// and `(...)*n` are repetitions, and commas are ignored.
std::optional<std::vector<int64_t>> stages_of_layout(std::string_view text);

}  // namespace am::frameworks
