#include "support/folders.h"

namespace am::test {

const char* const kSourceFolder = AM_SOURCE_DIR;
const char* const kDataFolder = AM_SOURCE_DIR "/tests/data";
const char* const kPluginFolder = AM_TEST_PLUGINS;

}  // namespace am::test
