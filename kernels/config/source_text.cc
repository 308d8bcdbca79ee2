#include "kernels/config/source_text.h"

#include <cstddef>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"

namespace hone {
namespace {

bool IsName(char c) { return absl::ascii_isalnum(c) || c == '_'; }

// Punctuators of several characters, longer ones first.
constexpr absl::string_view kPunctuators[] = {
    "<<=", ">>=", "...", "->*", "<=>", "::", "->", ".*", "++",
    "--",  "<<",  ">>",  "<=",  ">=",  "==", "!=", "&&", "||",
    "+=",  "-=",  "*=",  "/=",  "%=",  "&=", "|=", "^=", "##",
};

class Canonicalizer {
 public:
  explicit Canonicalizer(absl::string_view source) : rest_(source) {}

  std::string Run() {
    for (;;) {
      const bool spaced = SkipSpace();
      if (rest_.empty()) break;
      if (line_start_ && rest_.front() == '#') {
        directive_ = true;
        EndLine();
      } else if (spaced || !directive_) {
        Space();
      }
      line_start_ = false;
      Token();
    }
    if (directive_) EndLine();
    return std::move(out_);
  }

 private:
  void Space() {
    if (!out_.empty() && out_.back() != '\n') out_.push_back(' ');
  }
  void EndLine() {
    if (!out_.empty() && out_.back() != '\n') out_.push_back('\n');
  }

  // Length of a backslash and the end of line after it, at `at`; else 0.
  size_t Splice(size_t at) const {
    const absl::string_view text = rest_.substr(at);
    if (absl::StartsWith(text, "\\\n")) return 2;
    return absl::StartsWith(text, "\\\r\n") ? 3 : 0;
  }

  // Moves past continuations, so that the first character is one of the text.
  void DropSplices() {
    while (const size_t splice = Splice(0)) rest_.remove_prefix(splice);
  }

  // The next character, without continuations in front of it.
  void Take() {
    out_.push_back(rest_.front());
    rest_.remove_prefix(1);
    DropSplices();
  }

  // Whether the text goes on with `token`, continuations within it aside.
  bool At(absl::string_view token) const {
    size_t at = 0;
    for (const char c : token) {
      while (const size_t splice = Splice(at)) at += splice;
      if (at >= rest_.size() || rest_[at] != c) return false;
      ++at;
    }
    return true;
  }

  // White space and comments; whether there were any.
  bool SkipSpace() {
    bool any = false;
    for (;; any = true) {
      DropSplices();
      if (rest_.empty()) return any;
      if (rest_.front() == '\n') {
        if (directive_) EndLine();
        directive_ = false;
        line_start_ = true;
        rest_.remove_prefix(1);
      } else if (absl::ascii_isspace(rest_.front())) {
        rest_.remove_prefix(1);
      } else if (At("//")) {
        while (!rest_.empty() && rest_.front() != '\n') {
          rest_.remove_prefix(1);
          DropSplices();
        }
      } else if (At("/*")) {
        Skip(2);
        while (!rest_.empty() && !At("*/")) Skip(1);
        Skip(2);
      } else {
        return any;
      }
    }
  }

  void Skip(size_t count) {
    for (; count > 0 && !rest_.empty(); --count) {
      rest_.remove_prefix(1);
      DropSplices();
    }
  }

  void Token() {
    const char c = rest_.front();
    if (absl::ascii_isdigit(c) ||
        (c == '.' && rest_.size() > 1 && absl::ascii_isdigit(rest_[1]))) {
      Number();
    } else if (IsName(c)) {
      const size_t start = out_.size();
      while (!rest_.empty() && IsName(rest_.front())) Take();
      const absl::string_view name = absl::string_view(out_).substr(start);
      const bool raw = name == "R" || name == "LR" || name == "uR" ||
                       name == "UR" || name == "u8R";
      // A prefix is part of its literal, which is another token without it.
      const bool prefix =
          name == "L" || name == "u" || name == "U" || name == "u8";
      if (rest_.empty()) return;
      if (raw && rest_.front() == '"') {
        RawString();
      } else if (prefix && (rest_.front() == '"' || rest_.front() == '\'')) {
        Literal();
      }
    } else if (c == '"' || c == '\'') {
      Literal();
    } else {
      for (const absl::string_view punctuator : kPunctuators) {
        if (!At(punctuator)) continue;
        for (size_t i = 0; i < punctuator.size(); ++i) Take();
        return;
      }
      Take();
    }
  }

  void Number() {
    while (!rest_.empty()) {
      const char c = rest_.front();
      if (!IsName(c) && c != '.' && c != '\'') return;
      Take();
      const bool exponent = c == 'e' || c == 'E' || c == 'p' || c == 'P';
      if (exponent && !rest_.empty() &&
          (rest_.front() == '+' || rest_.front() == '-')) {
        Take();
      }
    }
  }

  // To its closing quote, or to the end of the line where there is none.
  void Literal() {
    const char quote = rest_.front();
    Take();
    while (!rest_.empty() && rest_.front() != '\n') {
      const char c = rest_.front();
      Take();
      if (c == quote) return;
      if (c == '\\' && !rest_.empty()) Take();
    }
  }

  // R"delimiter( ... )delimiter", in which backslashes are ordinary.
  void RawString() {
    const size_t open = rest_.find('(');
    size_t end = rest_.size();
    if (open != absl::string_view::npos) {
      std::string close = ")";
      close.append(rest_.substr(1, open - 1).data(), open - 1);
      close.push_back('"');
      const size_t found = rest_.find(close, open);
      if (found != absl::string_view::npos) end = found + close.size();
    }
    out_.append(rest_.data(), end);
    rest_.remove_prefix(end);
  }

  absl::string_view rest_;
  std::string out_;
  bool line_start_ = true;
  bool directive_ = false;
};

}  // namespace

std::string CanonicalSource(absl::string_view source) {
  return Canonicalizer(source).Run();
}

}  // namespace hone
