# Builds the facts of plans/ into the core: clusters, measured runs and the constants fitted to them (am/planner/cost/facts.h).
#
# A source file with one array of bytes as text a fact. Runs when a fact changes.

file(GLOB AM_FACT_FILES CONFIGURE_DEPENDS
  ${CMAKE_CURRENT_SOURCE_DIR}/plans/clusters/*.toml ${CMAKE_CURRENT_SOURCE_DIR}/plans/measured/*)
set(AM_FACTS_SOURCE ${CMAKE_CURRENT_BINARY_DIR}/facts.cpp)
add_custom_command(OUTPUT ${AM_FACTS_SOURCE}
  COMMAND ${CMAKE_COMMAND} -DOUT=${AM_FACTS_SOURCE} -DPLANS=${CMAKE_CURRENT_SOURCE_DIR}/plans
          -P ${CMAKE_CURRENT_LIST_DIR}/write_facts.cmake
  DEPENDS ${AM_FACT_FILES} ${CMAKE_CURRENT_LIST_DIR}/write_facts.cmake
  VERBATIM)
