// Extended-precision arithmetic: add, sub and mad with the carry flag of each
// lane, which no other instruction touches.
#include <bit>
#include <limits>
#include <type_traits>

#include "kernels/emulator/decoder.h"
#include "kernels/emulator/lanes.h"

namespace hone::emulator {
namespace {

constexpr uint8_t kReads = 1;   // addc, subc, madc
constexpr uint8_t kWrites = 2;  // .cc

enum class Form : uint8_t { kAdd, kSub, kMadLo, kMadHi };

// The sum or difference that the carry goes into, and its carry or borrow.
template <typename U>
U Add(U a, U b, uint32_t carry, bool* out) {
  const U partial = a + b;
  const U sum = partial + carry;
  *out = partial < a || sum < partial;
  return sum;
}
template <typename U>
U Subtract(U a, U b, uint32_t borrow, bool* out) {
  *out = a < b || (a == b && borrow != 0);
  return a - b - borrow;
}

// The half of a product that mad takes.
template <typename T>
std::make_unsigned_t<T> Half(T a, T b, bool high) {
  using U = std::make_unsigned_t<T>;
  using Wide = std::conditional_t<
      sizeof(T) == 4,
      std::conditional_t<std::is_signed_v<T>, int64_t, uint64_t>,
      std::conditional_t<std::is_signed_v<T>, __int128, unsigned __int128>>;
  const Wide product = static_cast<Wide>(a) * static_cast<Wide>(b);
  return static_cast<U>(high ? product >> std::numeric_limits<U>::digits
                             : product);
}

template <typename T, Form kForm>
void Run(Cta& cta, Warp& warp, const Instruction& inst, uint32_t mask) {
  using U = std::make_unsigned_t<T>;
  const bool reads = (inst.mode & kReads) != 0;
  if (reads && (mask & ~warp.carry_known) != 0) {
    cta.Fault(warp, std::countr_zero(mask & ~warp.carry_known),
              "uninitialized: the carry flag, which no instruction with .cc "
              "has set");
    return;
  }
  U* d = warp.Reg<U>(inst.r[0]);
  const T* a = warp.Reg<T>(inst.r[1]);
  const T* b = warp.Reg<T>(inst.r[2]);
  constexpr bool kMad = kForm == Form::kMadLo || kForm == Form::kMadHi;
  const U* c = kMad ? warp.Reg<U>(inst.r[3]) : nullptr;
  ForLanes(mask, [&](uint32_t lane) {
    const uint32_t in = reads ? warp.carry >> lane & 1 : 0;
    bool out = false;
    if constexpr (kForm == Form::kSub) {
      d[lane] = Subtract<U>(static_cast<U>(a[lane]), static_cast<U>(b[lane]),
                            in, &out);
    } else if constexpr (kMad) {
      d[lane] = Add<U>(Half<T>(a[lane], b[lane], kForm == Form::kMadHi),
                       c[lane], in, &out);
    } else {
      d[lane] =
          Add<U>(static_cast<U>(a[lane]), static_cast<U>(b[lane]), in, &out);
    }
    if ((inst.mode & kWrites) == 0) return;
    warp.carry = (warp.carry & ~(1u << lane)) | uint32_t{out} << lane;
  });
  if ((inst.mode & kWrites) != 0) warp.carry_known |= mask;
}

template <typename T>
Handler HandlerOf(Form form) {
  switch (form) {
    case Form::kAdd:
      return Run<T, Form::kAdd>;
    case Form::kSub:
      return Run<T, Form::kSub>;
    case Form::kMadLo:
      return Run<T, Form::kMadLo>;
    case Form::kMadHi:
      return Run<T, Form::kMadHi>;
  }
  return nullptr;
}

}  // namespace

bool DecodeCarry(InstructionDecoder& d) {
  const absl::string_view name = d.name();
  const bool reads = name == "addc" || name == "subc" || name == "madc";
  const bool plain = name == "add" || name == "sub" || name == "mad";
  if (!reads && !(plain && d.Has("cc"))) return false;
  Form form = name == "sub" || name == "subc" ? Form::kSub : Form::kAdd;
  if (name == "mad" || name == "madc") {
    const bool high = d.Take("hi");
    if (!high && !d.Take("lo")) d.Fail("the half");
    form = high ? Form::kMadHi : Form::kMadLo;
  }
  uint8_t mode = reads ? kReads : 0;
  if (d.Take("cc")) mode |= kWrites;
  d.inst().mode = mode;
  const Type type = d.TakeType();
  d.ExpectDone();
  const uint32_t bytes = BytesOf(type);
  const size_t operands = form == Form::kMadLo || form == Form::kMadHi ? 4 : 3;
  if (d.operand_count() != operands) {
    d.Fail("the number of operands");
    return true;
  }
  d.Destination(d.operand(0), bytes);
  for (size_t i = 1; i < operands; ++i) d.Source(d.operand(i), bytes);
  switch (type) {
    case Type::kU32:
      d.Run(HandlerOf<uint32_t>(form));
      break;
    case Type::kS32:
      d.Run(HandlerOf<int32_t>(form));
      break;
    case Type::kU64:
      d.Run(HandlerOf<uint64_t>(form));
      break;
    case Type::kS64:
      d.Run(HandlerOf<int64_t>(form));
      break;
    default:
      d.Fail("the type");
  }
  return true;
}

}  // namespace hone::emulator
