// Whether a config of an unknown model_type may be planned as a Llama decoder.
//
// Note [Unknown model types]: many models take over Llama's config and layers under a name of their
// own. Many others take over its config and change the layers, and add keys that say so; a few
// change them and say nothing. Counting those as Llama gave totals that were wrong by up to a
// factor of six. So a config is of Llama's shape only when each of its keys is understood or known
// not to change a shape, and its model_type is not one of those that say nothing.
// scripts/fixtures/check_unknown_families.py holds this to every causal model of transformers.
#pragma once

#include <string>

#include "am/model/config_reader.h"

namespace am::model {

// Why the config is none, by the names of its keys; empty: it is one.
std::string why_not_llama(const ConfigReader& reader);

}  // namespace am::model
