// Expands data paths to files.
//
//   expand_path("/usr/share/common-licenses");       // all files below the folder
//   expand_path("/usr/share/doc/*/copyright");       // a glob
#pragma once

#include <filesystem>
#include <vector>

namespace am::data {

// Expands one path. A file: itself. A folder: all files below it. A glob (*, ?, [ab]): its matches,
// folders expanded. Files of a folder or glob are sorted by path. A symbolic link to a file that is
// already in the list is dropped, links to folders are not followed below a folder, and empty files
// are skipped. Throws Error(kIo) if the file does not exist or nothing matches.
std::vector<std::filesystem::path> expand_path(const std::filesystem::path& path);
// Expands all paths, in order.
std::vector<std::filesystem::path> expand_paths(const std::vector<std::filesystem::path>& paths);

}  // namespace am::data
