# Packs NAME.tar.gz in FOLDER: bin/, lib/, share/, LICENSE, README.md. The same
# files give the same bytes. lib/ holds libmicrohttpd, prometheus-cpp and what they
# need, of which Debian has no complete archives; everything else must be in the
# binaries or on every node.
if(NOT STATIC)
  message(FATAL_ERROR
    "The bundle needs a build with -DHONE_STATIC=ON (the preset 'release'); "
    "this one would need Debian's gRPC on every node.")
endif()
set(stage ${FOLDER}/${NAME})
file(REMOVE_RECURSE ${stage})
file(MAKE_DIRECTORY ${stage}/bin ${stage}/lib ${stage}/share/hone)
set(on_every_node
  "(libc|libm|libstdc\\+\\+|libgcc_s|libcrypto|libssl|libz|libdl|libpthread|librt|ld-linux-x86-64)\\.so")
string(REPLACE "|" ";" PROGRAMS "${PROGRAMS}")
foreach(program ${PROGRAMS})
  file(COPY ${program} DESTINATION ${stage}/bin)
  get_filename_component(name ${program} NAME)
  execute_process(COMMAND ${STRIP} ${stage}/bin/${name}
    COMMAND_ERROR_IS_FATAL ANY)
  execute_process(COMMAND ${READELF} -d ${stage}/bin/${name}
    OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCHALL "Shared library: \\[[^]]*\\]" needed "${dynamic}")
  foreach(library ${needed})
    if(NOT library MATCHES "\\[${on_every_node}" AND
        NOT library MATCHES "\\[(libmicrohttpd|libprometheus-cpp-core)\\.so")
      message(FATAL_ERROR "${name} must not need ${library}")
    endif()
  endforeach()
endforeach()
string(REPLACE "|" ";" SHARED "${SHARED}")
file(GET_RUNTIME_DEPENDENCIES
  RESOLVED_DEPENDENCIES_VAR travelling
  LIBRARIES ${SHARED}
  PRE_EXCLUDE_REGEXES "^${on_every_node}")
foreach(library ${SHARED} ${travelling})
  execute_process(COMMAND ${READELF} -d ${library}
    OUTPUT_VARIABLE dynamic COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "Library soname: \\[([^]]*)\\]" soname "${dynamic}")
  set(soname ${CMAKE_MATCH_1})
  file(REAL_PATH ${library} file)
  file(COPY_FILE ${file} ${stage}/lib/${soname})
  # Their licenses go with them.
  execute_process(COMMAND dpkg-query -S "*/${soname}"
    OUTPUT_VARIABLE owner COMMAND_ERROR_IS_FATAL ANY)
  string(REGEX MATCH "^[^:]+" package "${owner}")
  file(COPY /usr/share/doc/${package}/copyright
    DESTINATION ${stage}/share/doc/${package})
endforeach()
file(GLOB models ${ROOT}/service/models/*.json ${ROOT}/service/models/README.md)
file(COPY ${models} DESTINATION ${stage}/share/hone/models)
file(COPY ${ROOT}/dashboards/grafana ${ROOT}/dashboards/alerts
  DESTINATION ${stage}/share/hone/dashboards)
foreach(file LICENSE README.md)
  if(EXISTS ${ROOT}/${file})
    file(COPY ${ROOT}/${file} DESTINATION ${stage})
  endif()
endforeach()
execute_process(
  COMMAND tar --sort=name --mtime=@0 --owner=0 --group=0 --numeric-owner
    -cf - ${NAME}
  COMMAND gzip -9n
  WORKING_DIRECTORY ${FOLDER}
  OUTPUT_FILE ${FOLDER}/${NAME}.tar.gz
  COMMAND_ERROR_IS_FATAL ANY)
file(SIZE ${FOLDER}/${NAME}.tar.gz bytes)
math(EXPR mebibytes "${bytes} >> 20")
if(bytes GREATER 67108864)
  message(FATAL_ERROR "${NAME}.tar.gz has ${mebibytes} MiB; at most 64 go")
endif()
message(STATUS "${FOLDER}/${NAME}.tar.gz: ${mebibytes} MiB")
