// Converts Python values from a pickle file to JSON.
#pragma once

#include "am/base/json.h"
#include "am/formats/pickle.h"

namespace am::inspect {

// Converts numbers, strings, lists and dicts to their JSON equivalents, and tuples and sets to
// lists. A class becomes its name. An object becomes {"object": class name, "arguments", "state"},
// except that an OrderedDict becomes a dict. Bytes, and integers of more than 64 bits, become the
// text "N bytes", where N is their length. At most 1000 values are converted; further values are
// left out or become "...". Values below 20 levels of nesting become "...", because a value may
// contain itself.
Json to_json(const formats::PickleValue& value);

}  // namespace am::inspect
