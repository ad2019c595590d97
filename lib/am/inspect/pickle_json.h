// Converts Python values from a pickle file to JSON.
#pragma once

#include "am/base/json.h"
#include "am/formats/pickle.h"

namespace am::inspect {

// Returns numbers, strings, lists and dicts as they are, a class by its name, and an object by the
// name of its class with the constructor's arguments. Lists of more than a thousand values, and
// values that contain themselves, are cut off with "...".
Json to_json(const formats::PickleValue& value);

}  // namespace am::inspect
