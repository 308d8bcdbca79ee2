#include "tuner/trial.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "kernels/config/fields.h"
#include "kernels/config/sha256.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

// No batch is larger; keeps sums of M far from overflow.
constexpr int64_t kMaxM = int64_t{1} << 40;

using Names = std::vector<absl::string_view>;

const Names& Outcomes() {
  static const auto* names = new Names{
      "measured",     "compile_error",     "compile_timeout", "launch_error",
      "wrong_result", "guard_overwritten", "not_repeatable",  "fault",
      "timeout",      "screened_out",      "compiler_crash",  "out_of_memory",
      "interrupted"};
  return *names;
}
const Names& Gates() {
  static const auto* names = new Names{"none", "device", "emulated"};
  return *names;
}

absl::StatusOr<size_t> IndexOf(const Names& names, absl::string_view what,
                               absl::string_view text) {
  const auto it = std::find(names.begin(), names.end(), text);
  if (it == names.end()) {
    return absl::InvalidArgumentError(absl::StrCat(what, " is \"", text,
                                                   "\"; it must be one of ",
                                                   absl::StrJoin(names, ", ")));
  }
  return static_cast<size_t>(it - names.begin());
}

Field<Protocol> WordField(absl::string_view key, std::string Protocol::*member,
                          Names legal) {
  return {key, [member](const Protocol& p) { return p.*member; },
          [member, legal](absl::string_view text, Protocol& p) -> absl::Status {
            if (std::find(legal.begin(), legal.end(), text) == legal.end()) {
              return absl::InvalidArgumentError(
                  absl::StrCat("must be one of ", absl::StrJoin(legal, ", ")));
            }
            p.*member = std::string(text);
            return absl::OkStatus();
          }};
}

const std::vector<Field<Protocol>>& ProtocolFields() {
  static const auto* fields = new std::vector<Field<Protocol>>{
      WordField("timer", &Protocol::timer, {"cupti", "model"}),
      IntField("flush_l2_multiple", &Protocol::flush_l2_multiple),
      WordField("activations", &Protocol::activations, {"cold", "warm"}),
      IntField("version", &Protocol::version),
  };
  return *fields;
}

std::string RangeText(const TableEntry& entry) {
  return absl::StrCat("[", entry.m_lo, ", ",
                      entry.m_hi == 0 ? "∞" : absl::StrCat(entry.m_hi), "]");
}

}  // namespace

absl::string_view ToString(Outcome outcome) {
  return Outcomes()[static_cast<size_t>(outcome)];
}
absl::StatusOr<Outcome> ParseOutcome(absl::string_view text) {
  HONE_ASSIGN_OR_RETURN(const size_t index,
                        IndexOf(Outcomes(), "outcome", text));
  return static_cast<Outcome>(index);
}

bool IsCircumstance(Outcome outcome) {
  return outcome == Outcome::kOutOfMemory || outcome == Outcome::kInterrupted;
}

absl::string_view ToString(GateKind gate) {
  return Gates()[static_cast<size_t>(gate)];
}
absl::StatusOr<GateKind> ParseGateKind(absl::string_view text) {
  HONE_ASSIGN_OR_RETURN(const size_t index, IndexOf(Gates(), "gate", text));
  return static_cast<GateKind>(index);
}

std::string Protocol::ToString() const {
  return PrintFields(ProtocolFields(), *this);
}
std::string Protocol::Hash() const { return Sha256Hex(ToString()); }
absl::StatusOr<Protocol> Protocol::Parse(absl::string_view text) {
  return ParseFields(ProtocolFields(), "protocol", text);
}

const TableEntry* DispatchTable::Find(int64_t m) const {
  // The last entry that starts at or before m.
  const auto after = std::upper_bound(
      entries.begin(), entries.end(), m,
      [](int64_t value, const TableEntry& e) { return value < e.m_lo; });
  if (after == entries.begin()) {
    return entries.empty() ? nullptr : &entries.front();
  }
  return &*(after - 1);
}

absl::Status DispatchTable::Validate() const {
  if (entries.empty()) {
    return absl::FailedPreconditionError("table has no entries");
  }
  int64_t next = 1;
  for (size_t i = 0; i < entries.size(); ++i) {
    const TableEntry& entry = entries[i];
    if (i > 0 && next == 0) {
      return absl::FailedPreconditionError(
          absl::StrCat("table entry ", i, ", ", RangeText(entry),
                       ", follows one without end"));
    }
    if (entry.m_lo != next) {
      return absl::FailedPreconditionError(absl::StrCat(
          "table entry ", i, ", ", RangeText(entry), ", must start at M = ",
          next, entry.m_lo > next ? " (hole)" : " (overlap)"));
    }
    if (entry.m_hi > kMaxM) {
      return absl::FailedPreconditionError(
          absl::StrCat("table entry ", i, ", ", RangeText(entry),
                       ", ends past the largest M, ", kMaxM));
    }
    if (entry.m_hi != 0 && entry.m_hi < entry.m_lo) {
      return absl::FailedPreconditionError(
          absl::StrCat("table entry ", i, ", ", RangeText(entry),
                       ", ends before it starts"));
    }
    int64_t last = 0;
    for (const Evidence& evidence : entry.evidence) {
      if (evidence.m <= last || evidence.m < entry.m_lo ||
          (entry.m_hi != 0 && evidence.m > entry.m_hi)) {
        return absl::FailedPreconditionError(absl::StrCat(
            "table entry ", i, ", ", RangeText(entry), ": evidence at M = ",
            evidence.m, " must lie in the range and rise"));
      }
      last = evidence.m;
    }
    next = entry.m_hi == 0 ? 0 : entry.m_hi + 1;
  }
  if (next != 0) {
    return absl::FailedPreconditionError(absl::StrCat(
        "table ends at M = ", next - 1, "; the last entry must have no end"));
  }
  return absl::OkStatus();
}

std::vector<int64_t> DefaultLadder() {
  return {1,   2,   4,   8,   16,   24,   32,   48,   64,   96,   128, 192,
          256, 384, 512, 768, 1024, 1536, 2048, 3072, 4096, 6144, 8192};
}

}  // namespace hone
