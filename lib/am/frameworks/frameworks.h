// The frameworks whose configuration files can be imported and exported. Each framework has a
// folder beside this file. registry.cpp lists the frameworks.
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

// Import functions that are defined in a separate file (config_reader.cpp in the framework's
// folder). They read torchtitan's job files (TOML) and command-line flags, Megatron-LM's command
// lines, and NeMo AutoModel's recipes (YAML).
std::optional<Imported> read_torchtitan(const ImportInput& input);
std::optional<Imported> read_megatron(const ImportInput& input);
std::optional<Imported> read_nemo_automodel(const ImportInput& input);

}  // namespace am::frameworks
