# Runs hone-fault-run in a folder of its own, which stays when it fails.
#   cmake -DPROGRAM=FILE [-DDEVICE=gpu:0] [-DWORKER=FILE -DCOMPILER=FILE] -P this
execute_process(COMMAND mktemp -d /tmp/hone-fault-run-XXXXXX
  OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
set(arguments --out=${folder})
foreach(name DEVICE WORKER COMPILER)
  if(${name})
    string(TOLOWER ${name} flag)
    list(APPEND arguments --${flag}=${${name}})
  endif()
endforeach()
execute_process(COMMAND ${PROGRAM} ${arguments} RESULT_VARIABLE result)
if(NOT result EQUAL 0)
  message(FATAL_ERROR "hone-fault-run ended with ${result}; see ${folder}")
endif()
file(REMOVE_RECURSE ${folder})
