# cmake -DOUTPUT=x.cc -DROOT=dir -DFILES="a;b" -DFUNCTION=hone::X -P this
# Writes a C++ file that defines
#   const std::vector<std::pair<absl::string_view, absl::string_view>>& X();
# with each file's path from ROOT and its text, in the order given.
set(text "// Generated from the files it holds.\n")
string(APPEND text "#include <utility>\n#include <vector>\n\n")
string(APPEND text "#include \"absl/strings/string_view.h\"\n\n")
string(REGEX REPLACE "::[^:]*$" "" namespace "${FUNCTION}")
string(REGEX REPLACE "^.*::" "" name "${FUNCTION}")
set(type "std::vector<std::pair<absl::string_view, absl::string_view>>")
string(APPEND text "namespace ${namespace} {\n")
string(APPEND text "const ${type}& ${name}();\n")
string(APPEND text "const ${type}& ${name}() {\n")
string(APPEND text "  static const auto* files = new ${type}{\n")
foreach(file IN LISTS FILES)
  file(READ ${ROOT}/${file} content)
  string(FIND "${content}" ")hone\"" end)
  if(NOT end EQUAL -1)
    message(FATAL_ERROR "${file} holds the end of its own literal")
  endif()
  string(APPEND text "      {\"${file}\", R\"hone(${content})hone\"},\n")
endforeach()
string(APPEND text "  };\n  return *files;\n}\n}  // namespace ${namespace}\n")
file(WRITE ${OUTPUT} "${text}")
