// Files of plans/ that are compiled into the library, so that predictions need neither an
// installation nor a network. scripts/cmake/AmEmbeddedFiles.cmake generates embedded_files.cpp from
// these files.
#pragma once

#include <span>
#include <string_view>

namespace am::cluster {

struct EmbeddedFile {
  std::string_view name;  // file name without folder and extension
  std::string_view text;
};

// plans/clusters/*.toml, sorted by name.
std::span<const EmbeddedFile> cluster_files();
// Returns plans/measured/NAME: "runs.csv", "implementations.toml" or "constants.toml". Throws
// Error(kInternal) for another name.
std::string_view measured_file(std::string_view name);

}  // namespace am::cluster
