// Converts Python values from a pickle file to JSON.
#pragma once

#include "am/base/json.h"
#include "am/formats/pickle.h"

namespace am::inspect {

// Converts numbers, strings, lists and dicts to their JSON equivalents, a class to its name, and an
// object to the name of its class with the arguments of the constructor. Lists of more than a
// thousand values, and values that contain themselves, are cut off with "...".
Json to_json(const formats::PickleValue& value);

}  // namespace am::inspect
