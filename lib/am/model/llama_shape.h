// Decides whether a config of an unknown model_type may be planned as a Llama decoder.
//
// Note [Unknown model types]: many models have Llama's config keys and layers under another
// model_type. Other models have Llama's config keys but different layers. Most models with
// different layers add keys that show the difference; a few do not. The parameter counts of these
// few models, planned as Llama, were wrong by up to a factor of six. Therefore a config may be
// planned as Llama only if each of its keys is understood or known to affect no shape, and if its
// model_type is not in the list of models with Llama's keys but different layers.
// scripts/fixtures/check_unknown_families.py compares am-plan's parameter counts with the models'
// own for every causal model of transformers whose family am-plan does not know.
#pragma once

#include <string>

#include "am/model/config_reader.h"

namespace am::model {

// Returns why the config must not be planned as Llama, for example the keys that are not
// understood. Returns an empty string if the config may be planned as Llama.
std::string why_not_llama(const ConfigReader& reader);

}  // namespace am::model
