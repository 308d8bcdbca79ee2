#include "kernels/jit/cubin_info.h"

#include <elf.h>

#include <algorithm>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

namespace hone {
namespace {

constexpr uint16_t kMachineCuda = 190;  // EM_CUDA
// Set in st_other of a kernel's symbol, not of a device function's.
constexpr uint8_t kEntryFlag = 0x10;
// Since sm_90 the first 1 KB of a CTA's shared memory is the system's, and
// part of .nv.shared.<kernel>; this section says so.
constexpr absl::string_view kReservedSection = ".nv.shared.reserved.0";
constexpr uint64_t kReservedBytes = 1024;

// Records of .nv.info: a format, an attribute, then by format a value of two
// bytes or a length of two bytes and as many bytes of payload.
constexpr uint8_t kFormatSized = 4;
constexpr uint8_t kAttrFrameSize = 0x11;
constexpr uint8_t kAttrMinStackSize = 0x12;
constexpr uint8_t kAttrRegisterCount = 0x2f;

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("not a valid cubin: ", what));
}

// The bytes at [offset, offset + size), or an empty view when they are not all
// there.
absl::string_view Slice(absl::string_view bytes, uint64_t offset,
                        uint64_t size) {
  if (offset > bytes.size() || size > bytes.size() - offset) return {};
  return bytes.substr(offset, size);
}

// A T at `offset`; the caller has checked that it is there. Cubins in memory
// need not be aligned.
template <typename T>
T Load(absl::string_view bytes, uint64_t offset = 0) {
  T value;
  std::memcpy(&value, bytes.data() + offset, sizeof value);
  return value;
}

// The zero-terminated string at `offset` of a string table.
absl::string_view StringAt(absl::string_view table, uint64_t offset) {
  if (offset >= table.size()) return {};
  const absl::string_view tail = table.substr(offset);
  return tail.substr(0, tail.find('\0'));
}

struct Section {
  absl::string_view name;
  Elf64_Shdr header;
  absl::string_view bytes;  // empty for NOBITS
};

absl::StatusOr<std::vector<Section>> ReadSections(absl::string_view cubin) {
  if (cubin.size() < sizeof(Elf64_Ehdr)) return Damaged("too short");
  const auto elf = Load<Elf64_Ehdr>(cubin);
  if (std::memcmp(elf.e_ident, ELFMAG, SELFMAG) != 0 ||
      elf.e_ident[EI_CLASS] != ELFCLASS64 ||
      elf.e_ident[EI_DATA] != ELFDATA2LSB || elf.e_machine != kMachineCuda) {
    return Damaged("no 64-bit CUDA ELF header");
  }
  if (elf.e_shentsize != sizeof(Elf64_Shdr)) return Damaged("section size");
  // Behind the sections, so the last thing that truncation takes.
  const uint64_t segments = uint64_t{elf.e_phnum} * elf.e_phentsize;
  if (Slice(cubin, elf.e_phoff, segments).size() != segments) {
    return Damaged("segment table");
  }
  const absl::string_view table =
      Slice(cubin, elf.e_shoff, uint64_t{elf.e_shnum} * sizeof(Elf64_Shdr));
  if (table.empty() || elf.e_shstrndx >= elf.e_shnum) {
    return Damaged("section table");
  }
  std::vector<Section> sections(elf.e_shnum);
  for (size_t i = 0; i < sections.size(); ++i) {
    Section& s = sections[i];
    s.header = Load<Elf64_Shdr>(table, i * sizeof(Elf64_Shdr));
    if (s.header.sh_type == SHT_NOBITS || s.header.sh_size == 0) continue;
    s.bytes = Slice(cubin, s.header.sh_offset, s.header.sh_size);
    if (s.bytes.empty()) return Damaged("a section ends behind the file");
  }
  const absl::string_view names = sections[elf.e_shstrndx].bytes;
  for (Section& s : sections) s.name = StringAt(names, s.header.sh_name);
  return sections;
}

const Section* FindSection(const std::vector<Section>& sections,
                           absl::string_view name) {
  for (const Section& s : sections) {
    if (s.name == name) return &s;
  }
  return nullptr;
}

int64_t NumberBefore(absl::string_view line, absl::string_view words) {
  const size_t at = line.find(words);
  if (at == absl::string_view::npos) return 0;
  const absl::string_view head = line.substr(0, at);
  const size_t start = head.find_last_not_of("0123456789") + 1;
  int64_t value = 0;
  return absl::SimpleAtoi(head.substr(start), &value) ? value : 0;
}

}  // namespace

absl::StatusOr<std::vector<CubinKernel>> ReadCubin(absl::string_view cubin) {
  auto sections = ReadSections(cubin);
  if (!sections.ok()) return sections.status();
  const Section* symbols = FindSection(*sections, ".symtab");
  const Section* info = FindSection(*sections, ".nv.info");
  if (symbols == nullptr || info == nullptr) {
    return Damaged("no .symtab or no .nv.info");
  }
  if (symbols->header.sh_link >= sections->size()) return Damaged(".symtab");
  const absl::string_view names = (*sections)[symbols->header.sh_link].bytes;
  const uint64_t reserved =
      FindSection(*sections, kReservedSection) == nullptr ? 0 : kReservedBytes;

  std::vector<CubinKernel> kernels;
  // For each symbol the index of its kernel, or -1.
  std::vector<int> kernel_of(symbols->bytes.size() / sizeof(Elf64_Sym), -1);
  for (size_t i = 0; i < kernel_of.size(); ++i) {
    const auto symbol = Load<Elf64_Sym>(symbols->bytes, i * sizeof(Elf64_Sym));
    if (ELF64_ST_TYPE(symbol.st_info) != STT_FUNC ||
        (symbol.st_other & kEntryFlag) == 0) {
      continue;
    }
    CubinKernel kernel;
    kernel.name = std::string(StringAt(names, symbol.st_name));
    const Section* shared =
        FindSection(*sections, absl::StrCat(".nv.shared.", kernel.name));
    if (shared != nullptr && shared->header.sh_size > reserved) {
      kernel.resources.static_smem_bytes =
          static_cast<int32_t>(shared->header.sh_size - reserved);
    }
    kernel_of[i] = static_cast<int>(kernels.size());
    kernels.push_back(std::move(kernel));
  }

  absl::string_view records = info->bytes;
  while (records.size() >= 4) {
    const auto format = Load<uint8_t>(records, 0);
    const auto attribute = Load<uint8_t>(records, 1);
    const auto size = Load<uint16_t>(records, 2);
    records.remove_prefix(4);
    if (format != kFormatSized) continue;
    if (size > records.size()) return Damaged(".nv.info");
    const absl::string_view payload = records.substr(0, size);
    records.remove_prefix(size);
    if (size != 8) continue;
    const auto symbol = Load<uint32_t>(payload, 0);
    const auto value = Load<int32_t>(payload, 4);
    if (symbol >= kernel_of.size() || kernel_of[symbol] < 0) continue;
    KernelResources& r = kernels[kernel_of[symbol]].resources;
    if (attribute == kAttrRegisterCount) r.registers = value;
    if (attribute == kAttrFrameSize || attribute == kAttrMinStackSize) {
      r.stack_bytes = std::max(r.stack_bytes, value);
    }
  }
  for (const CubinKernel& kernel : kernels) {
    if (kernel.resources.registers <= 0) {
      return Damaged(absl::StrCat("no register count for ", kernel.name));
    }
  }
  return kernels;
}

std::vector<PtxasReport> ReadPtxasLog(absl::string_view log) {
  constexpr absl::string_view kEntry = "Compiling entry function '";
  std::vector<PtxasReport> reports;
  // A device function that is not inlined has properties too, but no entry.
  bool in_entry = false;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    if (const size_t at = line.find(kEntry); at != absl::string_view::npos) {
      const absl::string_view tail = line.substr(at + kEntry.size());
      reports.emplace_back().name =
          std::string(tail.substr(0, tail.find('\'')));
      in_entry = true;
      continue;
    }
    if (reports.empty()) continue;
    constexpr absl::string_view kProperties = "Function properties for ";
    if (const size_t at = line.find(kProperties);
        at != absl::string_view::npos) {
      in_entry =
          absl::StripAsciiWhitespace(line.substr(at + kProperties.size())) ==
          reports.back().name;
      continue;
    }
    KernelResources& r = reports.back().resources;
    const auto number = [line](absl::string_view words) {
      return static_cast<int32_t>(NumberBefore(line, words));
    };
    if (absl::StrContains(line, "bytes stack frame")) {
      // Spills of a called function are the kernel's too.
      r.spill_store_bytes += number(" bytes spill stores");
      r.spill_load_bytes += number(" bytes spill loads");
      if (in_entry) r.stack_bytes = number(" bytes stack frame");
    } else if (absl::StrContains(line, ": Used ")) {
      r.registers = number(" registers");
      r.static_smem_bytes = number(" bytes smem");
      r.stack_bytes =
          std::max(r.stack_bytes, number(" bytes cumulative stack size"));
    }
  }
  return reports;
}

std::vector<std::string> WarningsIn(absl::string_view log) {
  std::vector<std::string> warnings;
  for (absl::string_view line : absl::StrSplit(log, '\n')) {
    line = absl::StripAsciiWhitespace(line);
    const bool matters =
        absl::StrContains(line, "warning") || absl::StrContains(line, "(C7") ||
        absl::StrContains(line, "Potential Performance Loss") ||
        NumberBefore(line, " bytes spill stores") > 0 ||
        NumberBefore(line, " bytes spill loads") > 0;
    if (matters) warnings.emplace_back(line);
  }
  return warnings;
}

}  // namespace hone
