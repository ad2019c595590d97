// Folders that C++ tests read. They are defined in one source file, so that the objects of all
// other tests are equal in every checkout, and a compiler cache finds them.
#pragma once

namespace am::test {

extern const char* const kSourceFolder;  // root of the checkout
extern const char* const kDataFolder;    // tests/data
extern const char* const kPluginFolder;  // plugins of tests/plugins, as built

}  // namespace am::test
