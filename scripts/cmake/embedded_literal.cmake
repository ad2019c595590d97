# Functions that convert files to C++ string literals, for write_embedded_files.cmake and
# write_kernel_files.cmake. The text of a file is cut into raw string literals of 12,000 characters,
# a length that every compiler accepts. The compiler concatenates the literals.

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

# Appends to the variable `source` the C++ definition of an array named `array`, with one element
# {name, text} of type `type` for each file that matches `pattern`. `part` is the component of the
# path (a mode of get_filename_component) that becomes the name.
function(append_array type array pattern part)
  file(GLOB files ${pattern})
  list(SORT files)
  list(LENGTH files count)
  string(APPEND source "constexpr std::array<${type}, ${count}> ${array} = {{\n")
  foreach(file IN LISTS files)
    get_filename_component(name ${file} ${part})
    literal(${file} text)
    string(APPEND source "{\"${name}\",\n${text}},\n")
  endforeach()
  string(APPEND source "}};\n")
  set(source "${source}" PARENT_SCOPE)
endfunction()
