// Decides whether a config of an unknown model_type may be planned as a Llama decoder.
//
// Note [Unknown model types]: many models reuse Llama's config and layers under another name. Many
// others reuse its config but change the layers, and add keys that show it; a few change the layers
// without any such key. Counting these as Llama gave totals that were wrong by up to a factor of
// six. Therefore a config is of Llama's shape only if each of its keys is understood or known not
// to affect a shape, and its model_type is not listed as changing layers without such a key.
// scripts/fixtures/check_unknown_families.py checks this for every causal model of transformers.
#pragma once

#include <string>

#include "am/model/config_reader.h"

namespace am::model {

// Returns why the config is not of Llama's shape, naming its keys; empty if it is.
std::string why_not_llama(const ConfigReader& reader);

}  // namespace am::model
