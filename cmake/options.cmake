# Settings of every target: C++20, warnings as errors, sanitizers on request; functions for libraries and tests.

include(GNUInstallDirs)

set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo)
endif()

find_program(CCACHE ccache)
if(CCACHE)
  # Paths are cached relative to the checkout, so that a fresh clone reuses objects of another one.
  set(CMAKE_CXX_COMPILER_LAUNCHER
      ${CMAKE_COMMAND} -E env CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=1 ${CCACHE})
endif()

# By default g++ collects garbage often, in a tenth of its time. A larger heap avoids that for a third more memory: up
# to 2 GB a file.
cmake_host_system_information(RESULT stepwatch_memory_mib QUERY TOTAL_PHYSICAL_MEMORY)
if(stepwatch_memory_mib GREATER 8000)
  add_compile_options($<$<COMPILE_LANG_AND_ID:CXX,GNU>:--param=ggc-min-heapsize=1048576>)
endif()

# lld links a test of 180 MB in a third of the time of GNU ld. nvcc does not know the option.
option(STEPWATCH_LLD "Link with lld where it is found" ON)
find_program(STEPWATCH_LLD_PROGRAM ld.lld)
mark_as_advanced(STEPWATCH_LLD_PROGRAM)
if(STEPWATCH_LLD AND STEPWATCH_LLD_PROGRAM)
  add_link_options($<$<LINK_LANGUAGE:CXX>:-fuse-ld=lld>)
endif()

set(stepwatch_warnings -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -Wnon-virtual-dtor -Werror)
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # Checks lock use, by the annotations of src/base/mutex.h.
  list(APPEND stepwatch_warnings -Wthread-safety)
else()
  # False positives of g++ 12 for strings inside std::variant.
  list(APPEND stepwatch_warnings -Wno-maybe-uninitialized)
  if(CMAKE_UNITY_BUILD)
    # The compiler warns of unnamed namespaces in included files, as all files of a unit are.
    list(APPEND stepwatch_warnings -Wno-subobject-linkage)
  endif()
endif()

if(STEPWATCH_SANITIZE)
  add_compile_options(-fsanitize=${STEPWATCH_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  add_link_options(-fsanitize=${STEPWATCH_SANITIZE})
  if(STEPWATCH_SANITIZE STREQUAL "thread")
    # Asio's scheduler has fences that g++ cannot instrument; every warning would be an error.
    add_compile_options($<$<CXX_COMPILER_ID:GNU>:-Wno-tsan>)
  endif()
endif()

option(STEPWATCH_LIBFUZZER "Link the fuzz entries with libFuzzer (needs clang)" OFF)
if(STEPWATCH_LIBFUZZER)
  add_compile_options(-fsanitize=fuzzer-no-link)
endif()

# stepwatch_library(name SOURCES a.cc [DEPS target]): one folder as a static library with explicit sources.
function(stepwatch_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;DEPS" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${PROJECT_SOURCE_DIR};${PROJECT_SOURCE_DIR}/include>"
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_compile_options(${name} PRIVATE ${stepwatch_warnings})
  target_link_libraries(${name} PUBLIC ${arg_DEPS})
endfunction()

# stepwatch_optimise(target…): optimises slow tests in builds that leave other tests unoptimised.
function(stepwatch_optimise)
  if(CMAKE_UNITY_BUILD)
    foreach(target ${ARGN})
      target_compile_options(${target} PRIVATE -O1)
    endforeach()
  endif()
endfunction()
