// Decoded kernels: what the executor runs. Nothing here holds text that is
// looked at while a kernel runs, except to word an error.
#ifndef HONE_KERNELS_EMULATOR_PROGRAM_H_
#define HONE_KERNELS_EMULATOR_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "kernels/emulator/ptx_ast.h"

namespace hone::emulator {

class Cta;
struct Warp;
struct Instruction;

inline constexpr uint32_t kWarpSize = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;
inline constexpr uint32_t kNone = 0xffffffffu;

// Executes one instruction for the lanes of `mask`, which is not empty.
using Handler = void (*)(Cta& cta, Warp& warp, const Instruction& inst,
                         uint32_t mask);

enum class Space : uint8_t {
  kGeneric,
  kGlobal,
  kShared,
  kSharedCluster,  // of this or another CTA of the cluster
  kLocal,
  kConst,
  kParam
};

// Generic addresses: the top byte names the window.
inline constexpr int kWindowShift = 56;
inline constexpr uint64_t kSharedWindow = uint64_t{1} << kWindowShift;
inline constexpr uint64_t kLocalWindow = uint64_t{2} << kWindowShift;
inline constexpr uint64_t kConstWindow = uint64_t{3} << kWindowShift;
inline constexpr uint64_t kParamWindow = uint64_t{4} << kWindowShift;
// Bound buffers lie 1 TiB apart in the global window (0).
inline constexpr int kBufferShift = 40;
// Shared memory starts here, so that a null pointer is out of bounds.
inline constexpr uint32_t kSharedBase = 1024;
// An address of shared::cluster is one of shared::cta with the CTA's rank + 1
// above this bit, or, in the executing CTA, one of shared::cta as it is.
inline constexpr int kRankShift = 24;
// Local memory likewise.
inline constexpr uint32_t kLocalBase = 1024;

// A warp's frame holds 32 lanes of every register and constant, as contiguous
// arrays; predicates are one 32-bit lane mask. Operands are byte offsets into
// the frame.
struct Instruction {
  enum Flag : uint8_t {
    kSigned = 1,
    kStrong = 2,
    kFlushSubnormals = 4,
    kSaturate = 8,
    kNegate = 16,       // of the predicate operand
    kWideAddress = 32,  // 64-bit address register
    kRelease = 64,      // of gpu scope or wider
    kAcquire = 128,
  };
  Handler run = nullptr;
  const uint32_t* r = nullptr;  // operands, in the order the handler wants
  int64_t immediate = 0;
  uint32_t guard = kNone;       // frame offset of a predicate
  uint32_t target = kNone;      // branch target, statement index
  int32_t shared_offset = 0;    // cp.async: of its shared address
  uint32_t reconverge = kNone;  // immediate post-dominator
  uint32_t line = 0;            // in the PTX text
  uint32_t location = 0;        // index + 1 in Program::locations
  bool guard_negated = false;
  bool ends_lane = false;   // ret, exit
  bool jump_table = false;  // target is an index of jump_tables
  uint8_t flags = 0;
  uint8_t count = 0;           // vector elements
  uint8_t bytes = 0;           // of an element in memory
  uint8_t register_bytes = 0;  // of an element's register
  uint8_t mode = 0;            // the handler's own
  bool touches_async = false;  // registers that some wgmma uses
  bool renames = false;        // moves one of these to another
  uint16_t operand_count = 0;  // set if touches_async
  uint32_t wgmma = kNone;      // index in Kernel::wgmma
  bool Has(Flag flag) const { return (flags & flag) != 0; }
};

struct Parameter {
  std::string name;
  uint32_t offset = 0;
  uint32_t bytes = 0;
};

// Frame offsets of the special registers that are fixed for a warp.
struct SpecialRegisters {
  // By x, y, z.
  uint32_t tid[3], ntid[3], ctaid[3], nctaid[3];
  uint32_t cluster_ctaid[3], cluster_nctaid[3], clusterid[3], nclusterid[3];
  uint32_t cluster_ctarank, cluster_nctarank;
  uint32_t is_explicit_cluster;  // a predicate
  uint32_t laneid, warpid, nwarpid, smid, nsmid;
  uint32_t dynamic_smem_size, total_smem_size;
  uint32_t lanemask_eq, lanemask_le, lanemask_lt, lanemask_ge, lanemask_gt;
};

// What a bulk or tensor copy takes beyond an Instruction. Addresses and values
// are indices of Instruction::r, kNone where there is none.
struct BulkInstruction {
  enum class Kind : uint8_t {
    kGlobalToShared,
    kSharedToGlobal,
    kSharedToShared,
    kRegisterToShared,  // st.async, red.async
    kPrefetch
  };
  struct Address {
    uint32_t r = kNone;
    int64_t offset = 0;
    bool wide = false;
  };
  Kind kind = Kind::kGlobalToShared;
  Address to, from, mbarrier, tensor_map;
  uint32_t size = kNone;
  uint32_t first_coordinate = kNone;
  uint32_t rank = 0;  // 0: not a tensor copy
  uint32_t cta_mask = kNone;
  bool to_cta = false;  // to .shared::cta, which is the issuer's own
  bool reduces = false;
  uint8_t op = 0;    // AtomicOp
  uint8_t type = 0;  // Type; of tensor copies the map's
};

// wgmma.mma_async. Instruction::r: accumulators, A registers if any.
struct WgmmaInstruction {
  enum class Input : uint8_t { kF16, kBF16, kE4M3, kE5M2, kS8, kU8 };
  enum class Output : uint8_t { kF32, kF16, kS32 };
  uint32_t n = 0;
  uint32_t k = 0;
  uint32_t accumulators = 0;  // registers
  uint32_t a_registers = 0;   // 4, or 0 for a descriptor
  Input a = Input::kF16, b = Input::kF16;
  Output output = Output::kF32;
  bool transpose_a = false, transpose_b = false;  // MN-major in shared memory
  bool negate_a = false, negate_b = false;
  bool saturate = false;
};

// A constant operand: its value in every lane of a frame.
struct ConstantSlot {
  uint32_t offset = 0;
  uint32_t bytes = 0;
  uint64_t bits = 0;
};

struct Kernel {
  std::string name;
  std::vector<Instruction> code;
  std::vector<uint32_t> operands;  // what Instruction::r points into
  std::vector<std::vector<uint32_t>> jump_tables;
  std::vector<ConstantSlot> constants;
  std::vector<BulkInstruction> bulk;  // Instruction::immediate is the index
  std::vector<WgmmaInstruction> wgmma;
  // By 64-byte slot of the frame: number + 1 of a register that some wgmma
  // uses; see async_registers.h.
  std::vector<uint32_t> async_registers;
  uint32_t async_register_count = 0;
  uint32_t frame_bytes = 0;
  SpecialRegisters special;
  std::vector<Parameter> parameters;
  uint32_t parameter_bytes = 0;
  uint32_t static_shared_bytes = 0;
  // Offset of dynamic shared memory from kSharedBase.
  uint32_t dynamic_shared_offset = 0;
  uint32_t local_bytes = 0;
  uint32_t max_threads = 0;
  uint32_t required_threads[3] = {0, 0, 0};
  uint32_t required_cluster[3] = {0, 0, 0};  // .reqnctapercluster, 0: none
  uint32_t max_cluster = 0;                  // .maxclusterrank, 0: none
  // What a thread may use at launch, as the directives bound it; 0: they do
  // not, and ptxas ignores setmaxnreg.
  uint32_t register_cap = 0;
};

struct Program {
  std::string text;
  std::vector<SourceLocation> locations;
  absl::flat_hash_map<uint32_t, std::string> files;
  std::vector<std::byte> constant_memory;
  std::vector<std::byte> global_memory;  // initial image of .global variables
  std::vector<Kernel> kernels;

  const Kernel* FindKernel(absl::string_view name) const;
  // "gemm.cu:40 (inlined at gemm.cu:12)", or "no source line".
  std::string DescribeSource(const Instruction& inst) const;
  // The source, then "[PTX line 12: ld.shared.u32 ...]".
  std::string Describe(const Instruction& inst) const;
};

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_PROGRAM_H_
