# Embeds files of plans/ into libautomesh_core: clusters, measured runs, and the constants fitted to
# measured runs (am/cluster/embedded_files.h).
#
# Generates one source file that contains the text of all embedded files, and generates it again when
# one of them changes.

file(GLOB AM_EMBEDDED_FILES CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/plans/clusters/*.toml ${CMAKE_CURRENT_SOURCE_DIR}/plans/measured/*)
set(AM_EMBEDDED_FILES_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/embedded_files.cpp)
add_custom_command(OUTPUT ${AM_EMBEDDED_FILES_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DOUT=${AM_EMBEDDED_FILES_SOURCE} -DPLANS=${CMAKE_CURRENT_SOURCE_DIR}/plans
          -P ${CMAKE_CURRENT_LIST_DIR}/write_embedded_files.cmake
  DEPENDS ${AM_EMBEDDED_FILES} ${CMAKE_CURRENT_LIST_DIR}/write_embedded_files.cmake
          ${CMAKE_CURRENT_LIST_DIR}/embedded_literal.cmake
  VERBATIM)
