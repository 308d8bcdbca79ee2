// What a fault run has found so far, layer by layer, in a file that a run which
// was cut off goes on from.
#ifndef HONE_TESTS_SOAK_FAULT_JOURNAL_H_
#define HONE_TESTS_SOAK_FAULT_JOURNAL_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace hone {

// What became of the faults of a kind: by outcome, and one detail.
struct Tally {
  std::map<std::string, int64_t> outcomes;
  std::string detail;
};

// What one layer, or all of them, came to.
struct Summary {
  int64_t layers = 0;
  // Kills of the worker so far; they are stored with whatever ran next.
  int64_t kills = 0;
  int64_t interruptions = 0;
  double seconds = 0;
  int64_t workers = 0;
  int64_t good = 0;
  int64_t lookups = 0;
  int64_t lookups_failed = 0;
  std::map<std::string, Tally> tallies;
  std::vector<std::string> mismatches;

  // Faults that are stored as something.
  int64_t stored() const;
};

// Appends a finished layer to the journal at `path`.
void WriteJournal(const std::string& path, const Summary& layer);

void Add(const Summary& layer, Summary& sum);

// What the finished layers of earlier calls left; of one that was cut off
// nothing counts.
Summary ReadJournal(const std::string& path);

}  // namespace hone

#endif  // HONE_TESTS_SOAK_FAULT_JOURNAL_H_
