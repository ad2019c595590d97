# make install: the tools, the two libraries, their headers, and a CMake package.
#
#   find_package(automesh REQUIRED)
#   target_link_libraries(mine PRIVATE automesh::automesh)     # or automesh::core, which needs no libtorch

include(CMakePackageConfigHelpers)

set(AM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/automesh)

install(TARGETS automesh_core EXPORT automesh-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(AM_INSTALL_FOLDERS ${AM_CORE_FOLDERS})
if(AM_WITH_TORCH)
  install(TARGETS automesh EXPORT automesh-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/automesh-libtorch.cmake DESTINATION ${AM_PACKAGE_DIR})
  list(APPEND AM_INSTALL_FOLDERS ${AM_TORCH_FOLDERS})
  if(TARGET automesh_cuda)
    install(TARGETS automesh_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})  # libautomesh looks beside itself
  endif()
endif()
foreach(folder IN LISTS AM_INSTALL_FOLDERS)
  if(EXISTS ${CMAKE_SOURCE_DIR}/lib/am/${folder})
    install(DIRECTORY ${CMAKE_SOURCE_DIR}/lib/am/${folder} DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/am
      FILES_MATCHING PATTERN "*.h")
  endif()
endforeach()

install(EXPORT automesh-targets NAMESPACE automesh:: DESTINATION ${AM_PACKAGE_DIR})
configure_package_config_file(
  ${CMAKE_CURRENT_LIST_DIR}/automesh-config.cmake.in ${CMAKE_BINARY_DIR}/automesh-config.cmake
  INSTALL_DESTINATION ${AM_PACKAGE_DIR})
write_basic_package_version_file(${CMAKE_BINARY_DIR}/automesh-config-version.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/automesh-config.cmake ${CMAKE_BINARY_DIR}/automesh-config-version.cmake
  DESTINATION ${AM_PACKAGE_DIR})
