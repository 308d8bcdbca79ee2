#include "tests/kernels/emulator/cases/case_runner.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "db/json.h"
#include "kernels/config/status_macros.h"

namespace hone::emulator {
namespace {

// Every call of NVRTC has its price, and so has every kernel in one.
constexpr size_t kPerUnit = 24;

struct Unit {
  std::string arch;
  std::vector<size_t> cases;  // indices
  std::shared_ptr<CompiledUnit> result = std::make_shared<CompiledUnit>();
};

std::string KernelName(size_t i) { return absl::StrCat("case_", i); }

void Compile(const Nvrtc& nvrtc,
             const std::vector<const InstructionCase*>& cases, Unit* unit) {
  CompileRequest request;
  request.arch = unit->arch;
  for (const size_t i : unit->cases) {
    request.source += CaseSource(*cases[i], KernelName(i));
  }
  absl::StatusOr<CompileResult> compiled = nvrtc.Compile(request);
  if (!compiled.ok()) {
    unit->result->status = compiled.status();
    return;
  }
  if (!compiled->ok()) {
    unit->result->status = absl::InvalidArgumentError(compiled->log);
    return;
  }
  absl::StatusOr<Module> module = Module::Parse(compiled->ptx);
  unit->result->status = module.status();
  if (!module.ok()) return;
  unit->result->module = *std::move(module);
  unit->result->cubin = std::move(compiled->cubin);
}

}  // namespace

std::vector<CompiledCase> CompileCases(
    const Nvrtc& nvrtc, const std::vector<const InstructionCase*>& cases,
    const std::function<std::string(const InstructionCase&)>& arch) {
  std::map<std::string, std::vector<size_t>> by_arch;
  for (size_t i = 0; i < cases.size(); ++i) {
    by_arch[arch(*cases[i])].push_back(i);
  }
  std::vector<Unit> units;
  for (const auto& [name, all] : by_arch) {
    for (size_t at = 0; at < all.size(); at += kPerUnit) {
      Unit unit;
      unit.arch = name;
      unit.cases.assign(all.begin() + at,
                        all.begin() + std::min(at + kPerUnit, all.size()));
      units.push_back(std::move(unit));
    }
  }
  std::atomic<size_t> next{0};
  const auto work = [&] {
    for (size_t i = next++; i < units.size(); i = next++) {
      Compile(nvrtc, cases, &units[i]);
    }
  };
  std::vector<std::thread> threads;
  for (unsigned i = 1; i < std::thread::hardware_concurrency(); ++i) {
    threads.emplace_back(work);
  }
  work();
  for (std::thread& thread : threads) thread.join();
  std::vector<CompiledCase> out(cases.size());
  for (const Unit& unit : units) {
    for (const size_t i : unit.cases) {
      out[i] = {cases[i], KernelName(i), unit.result};
    }
  }
  return out;
}

std::string WriteVectors(const VectorFile& file) {
  const VectorHeader& h = file.header;
  std::string out = WriteJson(Json(JsonObject{{"arch", Json(h.arch)},
                                              {"device", Json(h.device)},
                                              {"nvrtc", Json(h.nvrtc)},
                                              {"rounds", Json(h.rounds)},
                                              {"seed", Json(h.seed)}}));
  out += '\n';
  for (const CaseVector& c : file.cases) {
    std::string hex;
    for (const uint32_t word : c.outputs) {
      absl::StrAppendFormat(&hex, "%08x", word);
    }
    absl::StrAppend(&out,
                    WriteJson(Json(JsonObject{{"bound", Json(c.bound)},
                                              {"instruction", Json(c.name)},
                                              {"max_error", Json(c.max_error)},
                                              {"outputs", Json(std::move(hex))},
                                              {"status", Json(c.status)}})),
                    "\n");
  }
  return out;
}

absl::StatusOr<VectorFile> ReadVectors(absl::string_view text) {
  VectorFile file;
  bool first = true;
  for (absl::string_view line : absl::StrSplit(text, '\n')) {
    if (line.empty()) continue;
    HONE_ASSIGN_OR_RETURN(const Json json, ReadJson(line));
    HONE_ASSIGN_OR_RETURN(JsonFields fields, JsonFields::Of(json, ""));
    if (std::exchange(first, false)) {
      VectorHeader& h = file.header;
      HONE_RETURN_IF_ERROR(fields.Get("arch", h.arch));
      HONE_RETURN_IF_ERROR(fields.Get("device", h.device));
      HONE_RETURN_IF_ERROR(fields.Get("nvrtc", h.nvrtc));
      HONE_RETURN_IF_ERROR(fields.Get("rounds", h.rounds));
      HONE_RETURN_IF_ERROR(fields.Get("seed", h.seed));
    } else {
      CaseVector c;
      std::string hex;
      HONE_RETURN_IF_ERROR(fields.Get("bound", c.bound));
      HONE_RETURN_IF_ERROR(fields.Get("instruction", c.name));
      HONE_RETURN_IF_ERROR(fields.Get("max_error", c.max_error));
      HONE_RETURN_IF_ERROR(fields.Get("outputs", hex));
      HONE_RETURN_IF_ERROR(fields.Get("status", c.status));
      for (size_t at = 0; at + 8 <= hex.size(); at += 8) {
        uint32_t word = 0;
        if (!absl::SimpleHexAtoi(absl::string_view(hex).substr(at, 8), &word)) {
          return absl::InvalidArgumentError(
              absl::StrCat(c.name, ": outputs must be hex digits"));
        }
        c.outputs.push_back(word);
      }
      file.cases.push_back(std::move(c));
    }
    HONE_RETURN_IF_ERROR(fields.Finish());
  }
  if (first) return absl::InvalidArgumentError("no header");
  return file;
}

}  // namespace hone::emulator
