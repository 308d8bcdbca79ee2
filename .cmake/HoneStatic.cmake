# Debian's gRPC, protobuf and Abseil export their shared libraries to CMake; the
# archives lie beside them. This links the archives instead.
get_property(hone_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${hone_imported})
  if(NOT target MATCHES "^(absl|gRPC|protobuf|c-ares)::")
    continue()
  endif()
  foreach(property IMPORTED_LOCATION IMPORTED_LOCATION_NONE
      IMPORTED_LOCATION_RELEASE)
    get_target_property(shared ${target} ${property})
    string(REGEX REPLACE "\\.so[.0-9]*$" ".a" archive "${shared}")
    if(shared AND EXISTS "${archive}")
      set_target_properties(${target} PROPERTIES ${property} "${archive}")
    endif()
  endforeach()
endforeach()
# re2 comes from pkg-config, as a flag.
if(TARGET re2::re2)
  find_library(HONE_RE2_ARCHIVE libre2.a REQUIRED)
  set_target_properties(re2::re2 PROPERTIES
    INTERFACE_LINK_LIBRARIES "${HONE_RE2_ARCHIVE}")
endif()

# The archives name each other in circles.
set(CMAKE_CXX_LINK_EXECUTABLE
  "<CMAKE_CXX_COMPILER> <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> -Wl,--start-group <LINK_LIBRARIES> -Wl,--end-group")
