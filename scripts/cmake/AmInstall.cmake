# make install: the tools, the two libraries, their headers, and a CMake package.
#
#   find_package(automesh REQUIRED)
#   target_link_libraries(mine PRIVATE automesh::automesh)     # or automesh::core, which needs no libtorch

include(CMakePackageConfigHelpers)

set(AM_PACKAGE_DIR ${CMAKE_INSTALL_LIBDIR}/cmake/automesh)

install(DIRECTORY ${CMAKE_SOURCE_DIR}/plans/models/ DESTINATION ${CMAKE_INSTALL_DATADIR}/automesh/models)
install(TARGETS automesh_core EXPORT automesh-targets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
set(AM_INSTALL_FOLDERS ${AM_CORE_FOLDERS})
if(AM_WITH_TORCH)
  install(TARGETS automesh automesh_compat EXPORT automesh-targets LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR})
  am_install_rpath(automesh ${CMAKE_INSTALL_LIBDIR} "\$ORIGIN" ${AM_INSTALL_TORCH_RPATH})
  am_install_rpath(automesh_compat ${CMAKE_INSTALL_LIBDIR} "\$ORIGIN" ${AM_INSTALL_TORCH_RPATH})
  install(DIRECTORY ${CMAKE_SOURCE_DIR}/apps/python/ DESTINATION ${CMAKE_INSTALL_DATADIR}/automesh/python
    FILES_MATCHING PATTERN "*.py")
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
# am-plan generates the manual pages and the completions from its own command-line parser. They are
# installed where man, bash, zsh and fish look for them. A cross-compiled am-plan cannot run here,
# so cross-compiled builds have none.

if(TARGET am-plan AND NOT CMAKE_CROSSCOMPILING)
  set(AM_PAGES ${CMAKE_BINARY_DIR}/share)
  set(AM_PLAN_PAGES ${AM_PAGES}/man/am-plan.1)
  set(AM_PLAN_COMPLETIONS bash zsh fish)
  list(TRANSFORM AM_PLAN_COMPLETIONS PREPEND ${AM_PAGES}/am-plan. OUTPUT_VARIABLE AM_COMPLETION_FILES)
  add_custom_command(
    OUTPUT ${AM_PLAN_PAGES} ${AM_COMPLETION_FILES}
    COMMAND ${CMAKE_COMMAND} -E make_directory ${AM_PAGES}/man
    COMMAND am-plan man -o ${AM_PAGES}/man --force
    COMMAND am-plan completions bash > ${AM_PAGES}/am-plan.bash
    COMMAND am-plan completions zsh > ${AM_PAGES}/am-plan.zsh
    COMMAND am-plan completions fish > ${AM_PAGES}/am-plan.fish
    DEPENDS am-plan
    VERBATIM)
  add_custom_target(am-plan-pages ALL DEPENDS ${AM_PLAN_PAGES} ${AM_COMPLETION_FILES})
  if(TARGET am-repl)
    add_custom_command(
      OUTPUT ${AM_PAGES}/man/am-repl.1
      COMMAND ${CMAKE_COMMAND} -E make_directory ${AM_PAGES}/man
      COMMAND am-repl --man > ${AM_PAGES}/man/am-repl.1
      DEPENDS am-repl
      VERBATIM)
    add_custom_target(am-repl-page ALL DEPENDS ${AM_PAGES}/man/am-repl.1)
  endif()

  install(DIRECTORY ${AM_PAGES}/man/ DESTINATION ${CMAKE_INSTALL_MANDIR}/man1 FILES_MATCHING
    PATTERN "am-plan*.1" PATTERN "am-repl.1")
  install(FILES ${AM_PAGES}/am-plan.bash RENAME am-plan
    DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions)
  install(FILES ${AM_PAGES}/am-plan.zsh RENAME _am-plan DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/site-functions)
  install(FILES ${AM_PAGES}/am-plan.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d)
endif()
