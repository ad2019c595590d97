#include "am/base/python_folder.h"

#include <dlfcn.h>
#include <link.h>

#include "am/base/text.h"

namespace am {
namespace {

namespace fs = std::filesystem;

// Returns the folder of the shared library or program that contains this code; empty if it is
// unknown.
fs::path own_folder() {
  Dl_info info;
  void* map = nullptr;
  const auto* here = reinterpret_cast<const void*>(&python_folder);
  if (::dladdr1(here, &info, &map, RTLD_DL_LINKMAP) == 0) return {};
  const fs::path library = static_cast<const link_map*>(map)->l_name;
  return (library.empty() ? fs::read_symlink("/proc/self/exe") : library).parent_path();
}

}  // namespace

std::optional<fs::path> python_folder() {
  // AM_PYTHON_PLACES is a list of folders, separated by colons: folders of an installation,
  // relative to own_folder(), and in some builds the absolute path of apps/python in the source
  // tree.
  for (const std::string& place : split(AM_PYTHON_PLACES, ':')) {
    fs::path folder = (own_folder() / place).lexically_normal();
    std::error_code ignored;
    if (fs::exists(folder / "automesh" / "__init__.py", ignored)) return folder;
  }
  return std::nullopt;
}

}  // namespace am
