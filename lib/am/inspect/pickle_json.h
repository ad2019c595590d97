// Converts Python values from a pickle file to JSON.
#pragma once

#include "am/base/json.h"
#include "am/formats/pickle.h"

namespace am::inspect {

// Converts numbers, strings, lists and dicts to their JSON equivalents, a class to its name, and an
// object to the name of its class with the arguments of the constructor and its state. Bytes, and
// integers of more than 64 bits, become their length, "N bytes". Beyond a thousand values in total,
// or 20 levels (a value may contain itself), the rest is "...".
Json to_json(const formats::PickleValue& value);

}  // namespace am::inspect
