# Writes the source file that AmEmbeddedFiles.cmake describes:
#   cmake -DOUT=embedded_files.cpp -DPLANS=plans -P write_embedded_files.cmake
# Raw string literals are cut at a length that every compiler accepts, and concatenated.

set(delimiter "am_file")

# Sets `out` to the contents of `file` as raw string literals. Semicolons and brackets are special
# in CMake lists, so the text is always passed as one quoted argument.
function(literal file out)
  file(READ "${file}" text)
  string(LENGTH "${text}" length)
  set(result "")
  set(at 0)
  while(at LESS length)
    string(SUBSTRING "${text}" ${at} 12000 piece)
    string(APPEND result "R\"${delimiter}(${piece})${delimiter}\"sv\n")
    math(EXPR at "${at} + 12000")
  endwhile()
  if(result STREQUAL "")
    set(result "\"\"sv")
  endif()
  set(${out} "${result}" PARENT_SCOPE)
endfunction()

# Appends an array of the files that match `pattern`. `part`, a component of get_filename_component,
# selects the part of the path that names a file.
function(append_array array pattern part)
  file(GLOB files ${pattern})
  list(SORT files)
  list(LENGTH files count)
  string(APPEND source "constexpr std::array<EmbeddedFile, ${count}> ${array} = {{\n")
  foreach(file IN LISTS files)
    get_filename_component(name ${file} ${part})
    literal(${file} text)
    string(APPEND source "{\"${name}\",\n${text}},\n")
  endforeach()
  string(APPEND source "}};\n")
  set(source "${source}" PARENT_SCOPE)
endfunction()

set(source "// Written by scripts/cmake/write_embedded_files.cmake from plans/.
#include \"am/cluster/embedded_files.h\"

#include <array>

#include \"am/base/error.h\"
#include \"am/base/text.h\"

namespace am::cluster {
namespace {

using namespace std::string_view_literals;

")
append_array(kClusters "${PLANS}/clusters/*.toml" NAME_WE)
string(APPEND source "\n")
append_array(kMeasured "${PLANS}/measured/*" NAME)
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
