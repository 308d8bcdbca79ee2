# Third-party packages. CUDA's headers are needed to build; its libraries are
# only ever loaded with dlopen, so nothing here links them.
find_package(Threads REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_package(absl REQUIRED CONFIG)
find_package(SQLite3 REQUIRED)

find_path(HONE_CUDA_INCLUDE_DIR nvrtc.h
  HINTS ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda
  PATH_SUFFIXES include targets/x86_64-linux/include
  NO_CMAKE_SYSTEM_PATH)
find_path(HONE_CUPTI_INCLUDE_DIR cupti.h
  HINTS ${HONE_CUDA_INCLUDE_DIR} ENV CUDA_HOME ENV CUDA_PATH
  PATHS /usr/local/cuda
  PATH_SUFFIXES include extras/CUPTI/include
  NO_CMAKE_SYSTEM_PATH)
if(NOT HONE_CUDA_INCLUDE_DIR OR NOT HONE_CUPTI_INCLUDE_DIR)
  message(FATAL_ERROR
    "Hone needs the CUDA 13 toolkit's headers (nvrtc.h, cuda.h, cupti.h). "
    "Install the toolkit or set CUDA_HOME to its folder.")
endif()

add_library(hone_cuda_headers INTERFACE)
target_include_directories(hone_cuda_headers SYSTEM INTERFACE
  ${HONE_CUDA_INCLUDE_DIR} ${HONE_CUPTI_INCLUDE_DIR})

if(HONE_SERVICE)
  find_package(Protobuf REQUIRED)
  find_package(gRPC REQUIRED CONFIG)
  find_package(ZLIB REQUIRED)
  find_path(HONE_MICROHTTPD_INCLUDE_DIR microhttpd.h REQUIRED)
  # Shared in the static build too: Debian has no archive of all that it needs.
  find_library(HONE_MICROHTTPD_LIBRARY libmicrohttpd.so REQUIRED)
  add_library(hone_microhttpd INTERFACE)
  target_include_directories(hone_microhttpd SYSTEM INTERFACE
    ${HONE_MICROHTTPD_INCLUDE_DIR})
  target_link_libraries(hone_microhttpd INTERFACE ${HONE_MICROHTTPD_LIBRARY})
  # Shared too: Debian has no archive. Its package file wants CURL and civetweb, which the core does not need.
  find_path(HONE_PROMETHEUS_INCLUDE_DIR prometheus/text_serializer.h REQUIRED)
  find_library(HONE_PROMETHEUS_LIBRARY libprometheus-cpp-core.so REQUIRED)
  add_library(hone_prometheus INTERFACE)
  target_include_directories(hone_prometheus SYSTEM INTERFACE
    ${HONE_PROMETHEUS_INCLUDE_DIR})
  target_link_libraries(hone_prometheus INTERFACE ${HONE_PROMETHEUS_LIBRARY})
endif()
if(HONE_TESTS)
  find_package(GTest REQUIRED)
endif()
if(HONE_STATIC)
  include(HoneStatic)
endif()
