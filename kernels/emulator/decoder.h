// From the syntax tree to a Program. The instruction families (decode_*.cc)
// each turn statements into a handler and its operands.
#ifndef HONE_KERNELS_EMULATOR_DECODER_H_
#define HONE_KERNELS_EMULATOR_DECODER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/emulator/float_format.h"
#include "kernels/emulator/program.h"
#include "kernels/emulator/ptx_ast.h"

namespace hone::emulator {

enum class Type : uint8_t {
  kNone,
  kPred,
  kB8,
  kB16,
  kB32,
  kB64,
  kB128,
  kU8,
  kU16,
  kU32,
  kU64,
  kS8,
  kS16,
  kS32,
  kS64,
  kU16x2,
  kS16x2,
  kF16,
  kBF16,
  kF16x2,
  kBF16x2,
  kF32,
  kF64,
  kTF32,
  kE4M3x2,
  kE5M2x2,
  kE3M2x2,
  kE2M3x2,
  kE2M1x2,
  kUE8M0x2,
  kF32x2,
};

Type ParseType(absl::string_view name);
uint32_t BytesOf(Type type);
bool IsSigned(Type type);
bool IsFloat(Type type);

class FunctionDecoder;

// Decodes one statement. Errors stick: after the first, every call returns
// something harmless and status() says what was wrong.
class InstructionDecoder {
 public:
  InstructionDecoder(FunctionDecoder& function, const Statement& statement,
                     Instruction& inst);

  absl::string_view name() const { return statement_.parts[0]; }
  absl::string_view opcode() const { return statement_.opcode; }
  Kernel& kernel();
  Instruction& inst() { return inst_; }
  const absl::Status& status() const { return status_; }

  // Qualifiers, left to right after the name.
  bool Done() const { return next_ == statement_.parts.size(); }
  absl::string_view PeekQualifier() const {
    return Done() ? absl::string_view() : statement_.parts[next_];
  }
  absl::string_view TakeQualifier();
  bool Take(absl::string_view qualifier);
  // Whether it is among the qualifiers, wherever.
  bool Has(absl::string_view qualifier) const;
  // Consumes cache operators, eviction priorities and prefetch sizes, which
  // change no result. True if a cache policy operand follows.
  bool TakeCacheHints();
  bool TakeRounding(Rounding* rounding);  // .rn .rz .rm .rp
  Type TakeType();                        // fails if the next is no type
  // The type at the end of the opcode, kNone if there is none.
  Type LastType() const { return ParseType(statement_.parts.back()); }
  // Fails unless every qualifier was taken.
  void ExpectDone();

  size_t operand_count() const { return statement_.operands.size(); }
  const Operand& operand(size_t i);
  bool IsRegister(const Operand& operand, Type* type = nullptr) const;

  // Append operands to the instruction's list. The register must have exactly
  // `bytes` (predicates: kPredBytes); sources may be constants or addresses of
  // variables. "_" as a destination gets a scratch slot.
  static constexpr uint32_t kPredBytes = 1;
  void Destination(const Operand& operand, uint32_t bytes);
  void Source(const Operand& operand, uint32_t bytes);
  // A predicate source that may be negated: the flag goes to inst.flags.
  void PredicateSource(const Operand& operand);
  // The same, with registers of any width of at least `bytes`; all elements
  // must agree. Returns the width.
  uint32_t WideElements(const Operand& operand, uint32_t bytes, uint32_t count,
                        bool destination);
  // An address: one operand, inst.immediate and kWideAddress.
  void Address(const Operand& operand);
  // An address whose offset must be zero or is returned.
  void AddressInto(const Operand& operand, int64_t* offset, bool* wide);
  // The offset of [parameter + offset] for an access of `bytes`.
  int64_t ParameterOffset(const Operand& operand, uint32_t bytes);
  void Append(uint32_t frame_offset);
  // How many operands the list has: the index in Instruction::r of the next.
  uint32_t AppendedCount();
  // The value of a constant operand.
  uint64_t Constant(const Operand& operand);
  uint32_t Scratch(uint32_t bytes);
  // Elements of a vector operand, or the operand itself as the only one.
  std::vector<const Operand*> Elements(const Operand& operand) const;
  uint32_t Label(const Operand& operand);
  uint32_t JumpTable(const Operand& operand);

  void Fail(absl::string_view reason);
  void Run(Handler handler) {
    if (handler == nullptr) {
      Fail("this combination of qualifiers");
    }
    inst_.run = handler;
  }

 private:
  FunctionDecoder& function_;
  const Statement& statement_;
  Instruction& inst_;
  size_t next_ = 1;
  size_t first_operand_ = 0;
  absl::Status status_;
};

// Each returns false when the name is not of its family.
bool DecodeCarry(InstructionDecoder& d);
bool DecodeInteger(InstructionDecoder& d);
bool DecodeFloat(InstructionDecoder& d);
bool DecodeCompare(InstructionDecoder& d);
bool DecodeConvert(InstructionDecoder& d);
bool DecodeMove(InstructionDecoder& d);
bool DecodeMemory(InstructionDecoder& d);
bool DecodeAtomic(InstructionDecoder& d);
bool DecodeAtomicVector(InstructionDecoder& d);
bool DecodeAsyncCopy(InstructionDecoder& d);
bool DecodeCluster(InstructionDecoder& d);
bool DecodeMbarrier(InstructionDecoder& d);
bool DecodeBulkCopy(InstructionDecoder& d);
// The rest of a tensor copy, from ".tensor" or ".prefetch" on.
void DecodeTensorCopy(InstructionDecoder& d, bool reduces);
// st.async, red.async.
bool DecodeAsyncStore(InstructionDecoder& d);
bool DecodeTensorMapPrefetch(InstructionDecoder& d);
bool DecodeWgmma(InstructionDecoder& d);
bool DecodeControl(InstructionDecoder& d);
bool DecodeWarp(InstructionDecoder& d);
bool DecodeMatrix(InstructionDecoder& d);
bool DecodeMatrixMove(InstructionDecoder& d);

absl::StatusOr<std::shared_ptr<const Program>> DecodeProgram(
    absl::string_view ptx);

// Sets Instruction::reconverge of every branch.
void FindReconvergence(Kernel* kernel);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_DECODER_H_
