// Early return on a failed absl::Status, and assignment from an
// absl::StatusOr. Abseil 20220623 has neither macro.
#ifndef HONE_KERNELS_CONFIG_STATUS_MACROS_H_
#define HONE_KERNELS_CONFIG_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#define HONE_RETURN_IF_ERROR(expr)                              \
  do {                                                          \
    if (absl::Status hone_status_ = (expr); !hone_status_.ok()) \
      return hone_status_;                                      \
  } while (false)

#define HONE_CONCAT_INNER_(a, b) a##b
#define HONE_CONCAT_(a, b) HONE_CONCAT_INNER_(a, b)
#define HONE_ASSIGN_OR_RETURN(lhs, expr) \
  HONE_ASSIGN_OR_RETURN_(HONE_CONCAT_(hone_statusor_, __LINE__), lhs, expr)
#define HONE_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                           \
  if (!tmp.ok()) return tmp.status();          \
  lhs = std::move(tmp).value()

#endif  // HONE_KERNELS_CONFIG_STATUS_MACROS_H_
