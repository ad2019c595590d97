# Writes the source file that AmEmbeddedFiles.cmake describes:
#   cmake -DOUT=embedded_files.cpp -DPLANS=plans -P write_embedded_files.cmake

include(${CMAKE_CURRENT_LIST_DIR}/embedded_literal.cmake)

set(source "// Written by scripts/cmake/write_embedded_files.cmake from plans/.
#include \"am/cluster/embedded_files.h\"

#include <array>

#include \"am/base/error.h\"
#include \"am/base/text.h\"

namespace am::cluster {
namespace {

using namespace std::string_view_literals;

")
append_array(EmbeddedFile kClusters "${PLANS}/clusters/*.toml" NAME_WE)
string(APPEND source "\n")
append_array(EmbeddedFile kMeasured "${PLANS}/measured/*" NAME)
string(APPEND source "
}  // namespace

std::span<const EmbeddedFile> cluster_files() { return kClusters; }

std::string_view measured_file(std::string_view name) {
  for (const EmbeddedFile& file : kMeasured) {
    if (file.name == name) return file.text;
  }
  throw Error(ErrorKind::kInternal, cat(\"no file of plans/measured is called \", name));
}

}  // namespace am::cluster
")
file(WRITE ${OUT} "${source}")
