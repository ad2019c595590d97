// What the writer and the reader of Megatron-LM's arguments share.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>

#include "am/planner/exchange/exchange.h"

namespace am::planner {

// Names of ZeRO's stages 0 to 3.
inline constexpr std::array<std::string_view, 4> kMegatronSharding = {
    "no_shard", "optim", "optim_grads", "optim_grads_params"};

// Words of one command; see words.h.
std::optional<Imported> read_megatron(std::string_view text, const std::string& file,
                                      Diagnostics& found);

}  // namespace am::planner
