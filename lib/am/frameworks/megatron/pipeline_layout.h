// Parses the value of Megatron-LM's --pipeline-model-parallel-layout.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

namespace am::frameworks {

// Returns the number of decoder layers of each stage; nullopt if the text is not a layout. For
// example, "Ett|(tt|)*2,tL" describes stages with 2, 2, 2 and 1 decoder layers. A stage is a
// sequence of modules: `E` (the embedding), `t` (a decoder layer), `m` (a layer for multi-token
// prediction) and `L` (the loss). `|` separates stages, `x*n` and `(...)*n` are repetitions, and
// commas are ignored.
std::optional<std::vector<int64_t>> stages_of_layout(std::string_view text);

}  // namespace am::frameworks
