// Files of plans/ that are built into the library, so that predictions need no installation and no
// network: scripts/cmake/AmEmbeddedFiles.cmake writes embedded_files.cpp from them.
#pragma once

#include <span>
#include <string_view>

namespace am::planner {

struct EmbeddedFile {
  std::string_view name;  // of the file, without folder and extension
  std::string_view text;
};

// plans/clusters/*.toml, sorted by name.
std::span<const EmbeddedFile> cluster_files();
// plans/measured/NAME: "runs.csv", "implementations.toml", "constants.toml". Throws
// Error(kInternal) for another name.
std::string_view measured_file(std::string_view name);

}  // namespace am::planner
