// How values become rows and rows values. Internal to db/.
//
// All functions run inside a transaction of their caller and return its
// database's errors.
#ifndef HONE_DB_ROWS_H_
#define HONE_DB_ROWS_H_

#include <concepts>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "db/sqlite.h"
#include "kernels/config/device_spec.h"
#include "kernels/config/problem.h"
#include "tuner/trial.h"

namespace hone {

// The columns of one row to insert; a visitor of db/fields.h.
class NewRow {
 public:
  // Only bool itself: a literal "" must not become a number.
  template <std::same_as<bool> T>
  void operator()(absl::string_view column, T value) {
    Add(column, int64_t{value});
  }
  void operator()(absl::string_view column, int64_t value) {
    Add(column, value);
  }
  // NaN becomes NULL.
  void operator()(absl::string_view column, double value) {
    Add(column, value);
  }
  void operator()(absl::string_view column, absl::string_view value) {
    Add(column, std::string(value));
  }
  void Blob(absl::string_view column, std::string bytes) {
    Add(column, Bytes{std::move(bytes)});
  }

  // Returns the new row's id.
  absl::StatusOr<int64_t> InsertInto(sqlite::Database& database,
                                     absl::string_view table) const;

 private:
  struct Bytes {
    std::string bytes;
  };
  using Value = std::variant<int64_t, double, std::string, Bytes>;
  void Add(absl::string_view column, Value value) {
    columns_.emplace_back(std::string(column), std::move(value));
  }
  std::vector<std::pair<std::string, Value>> columns_;
};

// Reads columns one after another; a visitor of db/fields.h.
class RowReader {
 public:
  explicit RowReader(const sqlite::Statement* statement, int first = 0)
      : statement_(statement), column_(first) {}
  void operator()(absl::string_view, bool& value) { value = Int() != 0; }
  void operator()(absl::string_view, int64_t& value) { value = Int(); }
  void operator()(absl::string_view, double& value) { value = Real(); }
  void operator()(absl::string_view, std::string& value) { value = Text(); }

  int64_t Int() { return statement_->Int(column_++); }
  // NULL becomes NaN.
  double Real();
  std::string Text() { return statement_->Text(column_++); }
  std::string Blob() { return statement_->Blob(column_++); }

 private:
  const sqlite::Statement* const statement_;
  int column_;
};

// The names of fields as a SELECT list, "t.a, t.b"; a visitor of db/fields.h.
class ColumnNames {
 public:
  explicit ColumnNames(absl::string_view table) : table_(table) {}
  template <typename T>
  void operator()(absl::string_view column, const T&) {
    absl::StrAppend(&list_, list_.empty() ? "" : ", ", table_, ".", column);
  }
  const std::string& list() const { return list_; }

 private:
  const std::string table_;
  std::string list_;
};

// ---- shared values: the id of the row, inserted if it is new ----

struct DeviceIds {
  int64_t device = 0;
  int64_t device_class = 0;
};
// InvalidArgument: the device does not pass CheckDevice().
absl::StatusOr<DeviceIds> InternDevice(sqlite::Database& database,
                                       const DeviceSpec& device);
absl::StatusOr<int64_t> InternProblem(sqlite::Database& database,
                                      const Problem& problem);
absl::StatusOr<int64_t> InternProtocol(sqlite::Database& database,
                                       const Protocol& protocol);
absl::StatusOr<int64_t> InternConfig(sqlite::Database& database,
                                     absl::string_view text);
// Without compile_ms.
absl::StatusOr<int64_t> InternKernel(sqlite::Database& database,
                                     const CompileInfo& compile);

absl::StatusOr<DeviceSpec> ReadDevice(sqlite::Database& database, int64_t id);
// The row with this hash; 0, which no row has, when there is none.
absl::StatusOr<int64_t> FindRow(sqlite::Database& database,
                                absl::string_view table,
                                absl::string_view hash);
// DataLoss: no such row.
absl::StatusOr<std::string> ReadText(sqlite::Database& database,
                                     absl::string_view table,
                                     absl::string_view column, int64_t id);
// DataLoss: the text is no problem.
absl::StatusOr<Problem> ParseProblem(const std::string& text);
// SELECT list of the kernel table under the alias k, for ReadKernel().
const std::string& KernelColumns();
CompileInfo ReadKernel(RowReader& row);

// ---- trials ----

absl::StatusOr<int64_t> InsertTrial(sqlite::Database& database,
                                    const DeviceSpec& device,
                                    const Protocol& protocol,
                                    const Trial& trial);
absl::StatusOr<std::vector<Trial>> ReadTrials(sqlite::Database& database,
                                              const Problem& problem,
                                              const DeviceSpec& device,
                                              const Protocol& protocol,
                                              bool this_state_only);

// NotFound.
absl::StatusOr<Trial> ReadTrial(sqlite::Database& database,
                                const Problem& problem, int64_t id);

// 20 bytes a sample, little-endian: duration_ns, sm_clock_khz, round.
inline constexpr size_t kSampleBytes = 20;
std::string PackSamples(const std::vector<Sample>& samples);
std::vector<Sample> UnpackSamples(const std::string& bytes);

// A stored text that does not parse: DataLoss instead of the parser's code.
absl::Status Unreadable(const absl::Status& status);

}  // namespace hone

#endif  // HONE_DB_ROWS_H_
