include_guard(GLOBAL)

# Tests that see gRPC share a precompiled header of their own: gRPC brings
# compile flags that the common one is built without.
file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/hone_service_test_pch.cc
  CONTENT "int main() {}\n")
add_executable(hone_service_test_pch
  ${PROJECT_BINARY_DIR}/hone_service_test_pch.cc)
target_link_libraries(hone_service_test_pch PRIVATE
  hone_options hone_proto GTest::gmock GTest::gtest)
target_precompile_headers(hone_service_test_pch PRIVATE
  <gmock/gmock.h> <gtest/gtest.h> <grpcpp/grpcpp.h>
  <hone/v1/tuning_service.grpc.pb.h> <memory> <string> <vector>)

# hone_service_test(NAME SRCS a_test.cc DEPS x TIMEOUT 60): as hone_test().
function(hone_service_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE
    hone_options hone_proto ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM hone_service_test_pch)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS unit TIMEOUT ${ARG_TIMEOUT})
endfunction()
