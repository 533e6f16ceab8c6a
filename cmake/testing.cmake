# Declaration of tests. CTest runs each TEST_CASE of the core as a separate entry, in a separate process; a test that
# links LibTorch takes seconds to start and stays one entry, plus one for its cases tagged [long]. Tags of a TEST_CASE
# become labels: `./run test --fast` skips [slow], only `./run test --all` and `./run soak` run [long], and `./run soak`
# repeats [random] (seeded by tests/random_seed.h). The target test_programs builds all programs that CTest runs.

add_custom_target(test_programs)
# Data for tools/check_tests.py, which compares it with CTest's entries: a line "name|cases or whole|sources" for each
# executable.
define_property(GLOBAL PROPERTY STEPWATCH_TESTS BRIEF_DOCS "Catch2 executables" FULL_DOCS "name|kind|sources")

# stepwatch_test(name SOURCES a.cc … [DEPS target …] [REPLACES_CALLS] [HAS_LONG]): a Catch2 executable. REPLACES_CALLS:
# it replaces operator new or calls of the C library, and is compiled file by file in every build. HAS_LONG: it links
# LibTorch and has cases tagged [long].
function(stepwatch_test name)
  cmake_parse_arguments(arg "REPLACES_CALLS;HAS_LONG" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  add_dependencies(test_programs ${name})
  if(arg_REPLACES_CALLS)
    set_target_properties(${name} PROPERTIES UNITY_BUILD OFF)
  endif()
  target_compile_options(${name} PRIVATE ${stepwatch_warnings})
  target_link_libraries(${name} PRIVATE ${arg_DEPS} sw_test_main)
  target_compile_definitions(${name} PRIVATE STEPWATCH_SOURCE_DIR="${PROJECT_SOURCE_DIR}"
                                             STEPWATCH_BINARY_DIR="${PROJECT_BINARY_DIR}")
  set(kind cases)
  if("stepwatch_torch" IN_LIST arg_DEPS)
    set(kind whole)
    add_test(NAME ${name} COMMAND ${name} ~[long])
    set_tests_properties(${name} PROPERTIES LABELS torch COST 30)
    if(arg_HAS_LONG)
      add_test(NAME ${name}_long COMMAND ${name} [long])
      set_tests_properties(${name}_long PROPERTIES LABELS "torch;long" COST 40)
    endif()
  else()
    stepwatch_discover(${name})
  endif()
  list(TRANSFORM arg_SOURCES PREPEND ${CMAKE_CURRENT_SOURCE_DIR}/ OUTPUT_VARIABLE sources)
  list(JOIN sources "," sources)
  set_property(GLOBAL APPEND PROPERTY STEPWATCH_TESTS "${name}|${kind}|${sources}")
endfunction()

# stepwatch_discover(name): lists the cases of the executable after every link.
function(stepwatch_discover name)
  set(entries ${CMAKE_CURRENT_BINARY_DIR}/${name}_entries.cmake)
  add_custom_command(TARGET ${name} POST_BUILD BYPRODUCTS ${entries} VERBATIM
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/discover_tests.py $<TARGET_FILE:${name}> ${entries})
  file(WRITE ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake
    "if(EXISTS \"${entries}\")\n  include(\"${entries}\")\nelse()\n"
    "  add_test(${name}_was_not_built ${name}_was_not_built)\nendif()\n")
  set_property(DIRECTORY APPEND PROPERTY TEST_INCLUDE_FILES ${CMAKE_CURRENT_BINARY_DIR}/${name}_include.cmake)
endfunction()

# stepwatch_check_tests(): tests that every case of the sources is in CTest.
function(stepwatch_check_tests)
  get_property(tests GLOBAL PROPERTY STEPWATCH_TESTS)
  list(JOIN tests "\n" lines)
  file(WRITE ${PROJECT_BINARY_DIR}/tests.txt "${lines}\n")
  # Sanitizer builds omit the cases that they cannot run.
  if(STEPWATCH_SANITIZE)
    return()
  endif()
  add_test(NAME every_test_case_has_its_entry
    COMMAND ${Python3_EXECUTABLE} ${PROJECT_SOURCE_DIR}/tools/check_tests.py ${PROJECT_BINARY_DIR})
endfunction()
