# Debian's gRPC, protobuf and Abseil export their shared libraries to CMake; the
# archives lie beside them. This links the archives instead.
get_property(hone_imported DIRECTORY PROPERTY IMPORTED_TARGETS)
foreach(target ${hone_imported})
  if(NOT target MATCHES "^(absl|gRPC|protobuf)::")
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
foreach(pair re2::re2=libre2.a c-ares::cares=libcares.a)
  string(REPLACE "=" ";" pair ${pair})
  list(GET pair 0 target)
  list(GET pair 1 name)
  if(TARGET ${target})
    find_library(HONE_ARCHIVE_${name} ${name} REQUIRED)
    set_target_properties(${target} PROPERTIES
      INTERFACE_LINK_LIBRARIES "${HONE_ARCHIVE_${name}}")
  endif()
endforeach()

# The archives name each other in circles.
set(CMAKE_CXX_LINK_EXECUTABLE
  "<CMAKE_CXX_COMPILER> <FLAGS> <CMAKE_CXX_LINK_FLAGS> <LINK_FLAGS> <OBJECTS> -o <TARGET> -Wl,--start-group <LINK_LIBRARIES> -Wl,--end-group")
