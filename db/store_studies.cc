// Studies of declared spaces in the store.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "db/rows.h"
#include "db/store.h"
#include "db/study_json.h"
#include "kernels/config/status_macros.h"

namespace hone {
namespace {

using sqlite::Database;
using sqlite::Statement;

absl::Status NoSuchStudy(absl::string_view id) {
  return absl::NotFoundError(absl::StrCat("there is no study \"", id, "\""));
}

absl::Status InsertResult(Database& database, absl::string_view study,
                          const StoredStudyResult& result, int64_t unix_us) {
  NewRow row;
  row("study", study);
  row("config", result.config);
  row("outcome", ToString(result.outcome));
  row("detail", result.detail);
  row("unix_us", unix_us);
  row.Blob("samples", PackSamples(result.samples));
  return row.InsertInto(database, "study_result").status();
}

// Reads columns config, outcome, detail and samples.
absl::StatusOr<StoredStudyResult> ReadResult(const Statement& select) {
  RowReader row(&select);
  StoredStudyResult result;
  result.config = row.Text();
  const absl::StatusOr<Outcome> outcome = ParseOutcome(row.Text());
  HONE_RETURN_IF_ERROR(Unreadable(outcome.status()));
  result.outcome = *outcome;
  result.detail = row.Text();
  result.samples = UnpackSamples(row.Blob());
  return result;
}

// The configs of any study of this problem and device of which the last that is
// known is a failure, in the order found.
absl::StatusOr<std::vector<StoredStudyResult>> ReadFailures(
    Database& database, const StudySpec& spec) {
  std::vector<StoredStudyResult> failures;
  HONE_ASSIGN_OR_RETURN(
      Statement select,
      // SQLite takes the columns beside max() from the row that has it.
      database.Prepare("SELECT r.config, r.outcome, r.detail, x'', max(r.id)"
                       " FROM study s JOIN study_result r ON r.study = s.id"
                       " WHERE s.problem = ? AND s.device = ?"
                       " GROUP BY r.config ORDER BY max(r.id)"));
  select.Bind(spec.problem).Bind(spec.device);
  while (true) {
    HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
    if (!found) return failures;
    HONE_ASSIGN_OR_RETURN(StoredStudyResult failure, ReadResult(select));
    if (failure.outcome != Outcome::kMeasured) {
      failures.push_back(std::move(failure));
    }
  }
}

}  // namespace

absl::StatusOr<bool> Store::OpenStudy(absl::string_view id, const Study& study,
                                      bool retry_failures, int64_t max_open,
                                      int64_t unix_us) {
  const std::string text = WriteStudySpec(study.spec());
  bool opened = false;
  HONE_RETURN_IF_ERROR(Write([&](Database& database) -> absl::Status {
    {
      HONE_ASSIGN_OR_RETURN(
          Statement find,
          database.Prepare("SELECT spec FROM study WHERE id = ?"));
      HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(id).Step());
      if (found && find.Text(0) == text) return absl::OkStatus();
      if (found) {
        return absl::AlreadyExistsError(
            absl::StrCat("study ", id, " has another spec"));
      }
    }
    HONE_ASSIGN_OR_RETURN(
        const int64_t open,
        database.QueryInt("SELECT count(*) FROM study WHERE closed_us = 0"));
    if (open >= max_open) {
      return absl::ResourceExhaustedError(absl::StrCat(
          open, " studies are open; at most ", max_open, " may be"));
    }
    std::vector<StoredStudyResult> failures;
    if (!retry_failures) {
      HONE_ASSIGN_OR_RETURN(failures, ReadFailures(database, study.spec()));
    }
    NewRow row;
    row("id", id);
    row("problem", study.spec().problem);
    row("device", study.spec().device);
    row("spec", text);
    row("opened_us", unix_us);
    row("closed_us", int64_t{0});
    HONE_RETURN_IF_ERROR(row.InsertInto(database, "study").status());
    for (const StoredStudyResult& failure : failures) {
      const absl::StatusOr<size_t> config =
          study.space().FindText(failure.config);
      if (!config.ok()) continue;  // of another space
      if (*config == study.baseline()) {
        return absl::InvalidArgumentError(absl::StrCat(
            "baseline failed in an earlier study (", ToString(failure.outcome),
            ": ", failure.detail,
            "); it must be a config that works, or retry_failures set"));
      }
      HONE_RETURN_IF_ERROR(InsertResult(database, id, failure, unix_us));
    }
    opened = true;
    return absl::OkStatus();
  }));
  return opened;
}

absl::Status Store::RecordStudyResults(
    absl::string_view id, absl::Span<const StoredStudyResult> results,
    int64_t unix_us) {
  return Write([&](Database& database) -> absl::Status {
    {
      HONE_ASSIGN_OR_RETURN(
          Statement find,
          database.Prepare("SELECT closed_us FROM study WHERE id = ?"));
      HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(id).Step());
      if (!found) return NoSuchStudy(id);
      if (find.Int(0) != 0) {
        return absl::FailedPreconditionError(
            absl::StrCat("study ", id, " is closed"));
      }
    }
    for (const StoredStudyResult& result : results) {
      HONE_RETURN_IF_ERROR(InsertResult(database, id, result, unix_us));
    }
    return absl::OkStatus();
  });
}

absl::StatusOr<bool> Store::CloseStudy(absl::string_view id, int64_t unix_us) {
  bool closed = false;
  HONE_RETURN_IF_ERROR(Write([&](Database& database) -> absl::Status {
    HONE_ASSIGN_OR_RETURN(
        Statement close,
        database.Prepare("UPDATE study SET closed_us = ? WHERE id = ?"
                         " AND closed_us = 0"));
    HONE_RETURN_IF_ERROR(
        close.Bind(std::max<int64_t>(unix_us, 1)).Bind(id).Run());
    closed = database.changes() == 1;
    if (closed) return absl::OkStatus();
    HONE_ASSIGN_OR_RETURN(Statement find,
                          database.Prepare("SELECT 1 FROM study WHERE id = ?"));
    HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(id).Step());
    return found ? absl::OkStatus() : NoSuchStudy(id);
  }));
  return closed;
}

absl::StatusOr<StoredStudy> Store::GetStudy(absl::string_view id) const {
  StoredStudy stored;
  HONE_RETURN_IF_ERROR(Read([&](Database& database) -> absl::Status {
    {
      HONE_ASSIGN_OR_RETURN(
          Statement find,
          database.Prepare("SELECT id, spec, opened_us, closed_us FROM study"
                           " WHERE id = ?"));
      HONE_ASSIGN_OR_RETURN(const bool found, find.Bind(id).Step());
      if (!found) return NoSuchStudy(id);
      RowReader row(&find);
      stored.id = row.Text();
      absl::StatusOr<StudySpec> spec = ReadStudySpec(row.Text());
      HONE_RETURN_IF_ERROR(Unreadable(spec.status()));
      stored.spec = *std::move(spec);
      stored.opened_us = row.Int();
      stored.closed_us = row.Int();
    }
    HONE_ASSIGN_OR_RETURN(
        Statement select,
        database.Prepare("SELECT config, outcome, detail, samples"
                         " FROM study_result WHERE study = ? ORDER BY id"));
    select.Bind(id);
    while (true) {
      HONE_ASSIGN_OR_RETURN(const bool found, select.Step());
      if (!found) return absl::OkStatus();
      HONE_ASSIGN_OR_RETURN(StoredStudyResult result, ReadResult(select));
      stored.results.push_back(std::move(result));
    }
  }));
  return stored;
}

}  // namespace hone
