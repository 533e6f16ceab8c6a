# The CUDA engine: AUTO builds it if nvcc is found, ON requires it, OFF never builds it. It links neither LibTorch nor
# Python; the CUDA runtime is linked statically, so that the library also loads on a machine without CUDA.

set(STEPWATCH_CUDA AUTO CACHE STRING "Build the CUDA engine: AUTO, ON or OFF")
set_property(CACHE STEPWATCH_CUDA PROPERTY STRINGS AUTO ON OFF)
set(STEPWATCH_CUDA_ARCHITECTURES 80 86 89 90 100 CACHE STRING
    "Compute capabilities to embed device code for, of those the toolkit knows, in ascending order")

set(STEPWATCH_WITH_CUDA OFF)
get_filename_component(stepwatch_root ${CMAKE_CURRENT_LIST_DIR} DIRECTORY)
if(STEPWATCH_SANITIZE)
  message(STATUS "CUDA engine: off under sanitizers; its host logic and the emulation are built and tested")
elseif(NOT STEPWATCH_CUDA STREQUAL "OFF")
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    set(STEPWATCH_WITH_CUDA ON)
  elseif(STEPWATCH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "STEPWATCH_CUDA=ON needs nvcc; put it into PATH or set CMAKE_CUDA_COMPILER")
  else()
    message(STATUS "CUDA engine: off, nvcc was not found (set CMAKE_CUDA_COMPILER, or put nvcc into PATH)")
  endif()
endif()

if(STEPWATCH_WITH_CUDA)
  # The architectures are named one by one below; the compiler's default must not be tried.
  set(CMAKE_CUDA_ARCHITECTURES OFF)
  enable_language(CUDA)
  if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # a CMake older than the compiler
    set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
  endif()
  set(CMAKE_CUDA_STANDARD 20)
  find_package(CUDAToolkit REQUIRED)
  find_package(Python3 COMPONENTS Interpreter)

  execute_process(COMMAND ${CMAKE_CUDA_COMPILER} --list-gpu-code OUTPUT_VARIABLE known OUTPUT_STRIP_TRAILING_WHITESPACE)
  # Kernels with tree sums run where fp64 is slow: on 75, 86, 89, 120 and some newer ones. PTX serves all architectures
  # without device code: that of the last data-centre GPU, which each later one accepts.
  foreach(number IN LISTS STEPWATCH_CUDA_ARCHITECTURES)
    if(known MATCHES "sm_${number}(\n|$)")
      list(APPEND stepwatch_cuda_CODE sm_${number})
      list(APPEND stepwatch_cuda_FLOAT64 "-gencode=arch=compute_${number},code=sm_${number}")
      if(number MATCHES "^(75|86|89|120)$")
        list(APPEND stepwatch_cuda_TREES "-gencode=arch=compute_${number},code=sm_${number}")
      endif()
      if(number EQUAL 86)
        list(APPEND stepwatch_cuda_TREES "-gencode=arch=compute_86,code=compute_86")
      endif()
      if(number LESS 120)
        set(newest "-gencode=arch=compute_${number},code=compute_${number}")
      endif()
    endif()
  endforeach()
  list(APPEND stepwatch_cuda_FLOAT64 ${newest})
  message(STATUS "CUDA engine: nvcc ${CMAKE_CUDA_COMPILER_VERSION}, ${stepwatch_cuda_FLOAT64}")
endif()

# stepwatch_cuda_kernels(name FLOAT64 a.cu … TREES b.cu …): a static library of kernels, and a test of ptxas' report on
# them.
function(stepwatch_cuda_kernels name)
  cmake_parse_arguments(arg "" "" "FLOAT64;TREES" ${ARGN})
  add_library(${name} STATIC ${arg_FLOAT64} ${arg_TREES})
  target_include_directories(${name} PUBLIC "$<BUILD_INTERFACE:${stepwatch_root};${stepwatch_root}/include>")
  # Products and sums are rounded separately unless the source requests otherwise. Line info for profilers is half of
  # the device code, so a release omits it.
  target_compile_options(${name} PRIVATE -fmad=false -Xptxas=-v $<$<NOT:$<CONFIG:Release>>:-lineinfo> -Xcompiler=-fPIC)
  set_target_properties(${name} PROPERTIES CUDA_ARCHITECTURES OFF)
  set_source_files_properties(${arg_FLOAT64} PROPERTIES COMPILE_OPTIONS "${stepwatch_cuda_FLOAT64}")
  set_source_files_properties(${arg_TREES} PROPERTIES COMPILE_OPTIONS "${stepwatch_cuda_TREES}")
  if(Python3_FOUND)
    set(reports ${CMAKE_CURRENT_BINARY_DIR}/ptxas)
    set(check ${Python3_EXECUTABLE} ${stepwatch_root}/tools/check_ptxas.py)
    set_target_properties(${name} PROPERTIES CUDA_COMPILER_LAUNCHER "${check};compile;${reports};--")
    add_test(NAME cuda_kernels_neither_spill_nor_load_narrowly COMMAND ${check} check ${reports})
  endif()
endfunction()
