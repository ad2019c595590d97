// The supported frameworks, one file each; registry.cpp orders them.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "am/frameworks/exchange.h"

namespace am::frameworks {

extern const Framework kTorchtitan;
extern const Framework kMegatron;
extern const Framework kNemoAutomodel;
extern const Framework kAccelerate;
extern const Framework kDeepspeed;

// Readers in separate files: a job file (TOML) or command-line flags; the words of one command; a
// recipe (YAML).
std::optional<Imported> read_torchtitan(const ImportInput& input);
std::optional<Imported> read_megatron(const ImportInput& input);
std::optional<Imported> read_nemo_automodel(const ImportInput& input);

}  // namespace am::frameworks
