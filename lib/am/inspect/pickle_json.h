// Converts pickled Python values to JSON, for people and programs.
#pragma once

#include "am/base/json.h"
#include "am/formats/pickle.h"

namespace am::inspect {

// Numbers, texts, lists and dicts keep their values; objects and classes become their names. Lists
// of more than a thousand values, and values that contain themselves, are truncated with "...".
Json to_json(const formats::PickleValue& value);

}  // namespace am::inspect
