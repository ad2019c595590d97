// The frameworks, in files of their own; registry.cpp puts them in order.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/exchange/exchange.h"

namespace am::exchange {

extern const Framework kTorchtitan;
extern const Framework kMegatron;
extern const Framework kNemoAutomodel;
extern const Framework kAccelerate;
extern const Framework kDeepspeed;

// Readers that stand in a file of their own, beside their framework's writer. A job file (TOML) or
// the flags of a command line; the words of one command; a recipe (YAML).
std::optional<Imported> read_torchtitan(const ImportInput& input);
std::optional<Imported> read_megatron(const ImportInput& input);
std::optional<Imported> read_nemo_automodel(const ImportInput& input);

}  // namespace am::exchange
