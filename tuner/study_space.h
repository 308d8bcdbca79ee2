// A space of configs that a caller declares, for kernels that are not Hone's:
// named parameters with finitely many values each, less what is excluded.
#ifndef HONE_TUNER_STUDY_SPACE_H_
#define HONE_TUNER_STUDY_SPACE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "tuner/surrogate.h"

namespace hone {

// Limits, so that a space can be searched whole in a fraction of a second.
inline constexpr size_t kMaxStudyParameters = 16;
inline constexpr size_t kMaxStudyNumbers = 256;  // values of one parameter
inline constexpr size_t kMaxStudyWords = 32;
inline constexpr size_t kMaxStudyConfigs = 16384;  // before exclusions
inline constexpr size_t kMaxStudyExclusions = 64;
// Numbers lie within ± this.
inline constexpr int64_t kMaxStudyNumber = int64_t{1} << 40;

// Values by parameter, as text: {"block": "128", "layout": "row"}.
using StudySettings = std::map<std::string, std::string>;

// One parameter. Exactly one of `numbers` (rising) and `words` (distinct) has
// values: numbers that are near each other are taken to act alike, words are
// not.
struct StudyParameter {
  // A lower-case letter, then lower-case letters, digits and _; at most 64.
  std::string name;
  std::vector<int64_t> numbers;
  // Letters, digits and _ . + -; at most 64 each.
  std::vector<std::string> words;
  friend bool operator==(const StudyParameter&,
                         const StudyParameter&) = default;
};

// Configs that are not to be tried: all those whose every parameter named here
// has one of the values given for it.
using StudyExclusion = std::map<std::string, std::vector<std::string>>;

// An immutable value.
class StudySpace {
 public:
  // InvalidArgument's message starts with the field that is wrong, as in
  // "parameters[1].name is ...; it must be ...".
  static absl::StatusOr<StudySpace> Create(
      std::vector<StudyParameter> parameters,
      const std::vector<StudyExclusion>& exclusions);

  // Configs are numbered from 0, excluded ones left out.
  size_t size() const { return configs_.size(); }
  const std::vector<StudyParameter>& parameters() const { return parameters_; }

  // The number of the config. InvalidArgument names the parameter in `field`,
  // as Create() does, and what is legal.
  absl::StatusOr<size_t> Find(const StudySettings& settings,
                              absl::string_view field) const;
  // By Text(). InvalidArgument when it is none of this space.
  absl::StatusOr<size_t> FindText(absl::string_view text) const;
  StudySettings Settings(size_t config) const;
  // "block=128,layout=row", sorted by name.
  std::string Text(size_t config) const;
  // Numbers by their logarithm where all are positive, else by their distance
  // from the least; two words are half a doubling apart, as the analytic
  // model's surrogate has it for raster orders.
  Position PositionOf(size_t config) const;

 private:
  StudySpace() = default;
  // Which value of each parameter a config has, in mixed radix.
  std::vector<size_t> ValuesOf(size_t config) const;

  std::vector<StudyParameter> parameters_;
  // By rising parameter value, the last parameter fastest.
  std::vector<size_t> configs_;
};

}  // namespace hone

#endif  // HONE_TUNER_STUDY_SPACE_H_
