// The files that a data path stands for.
//
//   expand_path("/usr/share/common-licenses")       // all files below the folder
//   expand_path("/usr/share/doc/*/copyright")       // a glob
#pragma once

#include <filesystem>
#include <vector>

namespace am::data {

// A file: itself. A folder: all files below it. A glob (*, ?, [ab]): what it matches, folders
// expanded. A folder's or glob's files are sorted by path; a symbolic link to a file that is there
// already is dropped, links to folders are not followed below a folder, and empty files are left
// out. Throws Error(kIo) when there is no such file or nothing matches.
std::vector<std::filesystem::path> expand_path(const std::filesystem::path& path);
// All of them, one after the other.
std::vector<std::filesystem::path> expand_paths(const std::vector<std::filesystem::path>& paths);

}  // namespace am::data
