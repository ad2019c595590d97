// Whole numbers of files that anybody may have written.
#pragma once

#include <cstdint>

#include "am/base/json.h"

namespace am {

// Where get<int64_t>() would cut a fraction off and convert 1e300 to nothing defined. Throws what
// get does for a value of another kind: Json::type_error.
template <typename AnyJson>
int64_t integer_of(const AnyJson& value) {
  const bool fits = value.is_number_unsigned()
                        ? value.template get<uint64_t>() <= static_cast<uint64_t>(INT64_MAX)
                        : value.is_number_integer();
  if (!fits) {
    throw AnyJson::type_error::create(
        302, "type must be a whole number of 64 bits, but is " + value.dump(), &value);
  }
  return value.template get<int64_t>();
}

}  // namespace am
