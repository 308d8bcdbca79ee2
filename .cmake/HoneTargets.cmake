# Helpers for declaring Hone's targets.

add_library(hone_options INTERFACE)
target_include_directories(hone_options INTERFACE
  ${PROJECT_SOURCE_DIR} ${PROJECT_BINARY_DIR})
target_compile_options(hone_options INTERFACE
  -Wall -Wextra -Werror -Wno-unused-parameter -Wno-missing-field-initializers
  # GCC 12 sees uninitialized reads in moved-from StatusOr that cannot happen.
  -Wno-maybe-uninitialized)
if(HONE_SANITIZE)
  target_compile_options(hone_options INTERFACE
    -fsanitize=${HONE_SANITIZE} -fno-omit-frame-pointer)
  target_link_options(hone_options INTERFACE -fsanitize=${HONE_SANITIZE})
  if(HONE_SANITIZE STREQUAL "address")
    target_compile_options(hone_options INTERFACE -fsanitize=undefined
      -fno-sanitize-recover=undefined)
    target_link_options(hone_options INTERFACE -fsanitize=undefined)
  endif()
endif()

# hone_library(NAME SRCS a.cc b.cc DEPS x y): a static library.
function(hone_library name)
  cmake_parse_arguments(ARG "" "" "SRCS;DEPS" ${ARGN})
  add_library(${name} STATIC ${ARG_SRCS})
  target_link_libraries(${name} PUBLIC hone_options ${ARG_DEPS})
endfunction()

# The tests' precompiled header, built once. An executable, like the tests that
# reuse it, since both must be compiled with the same -fPIE.
if(HONE_TESTS)
  file(GENERATE OUTPUT ${PROJECT_BINARY_DIR}/hone_test_pch.cc CONTENT "int main() {}\n")
  add_executable(hone_test_pch ${PROJECT_BINARY_DIR}/hone_test_pch.cc)
  target_link_libraries(hone_test_pch PRIVATE
    hone_options GTest::gmock GTest::gtest)
  target_precompile_headers(hone_test_pch PRIVATE
    <gmock/gmock.h> <gtest/gtest.h> <memory> <string> <vector>)
endif()

# hone_test(NAME SRCS a_test.cc DEPS x LABEL unit TIMEOUT 60): one GoogleTest
# executable, one CTest entry. LABEL is the tier: unit (the default), gpu,
# fuzz, soak, bench.
function(hone_test name)
  cmake_parse_arguments(ARG "" "LABEL;TIMEOUT" "SRCS;DEPS" ${ARGN})
  if(NOT ARG_LABEL)
    set(ARG_LABEL unit)
  endif()
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 120)
  endif()
  add_executable(${name} ${ARG_SRCS})
  target_link_libraries(${name} PRIVATE
    hone_options ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_precompile_headers(${name} REUSE_FROM hone_test_pch)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    LABELS ${ARG_LABEL} TIMEOUT ${ARG_TIMEOUT})
endfunction()

# hone_embed(OUTPUT_VAR FUNCTION hone::Name FILES a b): generates the C++ file
# of .cmake/EmbedFiles.cmake from files named from the project's root, and puts
# its path into OUTPUT_VAR.
function(hone_embed output_var)
  cmake_parse_arguments(ARG "" "FUNCTION" "FILES" ${ARGN})
  string(REPLACE "::" "_" base "${ARG_FUNCTION}")
  set(output ${CMAKE_CURRENT_BINARY_DIR}/${base}.cc)
  set(depends ${ARG_FILES})
  list(TRANSFORM depends PREPEND ${PROJECT_SOURCE_DIR}/)
  add_custom_command(OUTPUT ${output}
    COMMAND ${CMAKE_COMMAND} -DOUTPUT=${output} -DROOT=${PROJECT_SOURCE_DIR}
      "-DFILES=${ARG_FILES}" -DFUNCTION=${ARG_FUNCTION}
      -P ${PROJECT_SOURCE_DIR}/.cmake/EmbedFiles.cmake
    DEPENDS ${depends} ${PROJECT_SOURCE_DIR}/.cmake/EmbedFiles.cmake
    VERBATIM)
  set(${output_var} ${output} PARENT_SCOPE)
endfunction()
