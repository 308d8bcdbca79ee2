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
  # In hex, since reading as text would change line ends.
  file(READ ${ROOT}/${file} content HEX)
  string(LENGTH "${content}" size)
  math(EXPR size "${size} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" content "${content}")
  string(APPEND text "      {\"${file}\", absl::string_view(\"${content}\", ${size})},\n")
endforeach()
string(APPEND text "  };\n  return *files;\n}\n}  // namespace ${namespace}\n")
file(WRITE ${OUTPUT} "${text}")
