#include "kernels/emulator/program.h"

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

namespace hone::emulator {

const Kernel* Program::FindKernel(absl::string_view name) const {
  for (const Kernel& kernel : kernels) {
    if (kernel.name == name) return &kernel;
  }
  return nullptr;
}

std::string Program::DescribeSource(const Instruction& inst) const {
  if (inst.location == 0) return "no source line";
  std::string out;
  int nested = 0;
  for (uint32_t at = inst.location; at != 0;
       at = locations[at - 1].inlined_at) {
    const SourceLocation& location = locations[at - 1];
    const auto file = files.find(location.file);
    if (nested > 0) out += " (inlined at ";
    absl::StrAppend(&out,
                    file == files.end() ? absl::StrCat("file ", location.file)
                                        : file->second,
                    ":", location.line);
    ++nested;
  }
  out.append(nested - 1, ')');
  return out;
}

std::string Program::Describe(const Instruction& inst) const {
  // The line's text is only looked up here, when there is an error to word.
  size_t begin = 0;
  for (uint32_t line = 1; line < inst.line && begin < text.size(); ++line) {
    begin = text.find('\n', begin) + 1;
    if (begin == 0) break;
  }
  size_t end = text.find('\n', begin);
  if (end == std::string::npos) end = text.size();
  std::string words(absl::StripAsciiWhitespace(
      absl::string_view(text).substr(begin, end - begin)));
  for (char& c : words) {
    if (c == '\t') c = ' ';
  }
  return absl::StrCat(DescribeSource(inst), " [PTX line ", inst.line, ": ",
                      words, "]");
}

}  // namespace hone::emulator
