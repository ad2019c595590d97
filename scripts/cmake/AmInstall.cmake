# Installs the libraries, their headers, plans/models, apps/python, the tools' manual pages and
# completions, and a CMake package:
#
#   find_package(automesh REQUIRED)
#   target_link_libraries(mine PRIVATE automesh::automesh)     # or automesh::core, which needs no libtorch

include(CMakePackageConfigHelpers)

set(AM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/automesh)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/plans/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/automesh/models)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/apps/python/ DESTINATION ${CMAKE_INSTALL_DATADIR}/automesh/python
  FILES_MATCHING PATTERN "*.py")
install(TARGETS automesh_core EXPORT automesh-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(AM_INSTALL_FOLDERS ${AM_CORE_FOLDERS})
if(AM_WITH_TORCH)
  install(TARGETS automesh automesh_compat EXPORT automesh-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  am_install_rpath(automesh ${CMAKE_INSTALL_LIBDIR} "\$ORIGIN" ${AM_INSTALL_TORCH_RPATH})
  am_install_rpath(automesh_compat ${CMAKE_INSTALL_LIBDIR} "\$ORIGIN" ${AM_INSTALL_TORCH_RPATH})
  install(FILES ${CMAKE_CURRENT_LIST_DIR}/automesh-libtorch.cmake DESTINATION ${AM_PACKAGE_DIR})
  list(APPEND AM_INSTALL_FOLDERS ${AM_TORCH_FOLDERS} ${AM_COMPAT_FOLDERS})
  if(AM_INSTALL_LIBTORCH)
    # Also installs the CUDA libraries that libtorch_cpu.so was linked against, because
    # libtorch_cpu.so looks for them in its own folder.
    file(GLOB libtorch_files
      ${AM_TORCH_DIR}/lib/libtorch_cpu.so ${AM_TORCH_DIR}/lib/libc10.so ${AM_TORCH_DIR}/lib/libgomp*.so*
      ${AM_TORCH_DIR}/../nvidia/*/lib/libcudart.so.* ${AM_TORCH_DIR}/../nvidia/*/lib/libcupti.so.*)
    install(FILES ${libtorch_files} DESTINATION ${AM_LIBTORCH_FOLDER})
  endif()
  if(TARGET automesh_cuda)
    # libautomesh looks for the plugin in its own folder.
    install(TARGETS automesh_cuda LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
    am_install_rpath(automesh_cuda ${CMAKE_INSTALL_LIBDIR} "\$ORIGIN" ${AM_TORCH_RPATH})
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

# ---- manual pages and completions ----------------------------------------------------------------------------------------
#
# The tools generate their manual pages and completions from their command-line parsers. The pages
# and completions are installed where man, bash, zsh and fish look for them. Cross-compiled builds
# have neither, because a cross-compiled tool cannot run on the build machine.

set(AM_PAGES ${CMAKE_BINARY_DIR}/share)
foreach(tool am-plan am-run am-repl)
  if(NOT TARGET ${tool} OR CMAKE_CROSSCOMPILING)
    continue()
  endif()
  if(tool STREQUAL am-repl)  # has options instead of subcommands
    set(man --man > ${AM_PAGES}/man/am-repl.1)
    set(completions --completions)
  else()
    set(man man -o ${AM_PAGES}/man --force)
    set(completions completions)
  endif()
  set(pages ${AM_PAGES}/man/${tool}.1 ${AM_PAGES}/${tool}.bash ${AM_PAGES}/${tool}.zsh ${AM_PAGES}/${tool}.fish)
  add_custom_command(
    OUTPUT ${pages}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${AM_PAGES}/man
    COMMAND ${tool} ${man}
    COMMAND ${tool} ${completions} bash > ${AM_PAGES}/${tool}.bash
    COMMAND ${tool} ${completions} zsh > ${AM_PAGES}/${tool}.zsh
    COMMAND ${tool} ${completions} fish > ${AM_PAGES}/${tool}.fish
    DEPENDS ${tool}
    VERBATIM)
  add_custom_target(${tool}-pages ALL DEPENDS ${pages})

  install(DIRECTORY ${AM_PAGES}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING PATTERN "${tool}*.1")
  install(FILES ${AM_PAGES}/${tool}.bash RENAME ${tool}
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${AM_PAGES}/${tool}.zsh RENAME _${tool} DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${AM_PAGES}/${tool}.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endforeach()

# ---- Debian package ------------------------------------------------------------------------------------------------------
#
# cpack -G DEB, in a build without libtorch: the package depends on Debian's libraries alone.

if(NOT AM_WITH_TORCH)
  set(CPACK_GENERATOR DEB)
  set(CPACK_PACKAGE_NAME automesh-tools)
  set(CPACK_PACKAGE_CONTACT "the automesh authors")
  set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "plan, launch and inspect parallel layouts of LLM training (without training)")
  set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
  set(CPACK_STRIP_FILES ON)
  set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
  set(CPACK_DEBIAN_PACKAGE_SECTION science)
  set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
  include(CPack)
endif()
