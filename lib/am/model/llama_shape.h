// Decides whether a config of an unknown model_type may be planned as a Llama decoder.
//
// Note [Unknown model types]: many models have Llama's config keys and layers under another name.
// Other models have Llama's config keys but different layers. Most of these add keys that show the
// difference, and a few do not. Planning such models as Llama gave parameter counts that were wrong
// by up to a factor of six. Therefore a config may be planned as Llama only if each of its keys is
// understood or known not to affect a shape, and if its model_type is not listed among those with
// different layers but the same keys. scripts/fixtures/check_unknown_families.py checks this for
// every causal model of transformers.
#pragma once

#include <string>

#include "am/model/config_reader.h"

namespace am::model {

// Returns why the config must not be planned as Llama, for example the keys that are not
// understood. Returns an empty string if the config may be planned as Llama.
std::string why_not_llama(const ConfigReader& reader);

}  // namespace am::model
