#include <algorithm>
#include <bit>
#include <cstring>
#include <tuple>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "kernels/config/status_macros.h"
#include "kernels/emulator/ptx_ast.h"

namespace hone::emulator {
namespace {

bool IsNameChar(char c) {
  return absl::ascii_isalnum(c) || c == '_' || c == '$';
}

uint32_t TypeBytes(absl::string_view type) {
  if (type == "pred") return 4;
  if (type == "f16x2" || type == "bf16x2") return 4;
  if (type == "bf16") return 2;
  const size_t digits = type.find_first_of("0123456789");
  uint32_t bits = 0;
  if (digits == absl::string_view::npos ||
      !absl::SimpleAtoi(type.substr(digits), &bits)) {
    return 0;
  }
  return bits / 8;
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<PtxModule> Parse() {
    while (true) {
      SkipSpace();
      if (at_ == text_.size()) break;
      HONE_RETURN_IF_ERROR(ParseModuleItem());
    }
    return std::move(module_);
  }

 private:
  // --- characters -----------------------------------------------------------
  void SkipSpace() {
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (c == '\n') {
        ++line_;
        ++at_;
      } else if (absl::ascii_isspace(c)) {
        ++at_;
      } else if (absl::StartsWith(text_.substr(at_), "//")) {
        const size_t end = text_.find('\n', at_);
        at_ = end == absl::string_view::npos ? text_.size() : end;
      } else if (absl::StartsWith(text_.substr(at_), "/*")) {
        const size_t end = text_.find("*/", at_);
        const size_t stop =
            end == absl::string_view::npos ? text_.size() : end + 2;
        line_ += std::count(text_.begin() + at_, text_.begin() + stop, '\n');
        at_ = stop;
      } else {
        break;
      }
    }
  }
  char Peek() {
    SkipSpace();
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool Take(char c) {
    if (Peek() != c) return false;
    ++at_;
    return true;
  }
  absl::Status Expect(char c) {
    if (Take(c)) return absl::OkStatus();
    return Error(absl::StrCat("expected '", std::string(1, c), "'"));
  }
  absl::Status Error(absl::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "PTX line ", line_, ": ", what, " at \"",
        text_.substr(at_, std::min<size_t>(text_.find('\n', at_) - at_, 60)),
        "\""));
  }
  template <typename Predicate>
  absl::string_view TakeWhile(Predicate predicate) {
    const size_t begin = at_;
    while (at_ < text_.size() && predicate(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  // A word with dots: an opcode or a directive.
  absl::string_view TakeWord() {
    SkipSpace();
    return TakeWhile(
        [](char c) { return IsNameChar(c) || c == '.' || c == ':'; });
  }
  // A name; special registers keep their ".x".
  absl::string_view TakeName() {
    SkipSpace();
    const bool special = at_ < text_.size() && text_[at_] == '%';
    return TakeWhile([special](char c) {
      return IsNameChar(c) || c == '%' || (special && c == '.');
    });
  }
  absl::StatusOr<uint64_t> TakeUnsigned() {
    SkipSpace();
    absl::string_view digits =
        TakeWhile([](char c) { return absl::ascii_isalnum(c); });
    if (!digits.empty() && (digits.back() == 'U' || digits.back() == 'u')) {
      digits.remove_suffix(1);
    }
    uint64_t value = 0;
    const bool hex =
        absl::StartsWith(digits, "0x") || absl::StartsWith(digits, "0X");
    const bool ok = hex ? absl::SimpleHexAtoi(digits, &value)
                        : absl::SimpleAtoi(digits, &value);
    if (!ok) return Error(absl::StrCat("bad number ", digits));
    return value;
  }

  // --- module ---------------------------------------------------------------
  absl::Status ParseModuleItem() {
    const absl::string_view word = TakeWord();
    if (word == ".version") {
      TakeWord();
      return absl::OkStatus();
    }
    if (word == ".address_size") {
      HONE_ASSIGN_OR_RETURN(const uint64_t bits, TakeUnsigned());
      if (bits != 64) return Error("only 64-bit addresses are supported");
      return absl::OkStatus();
    }
    if (word == ".target") {
      module_.target = TakeWord();
      while (Take(',')) TakeWord();
      return absl::OkStatus();
    }
    if (word == ".file") return ParseFile();
    if (word == ".section") {
      TakeWord();
      HONE_RETURN_IF_ERROR(Expect('{'));
      while (at_ < text_.size() && Peek() != '}') ++at_;
      return Expect('}');
    }
    if (word == ".visible" || word == ".weak" || word == ".common") {
      return absl::OkStatus();
    }
    if (word == ".extern") {
      extern_ = true;
      return absl::OkStatus();
    }
    if (word == ".entry") return ParseEntry();
    if (word == ".func") {
      return absl::UnimplementedError(absl::StrCat(
          "PTX line ", line_,
          ": device functions are not emulated; kernels must inline them"));
    }
    if (word == ".shared" || word == ".const" || word == ".global") {
      return ParseVariable(word.substr(1), &module_.variables);
    }
    return Error(absl::StrCat("unknown directive \"", word, "\""));
  }

  absl::Status ParseFile() {
    HONE_ASSIGN_OR_RETURN(const uint64_t index, TakeUnsigned());
    HONE_RETURN_IF_ERROR(Expect('"'));
    const size_t end = text_.find('"', at_);
    if (end == absl::string_view::npos) return Error("unterminated string");
    module_.files[index] = std::string(text_.substr(at_, end - at_));
    at_ = end + 1;
    while (Take(',')) {
      HONE_RETURN_IF_ERROR(TakeUnsigned().status());
    }
    return absl::OkStatus();
  }

  absl::Status ParseVariable(absl::string_view space,
                             std::vector<Variable>* out) {
    Variable variable;
    variable.space = space;
    variable.is_extern = std::exchange(extern_, false);
    while (Peek() == '.') {
      const absl::string_view word = TakeWord();
      if (word == ".align") {
        HONE_ASSIGN_OR_RETURN(variable.alignment, TakeUnsigned());
      } else if (word == ".ptr" || word == ".global" || word == ".shared" ||
                 word == ".const" || word == ".local" || word == ".attribute") {
        // Facts about what a parameter points to; the bindings say more.
        if (word == ".attribute") {
          return absl::UnimplementedError(
              absl::StrCat("PTX line ", line_, ": .attribute"));
        }
        if (word == ".ptr") pointee_ = true;
      } else {
        variable.element_bytes = TypeBytes(word.substr(1));
        if (variable.element_bytes == 0) {
          return Error(absl::StrCat("unknown type ", word));
        }
      }
    }
    // The alignment after .ptr is the pointee's.
    if (std::exchange(pointee_, false)) variable.alignment = 0;
    if (variable.alignment == 0) variable.alignment = variable.element_bytes;
    variable.name = TakeName();
    variable.bytes = variable.element_bytes;
    while (Take('[')) {
      uint64_t count = 0;
      if (Peek() != ']') {
        HONE_ASSIGN_OR_RETURN(count, TakeUnsigned());
      }
      variable.bytes *= count;
      HONE_RETURN_IF_ERROR(Expect(']'));
    }
    if (Take('=')) {
      HONE_RETURN_IF_ERROR(ParseInitializer(&variable));
    }
    out->push_back(std::move(variable));
    if (space == "param") return absl::OkStatus();
    return Expect(';');
  }

  absl::Status ParseInitializer(Variable* variable) {
    int depth = 0;
    do {
      while (Take('{')) ++depth;
      if (Peek() != '}') {
        HONE_ASSIGN_OR_RETURN(const Operand value, ParseOperand());
        uint64_t bits = value.bits;
        if (value.kind == Operand::Kind::kName) {
          return absl::UnimplementedError(
              absl::StrCat("PTX line ", line_,
                           ": initializers with addresses are not emulated"));
        }
        for (uint32_t i = 0; i < variable->element_bytes; ++i, bits >>= 8) {
          variable->initializer.push_back(static_cast<uint8_t>(bits));
        }
      }
      while (depth > 0 && Take('}')) --depth;
    } while (Take(','));
    if (depth != 0) return Error("unbalanced initializer");
    variable->bytes =
        std::max<uint64_t>(variable->bytes, variable->initializer.size());
    return absl::OkStatus();
  }

  // --- functions ------------------------------------------------------------
  absl::Status ParseEntry() {
    extern_ = false;
    Function function;
    function.name = TakeName();
    if (Take('(') && !Take(')')) {
      do {
        const absl::string_view word = TakeWord();
        if (word != ".param") return Error("expected .param");
        HONE_RETURN_IF_ERROR(ParseVariable("param", &function.params));
      } while (Take(','));
      HONE_RETURN_IF_ERROR(Expect(')'));
    }
    while (Peek() == '.') {
      const absl::string_view word = TakeWord();
      std::vector<uint64_t> values;
      if (absl::ascii_isdigit(Peek())) {
        do {
          HONE_ASSIGN_OR_RETURN(const uint64_t value, TakeUnsigned());
          values.push_back(value);
        } while (Take(','));
      }
      if (word == ".maxntid") {
        function.max_threads = 1;
        for (uint64_t value : values) function.max_threads *= value;
      } else if (word == ".reqntid") {
        values.resize(3, 1);
        std::copy(values.begin(), values.end(), function.required_threads);
      } else if (word == ".reqnctapercluster") {
        values.resize(3, 1);
        std::copy(values.begin(), values.end(), function.required_cluster);
      } else if (word == ".maxclusterrank" && values.size() == 1) {
        function.max_cluster = values[0];
      } else if (word == ".maxnreg" && values.size() == 1) {
        function.max_registers = values[0];
      } else if (word == ".minnctapersm" && values.size() == 1) {
        function.min_ctas = values[0];
      } else if (word == ".pragma") {
        HONE_RETURN_IF_ERROR(SkipStatement());
      } else if (word != ".explicitcluster") {
        return Error(absl::StrCat("unknown directive \"", word, "\""));
      }
    }
    HONE_RETURN_IF_ERROR(Expect('{'));
    function.scopes.emplace_back();
    location_ = 0;
    recent_.clear();
    HONE_RETURN_IF_ERROR(ParseBlock(&function, 0));
    module_.functions.push_back(std::move(function));
    return absl::OkStatus();
  }

  absl::Status SkipStatement() {
    while (at_ < text_.size() && Peek() != ';') ++at_;
    return Expect(';');
  }

  absl::Status ParseBlock(Function* function, uint32_t scope) {
    while (true) {
      const char c = Peek();
      if (c == '\0') return Error("unterminated block");
      if (Take('}')) return absl::OkStatus();
      if (Take(';')) continue;
      if (Take('{')) {
        const uint32_t child = function->scopes.size();
        function->scopes.emplace_back();
        function->scopes.back().parent = scope;
        HONE_RETURN_IF_ERROR(ParseBlock(function, child));
        continue;
      }
      if (c == '.') {
        HONE_RETURN_IF_ERROR(ParseDirective(function, scope));
        continue;
      }
      HONE_RETURN_IF_ERROR(ParseStatement(function, scope));
    }
  }

  absl::Status ParseDirective(Function* function, uint32_t scope) {
    const absl::string_view word = TakeWord();
    if (word == ".reg") return ParseRegisters(&function->scopes[scope]);
    if (word == ".loc") return ParseLocation();
    if (word == ".file") return ParseFile();
    if (word == ".pragma") return SkipStatement();
    if (word == ".shared" || word == ".local" || word == ".const" ||
        word == ".global") {
      return ParseVariable(word.substr(1), &function->variables);
    }
    return absl::UnimplementedError(
        absl::StrCat("PTX line ", line_, ": directive ", word));
  }

  absl::Status ParseRegisters(Scope* scope) {
    RegisterDeclaration declaration;
    declaration.type = TakeWord().substr(1);
    do {
      const absl::string_view name = TakeName();
      declaration.count = 0;
      if (Take('<')) {
        HONE_ASSIGN_OR_RETURN(declaration.count, TakeUnsigned());
        HONE_RETURN_IF_ERROR(Expect('>'));
      }
      scope->registers[name] = declaration;
    } while (Take(','));
    return Expect(';');
  }

  // .loc file line column [, function_name label, inlined_at file line column]
  absl::Status ParseLocation() {
    SourceLocation location;
    HONE_ASSIGN_OR_RETURN(location.file, TakeUnsigned());
    HONE_ASSIGN_OR_RETURN(location.line, TakeUnsigned());
    HONE_ASSIGN_OR_RETURN(location.column, TakeUnsigned());
    while (Take(',')) {
      const absl::string_view word = TakeName();
      if (word == "function_name") {
        TakeName();
      } else if (word == "inlined_at") {
        SourceLocation caller;
        HONE_ASSIGN_OR_RETURN(caller.file, TakeUnsigned());
        HONE_ASSIGN_OR_RETURN(caller.line, TakeUnsigned());
        HONE_ASSIGN_OR_RETURN(caller.column, TakeUnsigned());
        // The call may itself have been inlined: its own .loc came before.
        const auto it = recent_.find(Key(caller));
        if (it != recent_.end()) {
          location.inlined_at = it->second;
        } else {
          module_.locations.push_back(caller);
          location.inlined_at = module_.locations.size();
        }
      } else {
        return Error("unknown .loc attribute");
      }
    }
    if (location.line == 0) return absl::OkStatus();  // keeps the last line
    module_.locations.push_back(location);
    location_ = module_.locations.size();
    recent_[Key(location)] = location_;
    return absl::OkStatus();
  }

  static std::tuple<uint32_t, uint32_t, uint32_t> Key(
      const SourceLocation& location) {
    return {location.file, location.line, location.column};
  }

  absl::Status ParseStatement(Function* function, uint32_t scope) {
    Statement statement;
    statement.location = location_;
    statement.scope = scope;
    if (Take('@')) {
      statement.guard_negated = Take('!');
      statement.guard = TakeName();
    } else {
      // A label?
      const size_t saved = at_;
      const uint32_t saved_line = line_;
      const absl::string_view name = TakeName();
      if (!name.empty() && Peek() == ':' &&
          !absl::StartsWith(text_.substr(at_), "::")) {
        ++at_;
        if (Peek() == '.') {
          const size_t directive = at_;
          if (TakeWord() == ".branchtargets") {
            std::vector<absl::string_view> targets;
            do {
              targets.push_back(TakeName());
            } while (Take(','));
            function->scopes[scope].branch_targets[name] = std::move(targets);
            return Expect(';');
          }
          at_ = directive;
        }
        function->scopes[scope].labels[name] = function->statements.size();
        return absl::OkStatus();
      }
      at_ = saved;
      line_ = saved_line;
    }
    Peek();
    statement.line = line_;
    statement.opcode = TakeWord();
    if (statement.opcode.empty()) return Error("expected an instruction");
    for (absl::string_view rest = statement.opcode; !rest.empty();) {
      const size_t dot = rest.find('.');
      statement.parts.push_back(rest.substr(0, dot));
      if (dot == absl::string_view::npos) break;
      rest.remove_prefix(dot + 1);
    }
    if (!Take(';')) {
      do {
        HONE_ASSIGN_OR_RETURN(Operand operand, ParseOperand());
        statement.operands.push_back(std::move(operand));
      } while (Take(','));
      HONE_RETURN_IF_ERROR(Expect(';'));
    }
    function->statements.push_back(std::move(statement));
    return absl::OkStatus();
  }

  absl::StatusOr<Operand> ParseOperand() {
    Operand operand;
    const char c = Peek();
    if (Take('{')) {
      operand.kind = Operand::Kind::kVector;
      do {
        HONE_ASSIGN_OR_RETURN(Operand element, ParseOperand());
        operand.elements.push_back(std::move(element));
      } while (Take(','));
      HONE_RETURN_IF_ERROR(Expect('}'));
      return operand;
    }
    if (Take('[')) {
      operand.kind = Operand::Kind::kAddress;
      HONE_ASSIGN_OR_RETURN(Operand base, ParseOperand());
      operand.elements.push_back(std::move(base));
      while (Peek() == '+' || Peek() == '-') {
        const bool minus = !Take('+') && Take('-');
        HONE_ASSIGN_OR_RETURN(const Operand offset, ParseOperand());
        if (offset.kind != Operand::Kind::kInteger) {
          return Error("expected a constant offset");
        }
        const int64_t value = static_cast<int64_t>(offset.bits);
        operand.offset += minus ? -value : value;
      }
      // A tensor map with the coordinates of a box.
      if (Take(',')) {
        HONE_ASSIGN_OR_RETURN(Operand coordinates, ParseOperand());
        operand.elements.push_back(std::move(coordinates));
      }
      HONE_RETURN_IF_ERROR(Expect(']'));
      return operand;
    }
    if (Take('!')) {
      HONE_ASSIGN_OR_RETURN(operand, ParseOperand());
      operand.negated = true;
      return operand;
    }
    if (c == '-' || absl::ascii_isdigit(c)) {
      const bool minus = Take('-');
      if (absl::StartsWith(text_.substr(at_), "0f") ||
          absl::StartsWith(text_.substr(at_), "0F") ||
          absl::StartsWith(text_.substr(at_), "0d") ||
          absl::StartsWith(text_.substr(at_), "0D")) {
        const bool is_double = absl::ascii_tolower(text_[at_ + 1]) == 'd';
        at_ += 2;
        const absl::string_view digits =
            TakeWhile([](char d) { return absl::ascii_isxdigit(d); });
        if (!absl::SimpleHexAtoi(digits, &operand.bits)) {
          return Error("bad floating-point constant");
        }
        operand.kind =
            is_double ? Operand::Kind::kDouble : Operand::Kind::kFloat;
        if (minus) operand.bits ^= uint64_t{1} << (is_double ? 63 : 31);
        return operand;
      }
      HONE_ASSIGN_OR_RETURN(operand.bits, TakeUnsigned());
      operand.kind = Operand::Kind::kInteger;
      if (minus) operand.bits = -operand.bits;
      return operand;
    }
    operand.name = TakeName();
    if (operand.name.empty()) return Error("expected an operand");
    if (Take('|')) {
      Operand pair;
      pair.kind = Operand::Kind::kPair;
      HONE_ASSIGN_OR_RETURN(Operand second, ParseOperand());
      pair.elements.push_back(std::move(operand));
      pair.elements.push_back(std::move(second));
      return pair;
    }
    return operand;
  }

  absl::string_view text_;
  size_t at_ = 0;
  uint32_t line_ = 1;
  bool extern_ = false;
  bool pointee_ = false;
  uint32_t location_ = 0;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t>
      recent_;
  PtxModule module_;
};

}  // namespace

absl::StatusOr<PtxModule> ParsePtx(absl::string_view text) {
  return Parser(text).Parse();
}

}  // namespace hone::emulator
