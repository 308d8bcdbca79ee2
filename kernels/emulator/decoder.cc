#include "kernels/emulator/decoder.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"
#include "kernels/emulator/async_registers.h"

namespace hone::emulator {
namespace {

struct TypeInfo {
  const char* name;
  Type type;
  uint8_t bytes;
};
constexpr TypeInfo kTypes[] = {
    {"pred", Type::kPred, 1},       {"b8", Type::kB8, 1},
    {"b16", Type::kB16, 2},         {"b32", Type::kB32, 4},
    {"b64", Type::kB64, 8},         {"b128", Type::kB128, 16},
    {"u8", Type::kU8, 1},           {"u16", Type::kU16, 2},
    {"u32", Type::kU32, 4},         {"u64", Type::kU64, 8},
    {"s8", Type::kS8, 1},           {"s16", Type::kS16, 2},
    {"s32", Type::kS32, 4},         {"s64", Type::kS64, 8},
    {"f16", Type::kF16, 2},         {"bf16", Type::kBF16, 2},
    {"f16x2", Type::kF16x2, 4},     {"bf16x2", Type::kBF16x2, 4},
    {"f32", Type::kF32, 4},         {"f64", Type::kF64, 8},
    {"tf32", Type::kTF32, 4},       {"e4m3x2", Type::kE4M3x2, 2},
    {"e5m2x2", Type::kE5M2x2, 2},   {"e3m2x2", Type::kE3M2x2, 2},
    {"e2m3x2", Type::kE2M3x2, 2},   {"e2m1x2", Type::kE2M1x2, 1},
    {"ue8m0x2", Type::kUE8M0x2, 2}, {"f32x2", Type::kF32x2, 8},
    {"u16x2", Type::kU16x2, 4},     {"s16x2", Type::kS16x2, 4},
};

uint64_t AlignUp(uint64_t value, uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Registers per thread at launch: .maxnreg, or the share of a thread in the
// 65536 registers of an SM that .maxntid and .minnctapersm leave it; ptxas
// hands them out in eights.
uint32_t RegisterCap(const Function& function) {
  if (function.max_registers != 0) return function.max_registers;
  if (function.max_threads == 0 || function.min_ctas == 0) return 0;
  const uint32_t threads = AlignUp(function.max_threads, kWarpSize);
  return std::min(65536 / (threads * function.min_ctas) / 8 * 8, 256u);
}

struct Symbol {
  Space space = Space::kGlobal;
  uint64_t address = 0;
};
using Symbols = std::map<absl::string_view, Symbol>;

void PlaceModuleVariables(const PtxModule& module, Program* program,
                          Symbols* symbols) {
  const auto place = [&](const std::vector<Variable>& variables) {
    for (const Variable& v : variables) {
      if (v.space != "const" && v.space != "global") continue;
      const bool constant = v.space == "const";
      auto& image =
          constant ? program->constant_memory : program->global_memory;
      const uint64_t at = AlignUp(image.size(), std::max(v.alignment, 1u));
      image.resize(at + v.bytes);
      if (!v.initializer.empty()) {
        std::memcpy(&image[at], v.initializer.data(), v.initializer.size());
      }
      // .global variables are the first buffer of every launch.
      const uint64_t base =
          kLocalBase + (constant ? 0 : uint64_t{1} << kBufferShift);
      (*symbols)[v.name] = {constant ? Space::kConst : Space::kGlobal,
                            base + at};
    }
  };
  place(module.variables);
  for (const Function& function : module.functions) place(function.variables);
}

}  // namespace

Type ParseType(absl::string_view name) {
  for (const TypeInfo& info : kTypes) {
    if (name == info.name) return info.type;
  }
  return Type::kNone;
}

uint32_t BytesOf(Type type) {
  for (const TypeInfo& info : kTypes) {
    if (type == info.type) return info.bytes;
  }
  return 0;
}

bool IsSigned(Type type) { return type >= Type::kS8 && type <= Type::kS64; }
bool IsFloat(Type type) { return type >= Type::kF16; }

// Lays out one function's frame and memory and decodes its statements.
class FunctionDecoder {
 public:
  FunctionDecoder(const PtxModule& module, const Function& function,
                  const Symbols& symbols)
      : function_(function), symbols_(symbols) {
    for (const Variable& v : module.variables) {
      if (v.space == "shared") shared_.push_back(v);
    }
  }

  absl::StatusOr<Kernel> Decode() {
    kernel_.name = std::string(function_.name);
    kernel_.max_threads = function_.max_threads;
    std::copy(std::begin(function_.required_threads),
              std::end(function_.required_threads), kernel_.required_threads);
    std::copy(std::begin(function_.required_cluster),
              std::end(function_.required_cluster), kernel_.required_cluster);
    kernel_.max_cluster = function_.max_cluster;
    kernel_.register_cap = RegisterCap(function_);
    PlaceParameters();
    PlaceVariables();
    PlaceSpecialRegisters();
    PlaceRegisters();
    kernel_.code.resize(function_.statements.size() + 1);
    std::vector<size_t> first_operand;
    for (size_t i = 0; i < function_.statements.size(); ++i) {
      const Statement& statement = function_.statements[i];
      Instruction& inst = kernel_.code[i];
      inst.line = statement.line;
      inst.location = statement.location;
      first_operand.push_back(kernel_.operands.size());
      InstructionDecoder decoder(*this, statement, inst);
      if (!statement.guard.empty()) {
        const Register* guard = FindRegister(statement.guard, statement.scope);
        if (guard == nullptr || guard->type != Type::kPred) {
          decoder.Fail("the guard, which is not a predicate");
        } else {
          inst.guard = guard->offset;
          inst.guard_negated = statement.guard_negated;
        }
      }
      bool known = false;
      for (auto* family : {DecodeMbarrier,     DecodeBulkCopy,
                           DecodeAsyncStore,   DecodeTensorMapPrefetch,
                           DecodeWgmma,        DecodeMove,
                           DecodeCarry,        DecodeInteger,
                           DecodeFloat,        DecodeCompare,
                           DecodeConvert,      DecodeMemory,
                           DecodeAtomicVector, DecodeAtomic,
                           DecodeAsyncCopy,    DecodeCluster,
                           DecodeControl,      DecodeWarp,
                           DecodeMatrix,       DecodeMatrixMove}) {
        if (family(decoder)) {
          known = true;
          break;
        }
      }
      if (!known) decoder.Fail("the instruction");
      if (!decoder.status().ok()) return decoder.status();
    }
    // Running off the end of a kernel is a return.
    Statement end;
    end.opcode = "ret";
    end.parts = {"ret"};
    if (!function_.statements.empty()) {
      end.line = function_.statements.back().line;
      end.location = function_.statements.back().location;
    }
    Instruction& last = kernel_.code.back();
    last.line = end.line;
    last.location = end.location;
    first_operand.push_back(kernel_.operands.size());
    InstructionDecoder decoder(*this, end, last);
    DecodeControl(decoder);
    for (size_t i = 0; i < kernel_.code.size(); ++i) {
      kernel_.code[i].r = kernel_.operands.data() + first_operand[i];
    }
    for (const auto& [key, offset] : constants_) {
      kernel_.constants.push_back({offset, key.second, key.first});
    }
    FindReconvergence(&kernel_);
    FindAsyncRegisters(&kernel_, Moves());
    return std::move(kernel_);
  }

  // For each statement, whether it copies one 32-bit register to another.
  std::vector<bool> Moves() const {
    std::vector<bool> moves;
    for (const Statement& statement : function_.statements) {
      bool is_move = statement.parts[0] == "mov" &&
                     statement.operands.size() == 2 && statement.guard.empty();
      for (const Operand& operand : statement.operands) {
        const Register* reg = operand.kind == Operand::Kind::kName
                                  ? FindRegister(operand.name, statement.scope)
                                  : nullptr;
        is_move = is_move && reg != nullptr && BytesOf(reg->type) == 4;
      }
      moves.push_back(is_move);
    }
    return moves;
  }

  struct Register {
    uint32_t offset = 0;
    Type type = Type::kNone;
  };

  const Register* FindRegister(absl::string_view name, uint32_t scope) const {
    while (true) {
      const auto it = registers_[scope].find(name);
      if (it != registers_[scope].end()) return &it->second;
      if (scope == 0) break;
      scope = function_.scopes[scope].parent;
    }
    const auto it = special_.find(name);
    return it == special_.end() ? nullptr : &it->second;
  }

  const Symbol* FindSymbol(absl::string_view name) const {
    const auto local = local_symbols_.find(name);
    if (local != local_symbols_.end()) return &local->second;
    const auto it = symbols_.find(name);
    return it == symbols_.end() ? nullptr : &it->second;
  }

  uint32_t FindLabel(absl::string_view name, uint32_t scope) const {
    while (true) {
      const auto& labels = function_.scopes[scope].labels;
      const auto it = labels.find(name);
      if (it != labels.end()) return it->second;
      if (scope == 0) return kNone;
      scope = function_.scopes[scope].parent;
    }
  }

  const std::vector<absl::string_view>* FindTargets(absl::string_view name,
                                                    uint32_t scope) const {
    while (true) {
      const auto& tables = function_.scopes[scope].branch_targets;
      const auto it = tables.find(name);
      if (it != tables.end()) return &it->second;
      if (scope == 0) return nullptr;
      scope = function_.scopes[scope].parent;
    }
  }

  // The frame offset of a constant of `bytes` in every lane.
  uint32_t Constant(uint64_t bits, uint32_t bytes) {
    if (bytes < 8 && bytes != InstructionDecoder::kPredBytes) {
      bits &= (uint64_t{1} << 8 * bytes) - 1;
    }
    const auto [it, added] = constants_.try_emplace({bits, bytes}, 0);
    if (added) it->second = Allocate(bytes);
    return it->second;
  }

  uint32_t Allocate(uint32_t bytes) {
    const uint32_t offset = kernel_.frame_bytes;
    const uint32_t size =
        bytes == InstructionDecoder::kPredBytes ? 64 : bytes * kWarpSize;
    kernel_.frame_bytes += AlignUp(size, 64);
    return offset;
  }

  Kernel& kernel() { return kernel_; }

 private:
  void PlaceParameters() {
    for (const Variable& v : function_.params) {
      const uint32_t offset =
          AlignUp(kernel_.parameter_bytes, std::max(v.alignment, 1u));
      kernel_.parameters.push_back(
          {std::string(v.name), offset, static_cast<uint32_t>(v.bytes)});
      local_symbols_[v.name] = {Space::kParam, offset};
      kernel_.parameter_bytes = offset + v.bytes;
    }
  }

  void PlaceVariables() {
    uint32_t dynamic_alignment = 16;
    for (const Variable& v : function_.variables) {
      if (v.space == "shared") shared_.push_back(v);
      if (v.space == "local") PlaceLocal(v);
    }
    for (const Variable& v : shared_) {
      if (v.bytes == 0) {
        dynamic_alignment = std::max(dynamic_alignment, v.alignment);
      } else {
        const uint32_t at =
            AlignUp(kernel_.static_shared_bytes, std::max(v.alignment, 1u));
        local_symbols_[v.name] = {Space::kShared, kSharedBase + at};
        kernel_.static_shared_bytes = at + v.bytes;
      }
    }
    kernel_.dynamic_shared_offset =
        AlignUp(kernel_.static_shared_bytes, dynamic_alignment);
    for (const Variable& v : shared_) {
      if (v.bytes == 0) {
        local_symbols_[v.name] = {Space::kShared,
                                  kSharedBase + kernel_.dynamic_shared_offset};
      }
    }
  }

  void PlaceLocal(const Variable& v) {
    const uint32_t at = AlignUp(kernel_.local_bytes, std::max(v.alignment, 1u));
    local_symbols_[v.name] = {Space::kLocal, kLocalBase + at};
    kernel_.local_bytes = at + v.bytes;
  }

  void PlaceSpecialRegisters() {
    SpecialRegisters& s = kernel_.special;
    const auto add = [this](absl::string_view name, uint32_t* slot) {
      *slot = Allocate(4);
      special_[name] = {*slot, Type::kU32};
    };
    static constexpr const char* kVectors[8][3] = {
        {"%tid.x", "%tid.y", "%tid.z"},
        {"%ntid.x", "%ntid.y", "%ntid.z"},
        {"%ctaid.x", "%ctaid.y", "%ctaid.z"},
        {"%nctaid.x", "%nctaid.y", "%nctaid.z"},
        {"%cluster_ctaid.x", "%cluster_ctaid.y", "%cluster_ctaid.z"},
        {"%cluster_nctaid.x", "%cluster_nctaid.y", "%cluster_nctaid.z"},
        {"%clusterid.x", "%clusterid.y", "%clusterid.z"},
        {"%nclusterid.x", "%nclusterid.y", "%nclusterid.z"}};
    uint32_t* const slots[8] = {s.tid,       s.ntid,          s.ctaid,
                                s.nctaid,    s.cluster_ctaid, s.cluster_nctaid,
                                s.clusterid, s.nclusterid};
    for (int v = 0; v < 8; ++v) {
      for (int i = 0; i < 3; ++i) add(kVectors[v][i], &slots[v][i]);
    }
    add("%laneid", &s.laneid);
    add("%warpid", &s.warpid);
    add("%nwarpid", &s.nwarpid);
    add("%smid", &s.smid);
    add("%nsmid", &s.nsmid);
    add("%dynamic_smem_size", &s.dynamic_smem_size);
    add("%total_smem_size", &s.total_smem_size);
    add("%lanemask_eq", &s.lanemask_eq);
    add("%lanemask_le", &s.lanemask_le);
    add("%lanemask_lt", &s.lanemask_lt);
    add("%lanemask_ge", &s.lanemask_ge);
    add("%lanemask_gt", &s.lanemask_gt);
    add("%cluster_ctarank", &s.cluster_ctarank);
    add("%cluster_nctarank", &s.cluster_nctarank);
    s.is_explicit_cluster = Allocate(InstructionDecoder::kPredBytes);
    special_["%is_explicit_cluster"] = {s.is_explicit_cluster, Type::kPred};
  }

  void PlaceRegisters() {
    registers_.resize(function_.scopes.size());
    for (size_t i = 0; i < function_.scopes.size(); ++i) {
      for (const auto& [name, declaration] : function_.scopes[i].registers) {
        const Type type = ParseType(declaration.type);
        const uint32_t bytes = type == Type::kPred
                                   ? InstructionDecoder::kPredBytes
                                   : std::max(BytesOf(type), 2u);
        if (declaration.count == 0) {
          registers_[i][std::string(name)] = {Allocate(bytes), type};
        }
        for (uint32_t n = 0; n < declaration.count; ++n) {
          registers_[i][absl::StrCat(name, n)] = {Allocate(bytes), type};
        }
      }
    }
  }

  const Function& function_;
  const Symbols& symbols_;
  Kernel kernel_;
  Symbols local_symbols_;
  std::vector<Variable> shared_;
  std::vector<absl::flat_hash_map<std::string, Register>> registers_;
  absl::flat_hash_map<absl::string_view, Register> special_;
  std::map<std::pair<uint64_t, uint32_t>, uint32_t> constants_;
};

InstructionDecoder::InstructionDecoder(FunctionDecoder& function,
                                       const Statement& statement,
                                       Instruction& inst)
    : function_(function),
      statement_(statement),
      inst_(inst),
      first_operand_(function.kernel().operands.size()) {}

Kernel& InstructionDecoder::kernel() { return function_.kernel(); }

uint32_t InstructionDecoder::AppendedCount() {
  return function_.kernel().operands.size() - first_operand_;
}

absl::string_view InstructionDecoder::TakeQualifier() {
  if (Done()) return {};
  return statement_.parts[next_++];
}

bool InstructionDecoder::Take(absl::string_view qualifier) {
  if (Done() || statement_.parts[next_] != qualifier) return false;
  ++next_;
  return true;
}

bool InstructionDecoder::Has(absl::string_view qualifier) const {
  return std::find(statement_.parts.begin(), statement_.parts.end(),
                   qualifier) != statement_.parts.end();
}

bool InstructionDecoder::TakeCacheHints() {
  static constexpr absl::string_view kOperators[] = {"ca", "cg", "cs", "lu",
                                                     "cv", "wb", "wt", "nc"};
  bool policy = false;
  while (!Done()) {
    const absl::string_view q = PeekQualifier();
    if (q == "L2::cache_hint") {
      policy = true;
    } else if (!absl::StartsWith(q, "L1::") && !absl::StartsWith(q, "L2::") &&
               std::find(std::begin(kOperators), std::end(kOperators), q) ==
                   std::end(kOperators)) {
      break;
    }
    ++next_;
  }
  return policy;
}

bool InstructionDecoder::TakeRounding(Rounding* rounding) {
  if (Take("rn")) {
    *rounding = Rounding::kNearestEven;
  } else if (Take("rz")) {
    *rounding = Rounding::kZero;
  } else if (Take("rm")) {
    *rounding = Rounding::kDown;
  } else if (Take("rp")) {
    *rounding = Rounding::kUp;
  } else {
    return false;
  }
  return true;
}

Type InstructionDecoder::TakeType() {
  const Type type = ParseType(PeekQualifier());
  if (type == Type::kNone) {
    Fail("a type");
  } else {
    ++next_;
  }
  return type;
}

void InstructionDecoder::ExpectDone() {
  if (!Done()) Fail(absl::StrCat("qualifier .", PeekQualifier()));
}

const Operand& InstructionDecoder::operand(size_t i) {
  static const Operand* const kMissing = new Operand;
  if (i < statement_.operands.size()) return statement_.operands[i];
  Fail("the number of operands");
  return *kMissing;
}

bool InstructionDecoder::IsRegister(const Operand& operand, Type* type) const {
  if (operand.kind != Operand::Kind::kName) return false;
  const auto* reg = function_.FindRegister(operand.name, statement_.scope);
  if (reg == nullptr) return false;
  if (type != nullptr) *type = reg->type;
  return true;
}

void InstructionDecoder::Append(uint32_t frame_offset) {
  function_.kernel().operands.push_back(frame_offset);
}

uint32_t InstructionDecoder::Scratch(uint32_t bytes) {
  return function_.Allocate(bytes);
}

void InstructionDecoder::Destination(const Operand& operand, uint32_t bytes) {
  if (operand.kind == Operand::Kind::kName && operand.name == "_") {
    Append(Scratch(bytes));
    return;
  }
  Type type = Type::kNone;
  if (!IsRegister(operand, &type)) {
    Fail(absl::StrCat("destination \"", operand.name, "\""));
    return;
  }
  Source(operand, bytes);
}

void InstructionDecoder::Source(const Operand& operand, uint32_t bytes) {
  switch (operand.kind) {
    case Operand::Kind::kInteger:
      if (bytes == kPredBytes) {
        Append(function_.Constant(operand.bits != 0 ? kAllLanes : 0, bytes));
      } else {
        Append(function_.Constant(operand.bits, bytes));
      }
      return;
    case Operand::Kind::kFloat: {
      uint64_t bits = operand.bits;
      if (bytes == 8) {
        bits = std::bit_cast<uint64_t>(static_cast<double>(
            std::bit_cast<float>(static_cast<uint32_t>(bits))));
      }
      Append(function_.Constant(bits, bytes));
      return;
    }
    case Operand::Kind::kDouble: {
      uint64_t bits = operand.bits;
      if (bytes == 4) {
        bits = std::bit_cast<uint32_t>(
            static_cast<float>(std::bit_cast<double>(bits)));
      }
      Append(function_.Constant(bits, bytes));
      return;
    }
    case Operand::Kind::kName:
      break;
    default:
      Fail("an operand");
      return;
  }
  const auto* reg = function_.FindRegister(operand.name, statement_.scope);
  if (reg != nullptr) {
    const bool pred = reg->type == Type::kPred;
    const uint32_t have = pred ? kPredBytes : std::max(BytesOf(reg->type), 2u);
    if (have != bytes) {
      Fail(absl::StrCat("register ", operand.name,
                        ", whose size does not fit the type"));
      return;
    }
    if (operand.negated) {
      if (!pred) {
        Fail("a negated operand");
        return;
      }
      inst_.flags |= Instruction::kNegate;
    }
    Append(reg->offset);
    return;
  }
  const Symbol* symbol = function_.FindSymbol(operand.name);
  if (symbol == nullptr || bytes < 4) {
    Fail(absl::StrCat("unknown name \"", operand.name, "\""));
    return;
  }
  Append(function_.Constant(symbol->address, bytes));
}

void InstructionDecoder::PredicateSource(const Operand& operand) {
  Source(operand, kPredBytes);
}

std::vector<const Operand*> InstructionDecoder::Elements(
    const Operand& operand) const {
  std::vector<const Operand*> out;
  if (operand.kind != Operand::Kind::kVector) return {&operand};
  for (const Operand& element : operand.elements) out.push_back(&element);
  return out;
}

uint32_t InstructionDecoder::WideElements(const Operand& operand,
                                          uint32_t bytes, uint32_t count,
                                          bool destination) {
  const auto elements = Elements(operand);
  if (elements.size() != count) {
    Fail("the number of vector elements");
    return bytes;
  }
  uint32_t width = 0;
  for (const Operand* element : elements) {
    Type type = Type::kNone;
    if (!IsRegister(*element, &type)) continue;
    const uint32_t have = std::max(BytesOf(type), 2u);
    if (type == Type::kPred || have < bytes || (width != 0 && have != width)) {
      Fail(absl::StrCat("register ", element->name,
                        ", whose size does not fit the type"));
      return bytes;
    }
    width = have;
  }
  if (width == 0) width = std::max(bytes, 2u);
  for (const Operand* element : elements) {
    if (destination) {
      Destination(*element, width);
    } else {
      Source(*element, width);
    }
  }
  return width;
}

void InstructionDecoder::AddressInto(const Operand& operand, int64_t* offset,
                                     bool* wide) {
  if (operand.kind != Operand::Kind::kAddress) {
    Fail("an address operand");
    return;
  }
  const Operand& base = operand.elements[0];
  *offset = operand.offset;
  Type type = Type::kNone;
  *wide = !IsRegister(base, &type) || BytesOf(type) == 8;
  Source(base, *wide ? 8 : 4);
}

void InstructionDecoder::Address(const Operand& operand) {
  bool wide = false;
  AddressInto(operand, &inst_.immediate, &wide);
  if (wide) inst_.flags |= Instruction::kWideAddress;
}

int64_t InstructionDecoder::ParameterOffset(const Operand& operand,
                                            uint32_t bytes) {
  const Symbol* symbol = operand.kind == Operand::Kind::kAddress
                             ? function_.FindSymbol(operand.elements[0].name)
                             : nullptr;
  if (symbol == nullptr || symbol->space != Space::kParam) {
    Fail("an address that is no parameter");
    return 0;
  }
  const int64_t at = static_cast<int64_t>(symbol->address) + operand.offset;
  if (at < 0 || at + bytes > function_.kernel().parameter_bytes) {
    Fail("an offset outside the parameters");
    return 0;
  }
  return at;
}

uint64_t InstructionDecoder::Constant(const Operand& operand) {
  if (operand.kind != Operand::Kind::kInteger) {
    Fail("an operand that is not a constant");
    return 0;
  }
  return operand.bits;
}

uint32_t InstructionDecoder::Label(const Operand& operand) {
  const uint32_t at = function_.FindLabel(operand.name, statement_.scope);
  if (at == kNone) Fail(absl::StrCat("unknown label \"", operand.name, "\""));
  return at;
}

uint32_t InstructionDecoder::JumpTable(const Operand& operand) {
  const auto* names = function_.FindTargets(operand.name, statement_.scope);
  std::vector<uint32_t> targets;
  if (names == nullptr) {
    Fail(absl::StrCat("unknown branch targets \"", operand.name, "\""));
  } else {
    for (absl::string_view name : *names) {
      Operand label;
      label.name = name;
      targets.push_back(Label(label));
    }
  }
  function_.kernel().jump_tables.push_back(std::move(targets));
  return function_.kernel().jump_tables.size() - 1;
}

void InstructionDecoder::Fail(absl::string_view reason) {
  if (!status_.ok()) return;
  status_ = absl::UnimplementedError(absl::StrCat(
      "PTX line ", statement_.line, ": the emulator does not know ", reason,
      " in \"", statement_.opcode, "\""));
}

absl::StatusOr<std::shared_ptr<const Program>> DecodeProgram(
    absl::string_view ptx) {
  auto program = std::make_shared<Program>();
  program->text = std::string(ptx);
  // Views in the tree point into the program's own copy.
  HONE_ASSIGN_OR_RETURN(const PtxModule module, ParsePtx(program->text));
  program->locations = module.locations;
  program->files = module.files;
  Symbols symbols;
  PlaceModuleVariables(module, program.get(), &symbols);
  for (const Function& function : module.functions) {
    HONE_ASSIGN_OR_RETURN(Kernel kernel,
                          FunctionDecoder(module, function, symbols).Decode());
    program->kernels.push_back(std::move(kernel));
  }
  return program;
}

}  // namespace hone::emulator
