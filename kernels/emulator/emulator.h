// Runs CUDA kernels on the CPU, from the PTX that NVRTC emits.
//
// The emulator is the correctness gate of machines without a GPU. It executes
// a LaunchPlan as kernels/launch does, a warp at a time with one register file
// per thread, and stops at the first thing a kernel must not do: accesses out
// of bounds, misaligned, of uninitialized bytes or to read-only buffers, races
// in shared memory, reads of asynchronous copies not yet waited for, barrier
// misuse, deadlock, divergence in a warp-wide instruction, ordinary writes that
// the async proxy may not see, wrong mbarrier phases and byte counts, touching
// what a matrix product or copy in flight still uses.
//
// What the model fixes where the PTX ISA leaves room:
//  - Divergent lanes run one side after the other (which first depends on the
//    seed) and reconverge at the branch's immediate post-dominator. A lane
//    that spins until another lane of its own warp acts never gets there. A
//    lane that jumps straight to a ret exits there and then; warp-wide
//    instructions and barriers count the lanes that have not exited, except
//    that matrix instructions need all 32.
//  - Lanes of one warp are ordered by the instructions of that warp; a
//    warp-synchronous exchange through shared memory needs no bar.warp.sync,
//    except after asynchronous copies, which only their issuing lane has
//    waited for.
//  - barrier.sync without .aligned is held to the rules of bar.sync: every
//    live lane of the warp arrives together.
//  - Strong accesses (volatile, relaxed, acquire, release, atom) to shared
//    memory do not race with each other; a strong write releases and a strong
//    read acquires, whatever its qualifier.
//  - CTAs of different clusters, and whoever meets in global memory, are
//  ordered
//    by strong accesses there (volatile, relaxed, acquire, release, atom, red)
//    and fences of gpu scope: other accesses to buffers that the kernel writes
//    are races unless such a chain, or a barrier, lies between them.
//  - Clusters run one after another to completion, in an order drawn from the
//    seed: what a CTA waits for must come from its own cluster or from CTAs
//    that do not wait. The CTAs of a cluster run side by side; shared memory
//    of another CTA may be touched only between a synchronization that follows
//    its start and one that precedes its exit.
//  - barrier.cluster is used by whole warps; exited warps count as arrived.
//  - setmaxnreg moves counts between warps and the CTA's pool; whether a
//    thread uses a register above its count cannot be seen in PTX. The count
//    at launch is what .maxnreg, or .maxntid with .minnctapersm, allow.
//  - griddepcontrol.wait counts for the warps that have synchronized with it;
//    griddepcontrol.launch_dependents does nothing.
//  - Approximate functions (ex2.approx, rcp.approx, ...) return the correctly
//    rounded value. NaNs produced by f16 and bf16 conversions are 0x7fff.
//  - mma on floats sums the exact products of one instruction (with their block
//    scales) and its accumulator in double, in ascending k, and rounds once, to
//    nearest; how hardware rounds inside an instruction is not specified. On
//    integers it is exact, and wraps around or saturates once, at the end.
//  - The same for wgmma, which completes in order. An MMA is issued when the
//    fourth warp of its warpgroup has come to it; one warp's wait_group is
//    enough to know that all four are done. A plain mov between registers only
//    renames an accumulator.
//  - A proxy fence counts wherever it lies between an ordinary write and the
//    asynchronous access, or an ordinary read and the asynchronous write, in
//    the writing or reading thread or in a later one that has synchronized with
//    it; after a read, in any lane of the warp. Only shared memory is followed
//    by proxy, and of reads those by the CTA itself.
//  - A failed mbarrier.test_wait or try_wait may keep its warp waiting until
//    the phase completes or no other warp can run. After many rounds in which
//    nothing else happens, that is a deadlock.
//  - Tensor copies know tile mode without interleaving. NaN fills are 0x7fff,
//    0x7fffffff and 0x7fff'ffff'ffff'ffff.
//  - elect.sync elects by the seed, always the same lane for a member mask.
//  - A warp finds its registers filled with a pattern, not with zeros.
#ifndef HONE_KERNELS_EMULATOR_EMULATOR_H_
#define HONE_KERNELS_EMULATOR_EMULATOR_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/codegen/launch_plan.h"

namespace hone::emulator {

struct Program;

// Parsed and decoded PTX. Immutable, cheap to copy and thread-safe.
class Module {
 public:
  // InvalidArgument for text that is not PTX; Unimplemented, naming line and
  // instruction, for PTX the emulator does not execute.
  static absl::StatusOr<Module> Parse(absl::string_view ptx);

  const Program& program() const { return *program_; }

 private:
  explicit Module(std::shared_ptr<const Program> program)
      : program_(std::move(program)) {}
  std::shared_ptr<const Program> program_;
};

// Memory of one buffer role, owned by the caller and outliving the call. The
// kernel may touch exactly [data, data + bytes).
struct HostBuffer {
  std::byte* data = nullptr;
  size_t bytes = 0;
  bool writable = false;
  // False makes it a fault to read a byte that the launch has not written.
  // The zeroed part of a workspace always counts as initialized.
  bool initialized = true;
  // True if the launch before this one may still use the buffer (programmatic
  // launch): it is then a fault to access it before a griddepcontrol.wait.
  bool in_flight = false;
};
using Bindings = absl::flat_hash_map<BufferRole, HostBuffer>;

// When an asynchronous operation moves its bytes or multiplies: as it is
// issued; at the last moment, when a wait for it would otherwise never end; or
// by draws of the seed.
enum class CopyLanding : uint8_t { kEarliest, kLatest, kRandom };

struct Options {
  // Decides the order of CTAs (of a plan whose CTAs wait for lower ones, that
  // is by rising index, and each runs to its end), the schedule of warps and
  // all other draws.
  uint64_t seed = 1;
  CopyLanding landing = CopyLanding::kRandom;
  // Warp instructions of the whole grid before ResourceExhausted.
  uint64_t max_instructions = uint64_t{1} << 32;
  // Host threads that share the CTAs. With more than one, the order in which
  // CTAs meet in global atomics is not reproducible, and races in global memory
  // are not looked for.
  int threads = 1;
};

struct Stats {
  uint64_t instructions = 0;  // warp instructions with at least one lane
  uint64_t mma = 0;           // of those, mma.sync
  uint64_t barriers = 0;      // completed CTA barriers
  uint64_t global_bytes_read = 0;
  uint64_t global_bytes_written = 0;
  uint64_t shared_bytes_read = 0;
  uint64_t shared_bytes_written = 0;
  uint64_t async_copies = 0;  // cp.async, per lane
  uint64_t bulk_copies = 0;   // bulk and tensor copies
  uint64_t wgmma = 0;         // per warpgroup

  Stats& operator+=(const Stats& from);
};

// Runs the launch to its end. OK with its statistics, or
//  - InvalidArgument: the plan or the bindings do not fit the kernel;
//  - Aborted: the kernel committed a fault; the message names kernel, CTA,
//    warp, lane, source line, PTX line and the access it conflicts with;
//  - ResourceExhausted: max_instructions ran out; the message says where.
// Buffers hold what had been written until then.
absl::StatusOr<Stats> Execute(const Module& module, const LaunchPlan& plan,
                              const Bindings& bindings, const Options& options);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_EMULATOR_H_
