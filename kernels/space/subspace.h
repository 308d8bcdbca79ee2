// A part of a space, declared by which values some fields of a config may have.
#ifndef HONE_KERNELS_SPACE_SUBSPACE_H_
#define HONE_KERNELS_SPACE_SUBSPACE_H_

#include <map>
#include <set>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "kernels/config/problem.h"

namespace hone {

// A value; const functions are thread-safe. The default one holds everything.
class Subspace {
 public:
  // "block_m=16|32|64,mma=wgmma": fields of a Tuning Config, each with the
  // values it may have, in any order; "" holds everything. InvalidArgument
  // names the field and what is legal.
  static absl::StatusOr<Subspace> Parse(absl::string_view text);

  bool Contains(const TuningConfig& config) const;
  // Canonical: fields and values in rising order.
  std::string ToString() const;

  friend bool operator==(const Subspace&, const Subspace&) = default;

 private:
  // By field, values as a config's text has them.
  std::map<std::string, std::set<std::string>> values_;
};

}  // namespace hone

#endif  // HONE_KERNELS_SPACE_SUBSPACE_H_
