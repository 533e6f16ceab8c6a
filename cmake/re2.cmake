# The target re2::re2: from a CMake package of RE2 (Debian 12 has none), otherwise from header and library. Without both
# there is no target.
find_package(re2 CONFIG QUIET)
if(NOT TARGET re2::re2)
  find_path(STEPWATCH_RE2_INCLUDE_DIR re2/re2.h)
  find_library(STEPWATCH_RE2_LIBRARY re2)
  mark_as_advanced(STEPWATCH_RE2_INCLUDE_DIR STEPWATCH_RE2_LIBRARY)
  if(STEPWATCH_RE2_INCLUDE_DIR AND STEPWATCH_RE2_LIBRARY)
    add_library(re2::re2 UNKNOWN IMPORTED)
    set_target_properties(re2::re2 PROPERTIES IMPORTED_LOCATION "${STEPWATCH_RE2_LIBRARY}"
      INTERFACE_INCLUDE_DIRECTORIES "${STEPWATCH_RE2_INCLUDE_DIR}")
  endif()
endif()
