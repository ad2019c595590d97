// Reads integers from untrusted files.
#pragma once

#include <cstdint>

#include "am/base/json.h"

namespace am {

// Returns `value` as an integer. Throws AnyJson::type_error if `value` is not an integer from -2^63
// to 2^63 - 1. get<int64_t>() alone would truncate fractions, and its result is undefined for
// 1e300.
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
