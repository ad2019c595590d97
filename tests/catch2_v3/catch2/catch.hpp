// Gives Catch2 3 the header and the names of Catch2 2, so that the tests build with both.
#pragma once

#include <catch2/catch_all.hpp>

namespace Catch {

using Matchers::EndsWith;
using Matchers::StartsWith;
using Matchers::VectorContains;

// Returns a matcher of texts that contain `part`. Catch2 3 gives the name Contains to a matcher of
// ranges.
inline Matchers::StringContainsMatcher Contains(const std::string& part) {
  return Matchers::ContainsSubstring(part);
}

}  // namespace Catch

using Catch::Approx;
