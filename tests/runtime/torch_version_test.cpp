#include "am/runtime/torch_version.h"

#include <catch2/catch.hpp>

using namespace am::runtime;

TEST_CASE("the loaded libtorch says its version, and it is the one of the build") {
  CHECK(loaded_torch_version() == compiled_torch_version());
  CHECK_NOTHROW(require_compiled_torch());
  CHECK(torch_version_text() == "libtorch " + compiled_torch_version() + "\n");
}

TEST_CASE("patch releases are compatible, others are not") {
  CHECK(is_compatible_torch("2.11.0", "2.11.0"));
  CHECK(is_compatible_torch("2.11.0", "2.11.2"));
  CHECK_FALSE(is_compatible_torch("2.11.0", "2.12.0"));
  CHECK_FALSE(is_compatible_torch("2.11.0", "2.1.0"));
  CHECK_FALSE(is_compatible_torch("2.11.0", "3.11.0"));
}

TEST_CASE("a version by its bytes") {
  CHECK(torch_version_of_abi(0x020b000000000000) == "2.11.0");
  CHECK(torch_version_of_abi(0x020a010000000000) == "2.10.1");
}
