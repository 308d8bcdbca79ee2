#include "tests/soak/fault_journal.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

namespace hone {

int64_t Summary::stored() const {
  int64_t sum = std::min(kills, interruptions);
  for (const auto& [kind, tally] : tallies) {
    for (const auto& [outcome, count] : tally.outcomes) sum += count;
  }
  return sum;
}

// A finished layer: a line for each outcome of its faults and each mismatch,
// then one that ends it, fields by tabs.
void WriteJournal(const std::string& path, const Summary& layer) {
  std::ofstream file(path, std::ios::app);
  std::ostringstream text;
  for (const auto& [kind, tally] : layer.tallies) {
    for (const auto& [outcome, count] : tally.outcomes) {
      text << "fault\t" << kind << "\t" << outcome << "\t" << count << "\t"
           << tally.detail << "\n";
    }
  }
  for (const std::string& mismatch : layer.mismatches) {
    text << "mismatch\t" << mismatch << "\n";
  }
  text << "layer\t" << layer.kills << "\t" << layer.interruptions << "\t"
       << layer.seconds << "\t" << layer.workers << "\t" << layer.good << "\t"
       << layer.lookups << "\t" << layer.lookups_failed << "\n";
  file << text.str() << std::flush;
}

void Add(const Summary& layer, Summary& sum) {
  sum.layers += layer.layers;
  sum.kills += layer.kills;
  sum.interruptions += layer.interruptions;
  sum.seconds += layer.seconds;
  sum.workers += layer.workers;
  sum.good += layer.good;
  sum.lookups += layer.lookups;
  sum.lookups_failed += layer.lookups_failed;
  for (const auto& [kind, tally] : layer.tallies) {
    for (const auto& [outcome, count] : tally.outcomes) {
      sum.tallies[kind].outcomes[outcome] += count;
    }
    if (sum.tallies[kind].detail.empty()) {
      sum.tallies[kind].detail = tally.detail;
    }
  }
  sum.mismatches.insert(sum.mismatches.end(), layer.mismatches.begin(),
                        layer.mismatches.end());
}

Summary ReadJournal(const std::string& path) {
  Summary sum;
  Summary layer;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    const std::vector<std::string> fields = absl::StrSplit(line, '\t');
    const auto number = [&](size_t i) {
      int64_t value = 0;
      return i < fields.size() && absl::SimpleAtoi(fields[i], &value) ? value
                                                                      : 0;
    };
    if (fields[0] == "fault" && fields.size() == 5) {
      layer.tallies[fields[1]].outcomes[fields[2]] += number(3);
      layer.tallies[fields[1]].detail = fields[4];
    } else if (fields[0] == "mismatch" && fields.size() == 2) {
      layer.mismatches.push_back(fields[1]);
    } else if (fields[0] == "layer" && fields.size() == 8) {
      layer.layers = 1;
      layer.kills = number(1);
      layer.interruptions = number(2);
      if (!absl::SimpleAtod(fields[3], &layer.seconds)) layer.seconds = 0;
      layer.workers = number(4);
      layer.good = number(5);
      layer.lookups = number(6);
      layer.lookups_failed = number(7);
      Add(layer, sum);
      layer = Summary();
    }
  }
  return sum;
}

}  // namespace hone
