// Access to files of the repository's folder plans/ that are compiled into the library, so that
// predictions need no installed files. scripts/cmake/AmEmbeddedFiles.cmake generates
// embedded_files.cpp, which contains their text.
#pragma once

#include <span>
#include <string_view>

namespace am::cluster {

struct EmbeddedFile {
  std::string_view name;  // file name without folder; clusters: also without extension
  std::string_view text;
};

// Returns the files plans/clusters/*.toml, which describe GPUs, sorted by name.
std::span<const EmbeddedFile> cluster_files();
// Returns the text of plans/measured/NAME. `name`: "runs.csv", "implementations.toml" or
// "constants.toml". Throws Error(kInternal) for another name.
std::string_view measured_file(std::string_view name);

}  // namespace am::cluster
