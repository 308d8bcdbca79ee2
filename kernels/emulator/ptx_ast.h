// PTX text as a syntax tree. Every view points into the text that was parsed.
#ifndef HONE_KERNELS_EMULATOR_PTX_AST_H_
#define HONE_KERNELS_EMULATOR_PTX_AST_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hone::emulator {

// A source position. inlined_at is the index + 1 in PtxModule::locations of
// the call that was inlined, 0 for none.
struct SourceLocation {
  uint32_t file = 0;
  uint32_t line = 0;
  uint32_t column = 0;
  uint32_t inlined_at = 0;
};

struct Operand {
  enum class Kind : uint8_t {
    kName,     // a register, symbol or label
    kInteger,  // bits, sign-extended
    kFloat,    // bits of a float
    kDouble,   // bits of a double
    kAddress,  // [elements[0] + offset], or with a vector [..., elements[1]]
    kVector,   // {elements...}
    kPair,     // elements[0] | elements[1]
  };
  Kind kind = Kind::kName;
  bool negated = false;  // !name
  absl::string_view name;
  uint64_t bits = 0;
  int64_t offset = 0;
  std::vector<Operand> elements;
};

struct Statement {
  absl::string_view opcode;              // with its qualifiers
  std::vector<absl::string_view> parts;  // opcode split at the dots
  std::vector<Operand> operands;
  absl::string_view guard;  // predicate name, or empty
  bool guard_negated = false;
  uint32_t line = 0;      // 1-based line in the text
  uint32_t location = 0;  // index + 1 in locations, 0: none
  uint32_t scope = 0;
};

// A register range `.reg .b32 %r<n>` or a single register (count 0).
struct RegisterDeclaration {
  absl::string_view type;
  uint32_t count = 0;
};

struct Scope {
  uint32_t parent = 0;  // the outermost scope is its own parent
  absl::flat_hash_map<absl::string_view, RegisterDeclaration> registers;
  absl::flat_hash_map<absl::string_view, uint32_t> labels;  // statement index
  // `name: .branchtargets a, b;`
  absl::flat_hash_map<absl::string_view, std::vector<absl::string_view>>
      branch_targets;
};

struct Variable {
  absl::string_view name;
  absl::string_view space;  // "shared", "local", "const", "global", "param"
  uint32_t element_bytes = 0;
  uint64_t bytes = 0;
  uint32_t alignment = 0;
  bool is_extern = false;
  std::vector<uint8_t> initializer;  // padded with zeros up to bytes
};

struct Function {
  absl::string_view name;
  std::vector<Variable> params;
  std::vector<Variable> variables;
  std::vector<Scope> scopes;
  std::vector<Statement> statements;
  uint32_t max_threads = 0;                  // product of .maxntid, 0: none
  uint32_t required_threads[3] = {0, 0, 0};  // .reqntid, 0: none
  uint32_t required_cluster[3] = {0, 0, 0};  // .reqnctapercluster, 0: none
  uint32_t max_cluster = 0;                  // .maxclusterrank, 0: none
  uint32_t max_registers = 0;                // .maxnreg, 0: none
  uint32_t min_ctas = 0;                     // .minnctapersm, 0: none
};

struct PtxModule {
  absl::string_view target;
  std::vector<Variable> variables;
  std::vector<Function> functions;
  std::vector<SourceLocation> locations;
  absl::flat_hash_map<uint32_t, std::string> files;
};

// InvalidArgument with the line for text that does not parse; Unimplemented
// for declarations the emulator has no use for yet.
absl::StatusOr<PtxModule> ParsePtx(absl::string_view text);

}  // namespace hone::emulator

#endif  // HONE_KERNELS_EMULATOR_PTX_AST_H_
