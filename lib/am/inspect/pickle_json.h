// What Python pickled beside tensors, for people and programs.
#pragma once

#include "am/base/json.h"
#include "am/formats/pickle.h"

namespace am::inspect {

// Numbers, texts, lists and dicts as they are; of objects and classes their names, of more than a
// thousand values and of what contains itself only the beginning: "...".
Json to_json(const formats::PickleValue& value);

}  // namespace am::inspect
