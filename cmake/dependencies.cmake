# Finds the compiler and Debian's packages once for all folders. One line lists the missing ones, with the command that
# installs them.

set(stepwatch_missing)

include(CheckLanguage)
check_language(CXX)
if(CMAKE_CXX_COMPILER)
  enable_language(CXX)
  find_package(Threads REQUIRED)
else()
  list(APPEND stepwatch_missing g++)
endif()

# stepwatch_need(DEBIAN_PACKAGE NAME [VERSION] [COMPONENTS …]): calls find_package, whose targets stay visible here.
# Many packages are looked for with the compiler; without one all count as missing.
macro(stepwatch_need debian name)
  if(CMAKE_CXX_COMPILER)
    find_package(${name} ${ARGN} QUIET)
  endif()
  if(NOT ${name}_FOUND)
    list(APPEND stepwatch_missing ${debian})
  endif()
endmacro()

if(STEPWATCH_PYTHON)
  stepwatch_need(python3-dev Python 3.9 COMPONENTS Interpreter Development.Module)
endif()
stepwatch_need(libssl-dev OpenSSL COMPONENTS Crypto)
stepwatch_need(libboost1.81-dev Boost 1.81)  # Asio, Beast, CRC and Intrusive are header-only
stepwatch_need(libfmt-dev fmt)
stepwatch_need(libspdlog-dev spdlog)
stepwatch_need(nlohmann-json3-dev nlohmann_json 3.11)
stepwatch_need(libcli11-dev CLI11)
stepwatch_need(libhwy-dev hwy)
stepwatch_need(libprotobuf-dev Protobuf 3.12)  # the package includes the function protobuf_generate
if(NOT Protobuf_PROTOC_EXECUTABLE)
  list(APPEND stepwatch_missing protobuf-compiler)
endif()
stepwatch_need(libsqlite3-dev SQLite3 3.35)
stepwatch_need(libcurl4-openssl-dev CURL 7.87)  # CURLOPT_QUICK_EXIT
stepwatch_need(libpng-dev PNG 1.6)
stepwatch_need(zlib1g-dev ZLIB 1.2)
include(${CMAKE_CURRENT_LIST_DIR}/re2.cmake)  # re2::re2
if(NOT TARGET re2::re2)
  list(APPEND stepwatch_missing libre2-dev)
endif()

if(stepwatch_missing)
  list(JOIN stepwatch_missing " " stepwatch_missing)
  # CMake does not wrap text that begins with a space.
  message(FATAL_ERROR " To build Stepwatch from source, install what is missing: apt-get install ${stepwatch_missing}"
                      " (a wheel, which ./run wheel builds, needs none of it)")
endif()
