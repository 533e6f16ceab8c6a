# Debian packages, found once for all folders.

find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(Boost 1.81 REQUIRED)  # Asio, Beast, CRC and Intrusive are header-only
find_package(fmt REQUIRED)
find_package(spdlog REQUIRED)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(CLI11 REQUIRED)
find_package(hwy REQUIRED)
find_package(Protobuf 3.12 REQUIRED)  # with the package come protoc and the function protobuf_generate
find_package(SQLite3 3.35 REQUIRED)
find_package(PNG 1.6 REQUIRED)
include(${CMAKE_CURRENT_LIST_DIR}/re2.cmake)  # re2::re2
