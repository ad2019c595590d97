// Expands data paths to files.
//
//   expand_path("/usr/share/common-licenses");       // all files below the folder
//   expand_path("/usr/share/doc/*/copyright");       // a glob
#pragma once

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace am::data {

// Expands one path to files. A file expands to itself, a folder to all files below it, and a glob
// (*, ?, [ab], {a,b}) to the files that it matches and all files below folders that it matches. The
// files of a folder or glob are sorted by path; empty files are skipped. If several of these paths
// lead to one file through symbolic links, only one path is kept. Inside a folder, symbolic links
// to other folders are not followed. Throws Error(kIo) if `path` does not exist, or if no file
// remains.
std::vector<std::filesystem::path> expand_path(const std::filesystem::path& path);
// Returns the first file and the number of other files, for messages: "a.txt and 3 more". `files`:
// number of files, the first included.
std::string files_text(const std::filesystem::path& first, size_t files);
// Returns the files of expand_path() for all paths, in the order of the paths.
std::vector<std::filesystem::path> expand_paths(const std::vector<std::filesystem::path>& paths);

}  // namespace am::data
