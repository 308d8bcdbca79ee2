// ldmatrix, stmatrix and movmatrix.
#include <functional>

#include "absl/strings/str_cat.h"
#include "tests/kernels/emulator/cases/instruction_case.h"

namespace hone::emulator {
namespace {

std::string Registers(const char* name, int first, int count) {
  std::string out = "{";
  for (int i = 0; i < count; ++i) {
    absl::StrAppend(&out, i == 0 ? "" : ", ", name, first + i);
  }
  return out + "}";
}

// 32 rows of 16 bytes: lane l writes row l from w0 to w3.
constexpr char kFillRows[] =
    "shl.b32 t0, lane, 4; add.u32 t0, base, t0;\n"
    "st.shared.v4.b32 [t0], {w0, w1, w2, w3};\n"
    "bar.warp.sync -1;\n";
// Lane l addresses row (5 l + 3) % 32.
constexpr char kAddressRow[] =
    "mad.lo.u32 t1, lane, 5, 3; and.b32 t1, t1, 31; shl.b32 t1, t1, 4;\n"
    "add.u32 t1, base, t1;\n";
int AddressedRow(int lane) { return (5 * lane + 3) % 32; }

// Where byte `byte` of register `r` of a lane lies: row (of the instruction)
// and column, in bytes.
using Place =
    std::function<void(int r, int lane, int byte, int* row, int* column)>;

void InRows(int r, int lane, int byte, int* row, int* column) {
  *row = 8 * r + lane / 4;
  *column = lane % 4 * 4 + byte;
}
void InColumns16(int r, int lane, int byte, int* row, int* column) {
  *row = 8 * r + lane % 4 * 2 + byte / 2;
  *column = lane / 4 * 2 + byte % 2;
}
// As the copy traits of CUTLASS put it.
void InColumns8(int r, int lane, int byte, int* row, int* column) {
  *row = 8 * r + lane % 4 * 2 + byte % 2;
  *column = lane / 4 + byte / 2 * 8;
}
void InColumns8x16(int r, int lane, int byte, int* row, int* column) {
  *row = 16 * (r / 2) + lane % 4 * 4 + r % 2 * 2 + byte % 2;
  *column = lane / 4 + byte / 2 * 8;
}

uint32_t ByteOf(const std::vector<uint32_t>& words, int inputs, int row,
                int column) {
  return words[row * inputs + column / 4] >> 8 * (column % 4) & 0xff;
}

// bits: of an element in memory.
InstructionCase LoadCase(const std::string& opcode, int registers, int bits,
                         Place place, int min_arch, std::vector<int> only) {
  InstructionCase c;
  c.name = opcode;
  c.min_arch = min_arch;
  c.only = std::move(only);
  c.inputs = 4;
  c.outputs = registers;
  c.text = absl::StrCat(kFillRows, kAddressRow, opcode, " ",
                        Registers("d", 0, registers), ", [t1];");
  c.generate = RandomWords;
  c.reference = [=](const std::vector<uint32_t>& words, CaseResult& result) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int r = 0; r < registers; ++r) {
        for (int byte = 0; byte < 4; ++byte) {
          int row = 0, column = 0;
          place(r, lane, byte, &row, &column);
          const int at = AddressedRow(row);
          uint32_t value = 0;
          if (bits >= 8) {
            value = ByteOf(words, 4, at, column);
          } else {
            // Element `column` of the row's packed elements, bit by bit.
            for (int b = 0; b < bits; ++b) {
              const int bit = column * bits + b;
              value |= (ByteOf(words, 4, at, bit / 8) >> bit % 8 & 1) << b;
            }
          }
          result.words[lane * registers + r] |= value << 8 * byte;
        }
      }
    }
  };
  return c;
}

InstructionCase StoreCase(const std::string& opcode, int registers, Place place,
                          int min_arch, std::vector<int> only) {
  InstructionCase c;
  c.name = opcode;
  c.min_arch = min_arch;
  c.only = std::move(only);
  c.inputs = 4 + registers;
  c.outputs = 4;
  c.text = absl::StrCat(kFillRows, kAddressRow, opcode, " [t1], ",
                        Registers("w", 4, registers),
                        ";\nbar.warp.sync -1;\n"
                        "ld.shared.v4.b32 {d0, d1, d2, d3}, [t0];");
  c.generate = RandomWords;
  const int inputs = c.inputs;
  c.reference = [=](const std::vector<uint32_t>& words, CaseResult& result) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int i = 0; i < 4; ++i) {
        result.words[lane * 4 + i] = words[lane * inputs + i];
      }
    }
    for (int lane = 0; lane < 32; ++lane) {
      for (int r = 0; r < registers; ++r) {
        for (int byte = 0; byte < 4; ++byte) {
          int row = 0, column = 0;
          place(r, lane, byte, &row, &column);
          uint32_t& word = result.words[AddressedRow(row) * 4 + column / 4];
          const int shift = 8 * (column % 4);
          const uint32_t value =
              words[lane * inputs + 4 + r] >> 8 * byte & 0xff;
          word = (word & ~(0xffu << shift)) | value << shift;
        }
      }
    }
  };
  return c;
}

}  // namespace

void AddMatrixMoveCases(std::vector<InstructionCase>* out) {
  const std::vector<int> blackwell = {100, 120};
  for (const int n : {1, 2, 4}) {
    const std::string count = absl::StrCat(".x", n);
    out->push_back(LoadCase(
        absl::StrCat("ldmatrix.sync.aligned.m8n8", count, ".shared.b16"), n, 8,
        InRows, 75, {}));
    out->push_back(LoadCase(
        absl::StrCat("ldmatrix.sync.aligned.m8n8", count, ".trans.shared.b16"),
        n, 8, InColumns16, 75, {}));
    out->push_back(StoreCase(
        absl::StrCat("stmatrix.sync.aligned.m8n8", count, ".shared.b16"), n,
        InRows, 90, {}));
    out->push_back(StoreCase(
        absl::StrCat("stmatrix.sync.aligned.m8n8", count, ".trans.shared.b16"),
        n, InColumns16, 90, {}));
    out->push_back(StoreCase(
        absl::StrCat("stmatrix.sync.aligned.m16n8", count, ".trans.shared.b8"),
        n, InColumns8, 100, blackwell));
    for (const int bits : {6, 4}) {
      const std::string format =
          bits == 6 ? ".b8x16.b6x16_p32" : ".b8x16.b4x16_p64";
      out->push_back(LoadCase(
          absl::StrCat("ldmatrix.sync.aligned.m8n16", count, ".shared", format),
          n, bits, InRows, 100, blackwell));
      if (n == 4) continue;
      out->push_back(LoadCase(absl::StrCat("ldmatrix.sync.aligned.m16n16",
                                           count, ".trans.shared", format),
                              2 * n, bits, InColumns8x16, 100, blackwell));
    }
    if (n == 4) continue;
    out->push_back(LoadCase(
        absl::StrCat("ldmatrix.sync.aligned.m16n16", count, ".trans.shared.b8"),
        2 * n, 8, InColumns8x16, 100, blackwell));
  }
  InstructionCase c;
  c.name = "movmatrix.sync.aligned.m8n8.trans.b16";
  c.text = c.name + " d0, w0;";
  c.generate = RandomWords;
  c.reference = [](const std::vector<uint32_t>& words, CaseResult& result) {
    for (int lane = 0; lane < 32; ++lane) {
      for (int half = 0; half < 2; ++half) {
        // Element (row, column) of the result is (column, row) of the source.
        const int row = lane / 4, column = lane % 4 * 2 + half;
        const uint32_t from = words[column * 4 + row / 2] >> 16 * (row % 2);
        result.words[lane] |= (from & 0xffff) << 16 * half;
      }
    }
  };
  out->push_back(c);
}

}  // namespace hone::emulator
