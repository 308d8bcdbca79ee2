#include "db/json.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

constexpr absl::string_view kHex = "0123456789abcdef";

void Write(Json& json, std::string& out) {
  std::visit(
      [&out](auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, bool>) {
          out.append(value ? "true" : "false");
        } else if constexpr (std::is_same_v<T, int64_t>) {
          absl::StrAppend(&out, value);
        } else if constexpr (std::is_same_v<T, double>) {
          out.append(DoubleText(value));
        } else if constexpr (std::is_same_v<T, std::string>) {
          AppendJsonString(value, out);
        } else if constexpr (std::is_same_v<T, JsonArray>) {
          out.push_back('[');
          for (size_t i = 0; i < value.size(); ++i) {
            if (i > 0) out.push_back(',');
            Write(value[i], out);
          }
          out.push_back(']');
        } else {
          std::sort(
              value.begin(), value.end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
          out.push_back('{');
          for (size_t i = 0; i < value.size(); ++i) {
            if (i > 0) out.push_back(',');
            AppendJsonString(value[i].first, out);
            out.push_back(':');
            Write(value[i].second, out);
          }
          out.push_back('}');
        }
      },
      json.value);
}

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<Json> Parse() {
    if (!IsUtf8(text_)) {
      return absl::InvalidArgumentError("the line is not UTF-8");
    }
    Json json;
    HONE_RETURN_IF_ERROR(Value(0, json));
    if (at_ != text_.size()) return Expected("the end of the line");
    return json;
  }

 private:
  absl::Status Expected(absl::string_view what) const {
    return absl::InvalidArgumentError(
        absl::StrCat("byte ", at_ + 1, ": expected ", what));
  }
  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool Take(absl::string_view token) {
    if (text_.substr(at_, token.size()) != token) return false;
    at_ += token.size();
    return true;
  }

  absl::Status Value(int depth, Json& json) {
    if (depth > kMaxJsonDepth) {
      return Expected(
          absl::StrCat("at most ", kMaxJsonDepth, " levels of nesting"));
    }
    switch (Peek()) {
      case '{':
        return Object(depth, json.value.emplace<JsonObject>());
      case '[':
        return Array(depth, json.value.emplace<JsonArray>());
      case '"':
        return String(json.value.emplace<std::string>());
      case 't':
        json.value = true;
        return Take("true") ? absl::OkStatus() : Expected("true");
      case 'f':
        json.value = false;
        return Take("false") ? absl::OkStatus() : Expected("false");
      default:
        return Number(json);
    }
  }

  absl::Status Object(int depth, JsonObject& object) {
    Take("{");
    if (Take("}")) return absl::OkStatus();
    do {
      std::pair<std::string, Json> member;
      if (Peek() != '"') return Expected("a key");
      HONE_RETURN_IF_ERROR(String(member.first));
      if (!object.empty() && member.first <= object.back().first) {
        return absl::InvalidArgumentError(
            absl::StrCat("byte ", at_, ": key \"", member.first,
                         "\" must come after \"", object.back().first, "\""));
      }
      if (!Take(":")) return Expected("':'");
      HONE_RETURN_IF_ERROR(Value(depth + 1, member.second));
      object.push_back(std::move(member));
    } while (Take(","));
    return Take("}") ? absl::OkStatus() : Expected("',' or '}'");
  }

  absl::Status Array(int depth, JsonArray& array) {
    Take("[");
    if (Take("]")) return absl::OkStatus();
    do {
      HONE_RETURN_IF_ERROR(Value(depth + 1, array.emplace_back()));
    } while (Take(","));
    return Take("]") ? absl::OkStatus() : Expected("',' or ']'");
  }

  absl::Status String(std::string& out) {
    Take("\"");
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) < 0x20) break;
      ++at_;
      if (c == '"') return absl::OkStatus();
      if (c != '\\') {
        out.push_back(c);
        continue;
      }
      if (Take("\"")) {
        out.push_back('"');
      } else if (Take("\\")) {
        out.push_back('\\');
      } else if (Take("n")) {
        out.push_back('\n');
      } else if (Take("t")) {
        out.push_back('\t');
      } else if (!ControlEscape(out)) {
        return Expected("one of the escapes \\\" \\\\ \\n \\t \\u00xx");
      }
    }
    return Expected("the rest of a string");
  }

  // \u0000 to \u001f; everything else is written as itself.
  bool ControlEscape(std::string& out) {
    const absl::string_view digits = text_.substr(at_, 5);
    if (digits.size() != 5 || digits.substr(0, 3) != "u00" ||
        (digits[3] != '0' && digits[3] != '1')) {
      return false;
    }
    const size_t low = kHex.find(digits[4]);
    if (low == kHex.npos) return false;
    out.push_back(
        static_cast<char>((digits[3] - '0') * 16 + static_cast<int>(low)));
    at_ += digits.size();
    return true;
  }

  absl::Status Number(Json& json) {
    const absl::string_view rest = text_.substr(at_);
    const size_t size =
        std::min(rest.find_first_not_of("+-.0123456789e"), rest.size());
    const char* const begin = rest.data();
    const char* const end = begin + size;
    int64_t integer = 0;
    double real = 0;
    // Written back, a canonical number gives its own text. Past int64 and for
    // -0 that is a double's.
    if (const auto [last, error] = std::from_chars(begin, end, integer);
        error == std::errc() && last == end &&
        absl::StrCat(integer) == rest.substr(0, size)) {
      json.value = integer;
    } else if (const auto [tail, failure] = std::from_chars(begin, end, real);
               failure == std::errc() && tail == end && std::isfinite(real) &&
               DoubleText(real) == rest.substr(0, size)) {
      json.value = real;
    } else {
      return Expected("a value, numbers in their shortest form");
    }
    at_ += size;
    return absl::OkStatus();
  }

  const absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace

Json::Json() = default;
Json::Json(bool value) : value(value) {}
Json::Json(int64_t value) : value(value) {}
Json::Json(double value) : value(value) {}
Json::Json(std::string value) : value(std::move(value)) {}
Json::Json(JsonArray value) : value(std::move(value)) {}
Json::Json(JsonObject value) : value(std::move(value)) {}
Json::Json(const Json&) = default;
Json::Json(Json&&) noexcept = default;
Json& Json::operator=(const Json&) = default;
Json& Json::operator=(Json&&) noexcept = default;
Json::~Json() = default;

std::string WriteJson(Json json) {
  std::string out;
  Write(json, out);
  return out;
}

absl::StatusOr<Json> ReadJson(absl::string_view line) {
  return Parser(line).Parse();
}

void AppendJsonString(absl::string_view text, std::string& out) {
  out.push_back('"');
  for (const char c : text) {
    switch (c) {
      case '"':
        out.append("\\\"");
        break;
      case '\\':
        out.append("\\\\");
        break;
      case '\n':
        out.append("\\n");
        break;
      case '\t':
        out.append("\\t");
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          out.append("\\u00");
          out.push_back(kHex[static_cast<size_t>(c) >> 4]);
          out.push_back(kHex[static_cast<size_t>(c) & 15]);
        } else {
          out.push_back(c);
        }
    }
  }
  out.push_back('"');
}

std::string DoubleText(double value) {
  char buffer[32];
  const auto result = std::to_chars(buffer, buffer + sizeof(buffer), value);
  return std::string(buffer, result.ptr);
}

bool IsUtf8(absl::string_view text) {
  size_t i = 0;
  while (i < text.size()) {
    const auto lead = static_cast<unsigned char>(text[i]);
    const size_t size = lead < 0x80           ? 1
                        : (lead >> 5) == 0x6  ? 2
                        : (lead >> 4) == 0xE  ? 3
                        : (lead >> 3) == 0x1E ? 4
                                              : 0;
    if (size == 0 || i + size > text.size()) return false;
    uint32_t code = size == 1 ? lead : lead & (0x7Fu >> size);
    for (size_t j = 1; j < size; ++j) {
      const auto next = static_cast<unsigned char>(text[i + j]);
      if ((next >> 6) != 0x2) return false;
      code = code << 6 | (next & 0x3Fu);
    }
    constexpr uint32_t kLeast[] = {0, 0, 0x80, 0x800, 0x10000};
    if (code < kLeast[size] || code > 0x10FFFF ||
        (code >= 0xD800 && code <= 0xDFFF)) {
      return false;
    }
    i += size;
  }
  return true;
}

// ---- JsonFields ----

absl::StatusOr<JsonFields> JsonFields::Of(const Json& json, std::string path) {
  const auto* object = std::get_if<JsonObject>(&json.value);
  if (object != nullptr) return JsonFields(object, std::move(path));
  if (!path.empty()) path.pop_back();
  return absl::InvalidArgumentError(
      absl::StrCat(path.empty() ? "the line" : path, " must be an object"));
}

std::string JsonFields::PathOf(absl::string_view key) const {
  return absl::StrCat(path_, key);
}

absl::Status JsonFields::Mistyped(absl::string_view key,
                                  absl::string_view type) const {
  return absl::InvalidArgumentError(
      absl::StrCat(PathOf(key), " must be ", type));
}

bool JsonFields::Has(absl::string_view key) const {
  return std::any_of(object_->begin(), object_->end(),
                     [&](const auto& field) { return field.first == key; });
}

absl::StatusOr<const Json*> JsonFields::Any(absl::string_view key) {
  for (size_t i = 0; i < object_->size(); ++i) {
    if ((*object_)[i].first != key) continue;
    taken_[i] = true;
    return &(*object_)[i].second;
  }
  return absl::InvalidArgumentError(absl::StrCat(PathOf(key), " is missing"));
}

absl::Status JsonFields::Get(absl::string_view key, bool& value) {
  HONE_ASSIGN_OR_RETURN(const Json* json, Any(key));
  const bool* found = std::get_if<bool>(&json->value);
  if (found == nullptr) return Mistyped(key, "true or false");
  value = *found;
  return absl::OkStatus();
}

absl::Status JsonFields::Get(absl::string_view key, int64_t& value) {
  HONE_ASSIGN_OR_RETURN(const Json* json, Any(key));
  const int64_t* found = std::get_if<int64_t>(&json->value);
  if (found == nullptr) return Mistyped(key, "an integer");
  value = *found;
  return absl::OkStatus();
}

absl::Status JsonFields::Get(absl::string_view key, double& value) {
  HONE_ASSIGN_OR_RETURN(const Json* json, Any(key));
  // A number without a fraction is written like an integer.
  if (const int64_t* integer = std::get_if<int64_t>(&json->value)) {
    value = static_cast<double>(*integer);
    return absl::OkStatus();
  }
  const double* found = std::get_if<double>(&json->value);
  if (found == nullptr) return Mistyped(key, "a number");
  value = *found;
  return absl::OkStatus();
}

absl::Status JsonFields::Get(absl::string_view key, std::string& value) {
  HONE_ASSIGN_OR_RETURN(const Json* json, Any(key));
  const std::string* found = std::get_if<std::string>(&json->value);
  if (found == nullptr) return Mistyped(key, "a string");
  value = *found;
  return absl::OkStatus();
}

absl::StatusOr<const JsonArray*> JsonFields::Array(absl::string_view key) {
  HONE_ASSIGN_OR_RETURN(const Json* json, Any(key));
  const JsonArray* found = std::get_if<JsonArray>(&json->value);
  if (found == nullptr) return Mistyped(key, "an array");
  return found;
}

absl::Status JsonFields::Finish() const {
  for (size_t i = 0; i < object_->size(); ++i) {
    if (taken_[i]) continue;
    return absl::InvalidArgumentError(
        absl::StrCat(PathOf((*object_)[i].first), " is not a known field"));
  }
  return absl::OkStatus();
}

}  // namespace hone
